// Written by generate-types.mjs from docs/reference/openapi.json; do not edit.

/** Types of the HTTP API: what requests and responses consist of. */

/** Stored run to accept as the baseline of its suite. */
export interface AcceptBody {
  /** Name of the person who accepts the run. */
  by: string;
  /** Why the run is the new baseline. */
  reason: string;
}

/** Run that was accepted as the baseline of its suite. */
export interface AcceptResponse {
  /** Time of the acceptance. */
  accepted_at: string;
  /** Name of the person or service that decided. */
  by: string;
  /** File that the baseline was written to, if any. */
  file?: string | null;
  /** Share of cases that passed, from 0 to 1. */
  pass_rate: number | null;
  /** Reason for the decision. */
  reason: string;
  /** Id of the baseline that this one replaces. */
  replaces?: string | null;
  /** Id of the accepted run. */
  run_id: string;
  /** Id of the suite. */
  suite_id: string;
}

/** Action that follows from the window. */
export type Action = "CONTINUE" | "FLAG_FOR_REVIEW" | "TRIGGER_EXPANSION_RESEARCH";

/** Request to activate a scorer version. */
export interface ActivateRequest {
  /** Id of the ablation that permits the activation. */
  ablation_id?: string | null;
  /** Name of the person who activates it. */
  by: string;
  /** Reason for the activation, for the log. */
  reason: string;
  /** Version of the scorer to activate. */
  version: string;
}

/** Result of an activation or a rollback. */
export interface ActivateResponse {
  /** Id of the ablation that permits it; absent for a rollback. */
  ablation_id: string | null;
  /** Either `activate` or `rollback`. */
  action: string;
  /** Time in microseconds since the Unix epoch. */
  activated_at: number;
  /** Name of the person who did it. */
  activated_by: string;
  /** Id of the activation. */
  activation_id: string;
  /** Version that was active before. */
  previous: string;
  /** Reason given for the change. */
  reason: string;
  /** Version that became active. */
  version: string;
}

/** Log entry of an activation or rollback. */
export interface ActivationRow {
  /** Id of the ablation that permits it; absent for a rollback. */
  ablation_id: string | null;
  /** Either `activate` or `rollback`. */
  action: string;
  /** Time in microseconds since the Unix epoch. */
  activated_at: number;
  /** Name of the person who did it. */
  activated_by: string;
  /** Id of the activation. */
  activation_id: string;
  /** Version that was active before. */
  previous: string;
  /** Reason given for the change. */
  reason: string;
  /** Version that became active. */
  version: string;
}

/** Label of an agent's run. */
export interface AgentRunLabel {
  /** Name of the person who labelled. */
  annotator: string;
  /** Time of the label. */
  created_at: string;
  /** Step (from 1) at which the person noticed a loop. */
  loop_step: number | null;
  /** Id of the run. */
  run_id: string;
  /** Whether the agent solved its task. */
  solved: boolean;
}

/** Label of an agent's run to store or to remove. */
export interface AgentRunLabelBody {
  /** Name of the person who labels. */
  annotator: string;
  /** Step (from 1) at which the person noticed that the agent was in a loop. */
  loop_step?: number | null;
  /** Whether the agent solved its task; null removes the label. */
  solved?: boolean | null;
}

/** Labels of one run. */
export interface AgentRunLabels {
  /** Number of labels of all runs, counted up to 1,000. */
  labelled: number;
  /** Labels of this run, newest first. */
  labels: AgentRunLabel[];
}

/** Page of stored runs. */
export interface AgentRunPage {
  /** Cursor of the next page; absent on the last page. */
  next_cursor?: string | null;
  /** Stored runs, latest first. */
  runs: AgentRunSummary[];
}

/** Summary of a stored run in a list. */
export interface AgentRunSummary {
  /** Id of the run. */
  conversation_id: string;
  /** Time when the run was first reported. */
  created_at: string;
  /** First step (from 1) with NUDGE. */
  first_nudge_step: number | null;
  /** First step (from 1) with STOP or ESCALATE. */
  first_stop_step: number | null;
  /** What the run shows: `work`, `deliberation` or `mixed`. */
  kind: string;
  /** Number of messages in the run. */
  messages: number;
  /** Reason for the latest recommendation. */
  reason: string;
  /** Latest recommendation, such as `CONTINUE`. */
  signal: string;
  /** Number of judged steps. */
  steps: number;
  /** Time when a message was last appended. */
  updated_at: string;
  /** Number of steps that brought nothing new. */
  wasted_steps: number;
}

/** A mean over queries. */
export interface Aggregate {
  /** Bootstrap interval of the mean; absent with fewer than two queries or if not requested. */
  ci: Interval | null;
  /** Mean value; absent if no query has a value. */
  mean: number | null;
  /** Number of queries with a value. */
  queries: number;
}

/** Findings about one question. */
export interface Answer {
  /** Quoted sentences, lists, tables and code that answer the question; empty if nothing was found. */
  findings: Finding[];
  /** What the question asks for. */
  kind: QuestionKind;
  /** Words of the question that no accepted result contains. */
  missing: string[];
  /** Whether no source has what the question asks for. */
  open: boolean;
  /** Text of the question. */
  question: string;
  /** Number of accepted results that contain at least 60 % of its terms. */
  results: number;
  /** Largest share of the question's terms found in one accepted result, from 0 to 1. */
  share: number;
  /** Whether the sources answer the question. */
  state: AnswerState;
  /** Answer that a chat model wrote from the sources, with its unsupported sentences removed; absent without one. */
  written?: WrittenAnswer | null;
}

/** Whether the sources answer a question. */
export type AnswerState = "answered" | "related" | "not_found";

/** A question and its answer. */
export interface AnsweredQuestion {
  /** Text of the claim or decision that answers it. */
  answer: string;
  /** Text of the question. */
  question: string;
}

/** Verdict after appending messages to a run. */
export interface AppendedMessages {
  /** Probability that the recommendation is right, from 0 to 1; absent for discussions. */
  confidence?: number | null;
  /** Id of the run. */
  conversation_id: string;
  /** Expected number of further steps without a new result. */
  expected_waste: number;
  /** Expected cost of these steps in the currency of the log, if the log has costs. */
  expected_waste_cost?: number | null;
  /** Expected number of tokens for these steps, if the log has token counts. */
  expected_waste_tokens?: number | null;
  /** First step (from 1) with NUDGE. */
  first_nudge_step: number | null;
  /** First step (from 1) with STOP or ESCALATE. */
  first_stop_step: number | null;
  /** What the run shows so far: work, deliberation, or both. */
  kind: LogKind;
  /** Number of messages in the run. */
  messages: number;
  /** Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE. */
  nudge?: string | null;
  /** Reason for the recommendation in one sentence. */
  reason: string;
  /** Current recommendation. */
  signal: ProgressSignal;
  /** Messages that were not understood. */
  skipped: Skipped;
  /** Number of steps judged so far. */
  steps: number;
  /** Verdict after each step that these messages completed. */
  verdicts: StepVerdict[];
}

/** Verdicts after appending rounds to a conversation. */
export interface AppendedRounds {
  /** Id of the extended conversation. */
  conversation_id: string;
  /** Total number of rounds after the append. */
  rounds: number;
  /** Current recommendation; CONTINUE while there are no rounds. */
  signal: Signal;
  /** Verdict after each appended round, in order. */
  verdicts: RoundVerdict[];
}

/** Method that scores how new results are. */
export type Assessor = "seed" | "claims" | "semantic" | "model" | "auto";

/** Agreement of two assessors over the rounds that both scored. */
export interface AssessorAgreement {
  /** First assessor of the pair. */
  a: Assessor;
  /** Second assessor of the pair. */
  b: Assessor;
  /** Mean absolute difference of their shares. */
  mean_difference: number;
  /** Number of rounds that both scored. */
  rounds: number;
  /** Number of rounds in which both scores were on the same side of the threshold. */
  same_side: number;
}

/** Record of one attempt at a case. */
export interface Attempt {
  /** Error message; absent for the attempt that succeeded. */
  error?: string | null;
  /** Error category, such as `rate_limit` or `crash`. */
  error_kind?: string | null;
  /** Latency of the attempt in milliseconds. */
  latency_ms: number;
  /** Delay in milliseconds before the next attempt. */
  waited_ms?: number | null;
}

/** A write request made through a server. */
export interface AuditEntry {
  /** IP address of the client. */
  address: string;
  /** Time of the write request. */
  at: string;
  /** HTTP method of the request. */
  method: string;
  /** Request path without the query string. */
  path: string;
  /** Request id, as in logs and responses. */
  request_id: string;
  /** HTTP status code of the response. */
  status: number;
  /** Token id of the caller, or `loopback`. */
  who: string;
}

/** Audit log of write requests made through a server. */
export interface AuditLog {
  /** Audit entries, most recent first. */
  entries: AuditEntry[];
}

/** Run that was accepted as a baseline. */
export interface BaselineSummary {
  /** Time of the acceptance. */
  accepted_at: string;
  /** Name of the person who accepted it. */
  accepted_by: string;
  /** Id of the baseline. */
  baseline_id: string;
  /** Reason for accepting the run. */
  reason: string;
  /** Id of the accepted run. */
  run_id: string;
  /** Id of the suite. */
  suite_id: string;
}

/** Accepted runs of a suite. */
export interface Baselines {
  /** Accepted runs, newest first. */
  baselines: BaselineSummary[];
}

/** Request to start a stored conversation. */
export interface BeginConversationRequest {
  /** Conversation id; generated if absent. */
  conversation_id?: string | null;
  /** Built-in profile that decides; `default` if absent. */
  profile?: "default" | "spec" | null;
  /** Rounds so far, in order. */
  rounds?: Round[];
  /** Topic of the conversation, in a few words. */
  topic?: string | null;
}

/** Progress of a benchmark run. */
export interface BenchJobProgress {
  /** Number of stored results. */
  done: number;
  /** Number of failed and timed-out results. */
  failed: number;
  /** Number of passed results. */
  passed: number;
  /** Total number of planned results. */
  planned: number;
  /** Number of undecided results. */
  undecided: number;
}

/** Result of one execution of one case. */
export interface BenchmarkResult {
  /** Answer of the target as text. */
  actual_output: string | null;
  /** Record of every attempt, in order. */
  attempts?: Attempt[];
  /** Whether the answer came from the cache, in which case `latency_ms` says nothing about the target. */
  cached?: boolean;
  /** Content hash of the case at the time of the run. */
  case_hash?: string | null;
  /** Id of the benchmark case. */
  case_id: string;
  /** Cost in US dollars, if reported. */
  cost_usd?: number | null;
  /** Timeout in milliseconds, recorded when no answer came, so that the latency can be bounded. */
  deadline_ms?: number | null;
  /** Whether the case is declared deterministic. */
  deterministic?: boolean;
  /** Error message; absent without an error. */
  error: string | null;
  /** Error category, such as `rate_limit` or `crash`; failures are counted by it. */
  error_kind?: string | null;
  /** Component that caused the error. */
  error_owner?: ErrorOwner | null;
  /** Label that a person assigned afterwards. */
  human_label: string | null;
  /** Opinion of each judge. */
  judges?: JudgeOpinion[];
  /** Latency of the last attempt in milliseconds. */
  latency_ms: number;
  /** Mean score of the judges, between 0 and 1. */
  llm_judge_score: number | null;
  /** Additional metrics reported by the target. */
  metrics?: Record<string, number>;
  /** Human-readable reasons for the status. */
  reasons?: string[];
  /** Whether the case is in the regression tier of its suite and must always pass. */
  regression?: boolean;
  /** Number of the repeat, from 0. */
  repeat: number;
  /** Number of attempts after the first. */
  retries: number;
  /** Score of the answer between 0 and 1; absent when it was not scored. */
  score?: number | null;
  /** Every scorer, metric and criterion of the answer by name, in the order of its source. */
  scores?: NamedScore[];
  /** Outcome of the execution. */
  status: Status;
  /** Total tokens, input and output. */
  token_cost: number;
  /** Number of input tokens. */
  tokens_in?: number | null;
  /** Number of output tokens. */
  tokens_out?: number | null;
  /** Variant of the target, when several are compared. */
  variant?: string | null;
}

/** One execution of a suite against a configuration. */
export interface BenchmarkRun {
  /** Time when the run ended; absent while it is running or after it was killed. */
  completed_at: string | null;
  /** Model, prompt version, weights and their hashes, as required to reproduce the run. */
  config_snapshot: Record<string, unknown>;
  /** Results of all cases, variants and repeats. */
  results: BenchmarkResult[];
  /** Id of the benchmark run. */
  run_id: string;
  /** Time when the run started. */
  started_at: string;
  /** Content hash of the suite at the time of the run; distinguishes runs of different suite versions. */
  suite_hash?: string | null;
  /** Id of the suite that was run. */
  suite_id: string;
  /** Summary statistics of the run. */
  summary: BenchmarkSummary | null;
  /** Agent or skill under evaluation. */
  target: string;
}

/** Aggregate metrics of a run. */
export interface BenchmarkSummary {
  /** Number of cases with at least one result. */
  cases: number;
  /** Number of results by status. */
  counts: StatusCounts;
  /** Metrics that the suite derives from the named scores, such as promptfoo's `derivedMetrics`. */
  derived?: DerivedMetric[];
  /** Number of errors by owner. */
  errors_by_owner: Record<string, number>;
  /** Number of failures by category. */
  failure_categories: Record<string, number>;
  /** Ids of cases whose repeats disagree. */
  flaky: string[];
  /** Krippendorff's alpha of the judge scores, if several judges scored and their scores vary. */
  judge_agreement?: number | null;
  /** Mean latency of answered results in milliseconds. */
  mean_latency_ms: number | null;
  /** Mean judge score between 0 and 1, if any result was judged. */
  mean_quality_score: number | null;
  /** Mean score between 0 and 1, if any; an error owned by the target scores 0. */
  mean_score: number | null;
  /** 95th percentile of the latency of answered results in milliseconds, by linear interpolation. */
  p95_latency_ms: number | null;
  /** Passed results divided by decided results; absent when none was decided. */
  pass_rate: number | null;
  /**
   * 95 % confidence interval of the pass rate: clustered by case, or Wilson's when results do not vary or
   * there is only one case.
   */
  pass_rate_interval: Interval | null;
  /** Standard error of the pass rate, clustered by case; absent with fewer than two cases. */
  pass_rate_standard_error: number | null;
  /** Summary of each case, ordered by id. */
  per_case: CaseSummary[];
  /** pass@k and pass^k over cases with enough decided repeats. */
  reliability: Reliability[];
  /** Summary of each scorer, metric and criterion by name, in the order of the first result that has it. */
  scores?: ScoreSummary[];
  /** Total cost of all results in US dollars, if reported. */
  total_cost_usd: number | null;
  /** Total tokens of all results, including errors. */
  total_token_cost: number;
}

/** Estimate with its bootstrap interval. */
export interface BootstrapEstimate {
  /** Statistic of the original sample. */
  estimate: number;
  /** Bootstrap confidence interval of the estimate. */
  interval: Interval;
  /** Standard deviation of the replicates. */
  standard_error: number;
}

/** Method that derives the interval from the replicates. */
export type BootstrapMethod = "percentile" | "bca";

/** Settings of a bootstrap. */
export interface BootstrapSettings {
  /** Nominal coverage of the interval, such as 0.95. */
  confidence: number;
  /** Method that derives the interval from the replicates. */
  method: BootstrapMethod;
  /** Number of resamples. */
  resamples: number;
  /** Seed of all resamples; record it with the result. */
  seed: number;
}

/** Bounds of an interval. */
export interface Bounds {
  /** Upper bound of the interval. */
  high: number;
  /** Lower bound of the interval. */
  low: number;
}

/** Budget limit that was reached. */
export type BudgetLimit = "seconds" | "tokens" | "money";

/**
 * Request of a remote caller for a new scorer version: weights fitted to feedback, unless `online` or
 * `prompt` is given.
 */
export interface CalibrateScorerRequest {
  /** Exported feedback (JSON Lines) to use instead of the stored one. */
  feedback?: string | null;
  /** Whether the weights adjust themselves online (variant C). */
  online?: boolean;
  /** Prompt of the scorer model (variant B). */
  prompt?: string | null;
  /** Smallest ridge penalty on the correction by features; 10 if absent. */
  ridge?: number | null;
  /** Scope whose feedback is used; all scopes if absent. */
  scope_id?: string | null;
}

/** A new scorer version, not yet active. */
export interface CalibratedScorer {
  /** Version that it is based on. */
  based_on: string;
  /** Number of drift alarms, for weights that are updated online. */
  drift_alarms?: number | null;
  /** Prediction quality on held-out proposals, for fitted weights. */
  fitted?: Fitted | null;
  /** Number of labels that it learned from. */
  labels: number;
  /** Kind of change that the version makes. */
  variant: Variant;
  /** Version of the new scorer. */
  version: string;
}

/** Agreement of a judge with human labels. */
export interface Calibration {
  /** Fraction of answers on which they agree. */
  agreement: number;
  /** 95 % confidence interval of the agreement (Wilson). */
  agreement_interval: Interval;
  /** Answers that both the judge and people fail. */
  both_fail: number;
  /** Answers that both the judge and people pass. */
  both_pass: number;
  /** Cohen's kappa, the agreement beyond chance; absent when either side gave only one kind of label. */
  kappa: number | null;
  /** Answers that the judge fails and people pass. */
  only_human_passes: number;
  /** Answers that the judge passes and people fail; a gate would let these through. */
  only_judge_passes: number;
  /** Fraction of human passes that the judge passes. */
  sensitivity: number | null;
  /** Fraction of human failures that the judge fails. */
  specificity: number | null;
}

/** One bin of a reliability diagram. */
export interface CalibrationBin {
  /** Number of predictions in the bin. */
  count: number;
  /** Upper edge, included in the bin. */
  high: number;
  /** Lower edge; the bin is `(low, high]`, the first one `[0, high]`. */
  low: number;
  /** Mean prediction; absent when the bin is empty. */
  mean_predicted: number | null;
  /** Share of positive outcomes; absent when the bin is empty. */
  observed: number | null;
}

/** One tool call. */
export interface Call {
  /** Arguments of the call: an object, or a string for tools that take one text. */
  arguments?: unknown;
  /** Changes of files that the call asked for. */
  edits?: Edit[];
  /** Id that connects the call with its result, if the log has one. */
  id?: string | null;
  /** Result of the call; absent while it is running. */
  result?: CallResult | null;
  /** Name of the tool, such as `bash` or `search`. */
  tool: string;
}

/** Result of a tool call. */
export interface CallResult {
  /** Output of the tool as text. */
  content: string;
  /** Whether the tool reported an error; absent if the log does not say. */
  error?: boolean | null;
  /** Exit code of a command, where known. */
  exit_code?: number | null;
}

/** Compact view of a candidate for the agent. */
export interface CandidateView {
  /** Id of the context item. */
  ctx_id: string;
  /** Probability that the item will be needed again, 0 to 1. */
  relevance_score: number;
  /** One line that identifies the content. */
  snippet: string;
}

/** A case that changed between two runs. */
export interface CaseChange {
  /** P-value adjusted for testing all cases. */
  adjusted_p_value?: number | null;
  /** Passes in the baseline run. */
  baseline?: Tally | null;
  /** Passes in the candidate run. */
  candidate?: Tally | null;
  /** Id of the changed case. */
  case_id: string;
  /** Whether this change alone makes the verdict a regression. */
  decides: boolean;
  /** Kind of change that was found. */
  kind: ChangeKind;
  /** Unadjusted p-value of the change in this case. */
  p_value?: number | null;
  /** Human-readable description of the change. */
  reason: string;
  /** Variant that changed, when a run has several targets. */
  variant?: string | null;
}

/** Summary of one case over its repeats. */
export interface CaseSummary {
  /** Id of the benchmark case. */
  case_id: string;
  /** Number of repeats that were decided. */
  decided: number;
  /** Mean latency of answered repeats in milliseconds. */
  mean_latency_ms: number | null;
  /** Mean score between 0 and 1, if any. */
  mean_score: number | null;
  /** Passed repeats divided by decided repeats; absent when none was decided. */
  pass_rate: number | null;
  /** Number of repeats that passed. */
  passes: number;
  /** Number of repeats, decided or not. */
  repeats: number;
}

/** Change between two harnesses. */
export interface Change {
  /**
   * Whether the change requires evidence or an approver's signature although it is neutral: a retirement,
   * a graduation to the regression tier, a change of the trusted keys.
   */
  needs_approval?: boolean;
  /** Place of the change, such as `suites.arithmetic.c1.repeats`. */
  place: string;
  /** Description of the change. */
  reason: string;
  /** Effect of the change on rigor. */
  rigor: Rigor;
}

/** Kind of change of a case between two runs. */
export type ChangeKind = "removed" | "skipped" | "worse" | "score_drop" | "slower" | "lost" | "edited" | "added" | "better";

/** Change of a query between two systems. */
export interface ChangedQuery {
  /** Value of the control. */
  control: number;
  /** Difference, treatment − control. */
  difference: number;
  /** Value of the first breakdown field, if any. */
  group?: string | null;
  /** Id of the query. */
  query: string;
  /** Text of the query, if known. */
  text?: string | null;
  /** Value of the treatment. */
  treatment: number;
}

/** Contribution of a channel. */
export interface Channel {
  /** Share of the results that the channel returned. */
  contribution: Aggregate;
  /** Share of the results that only this channel returned. */
  unique: Aggregate;
}

/** Channels that are searched. */
export interface ChannelSwitches {
  /** Whether to follow causal links. */
  graph?: boolean;
  /** Whether to search the lexical channel. */
  lexical?: boolean;
  /** Whether to search the trigger channel. */
  trigger?: boolean;
  /** Whether to search the vector channel, if the mode enables it. */
  vector?: boolean;
}

/** Result of one graduation condition. */
export type Check = "pass" | "fail" | "undecided";

/** One graduation condition with its result. */
export interface Checked {
  /** Whether the condition is satisfied. */
  check: Check;
  /** Name of the condition. */
  name: string;
  /** Reason in one sentence. */
  reason: string;
}

/** Graduation checklist with all conditions and the verdict. */
export interface Checklist {
  /** Result of each condition. */
  checks: Checked[];
  /** Overall verdict of the checklist. */
  verdict: GraduationVerdict;
}

/** A statement: its text, or an object with the text and its speaker. */
export type Claim = string | {
  agent?: string | null;
  text: string;
};

/** Comparison of the first queries of sessions with later ones. */
export interface ColdStart {
  /** Mean over the first queries of sessions. */
  cold: Aggregate;
  /** Cold mean divided by warm mean; absent if either is undefined or the warm mean is 0. */
  ratio: number | null;
  /** Bootstrap interval of the ratio; absent with fewer than two queries of either kind. */
  ratio_ci: Interval | null;
  /** Mean over all other queries. */
  warm: Aggregate;
}

/** Two benchmark runs to compare. */
export interface CompareBody {
  /** Accepted run to compare with: an id, `latest`, or a file. */
  baseline: string;
  /** Run to judge: an id, `latest`, or a file. */
  candidate: string;
  /** Gate policy; the default policy when absent. */
  policy?: GatePolicy;
}

/** Comparison of runs with the control. */
export interface CompareResponse {
  /** One comparison per treatment. */
  comparisons: RunComparison[];
  /** File name of the control run. */
  control: string;
  /** Accepted loss of the gate; absent without a gate. */
  fail_if_worse: number | null;
  /** Evaluation options that were applied. */
  options: EvaluationOptions;
  /** Settings of the comparison, such as alpha. */
  settings: ComparisonSettings;
}

/** Comparison of two benchmark runs. */
export interface ComparedRuns {
  /** Override that accepted a regression, if any. */
  accepted?: VerdictOverride | null;
  /** Id of the accepted baseline run. */
  baseline_run: string;
  /** Id of the candidate run under test. */
  candidate_run: string;
  /** Every case that changed, deciding changes first. */
  changes: CaseChange[];
  /** Latencies in milliseconds, when both runs measured them. */
  latency: MetricComparison | null;
  /** Look at which the verdict was reached, when the gate is asked after each round of repeats. */
  look?: GateLook | null;
  /**
   * Number of candidate results that are missing because a component other than the target failed, or that
   * await a label.
   */
  missing: number;
  /** Number of missing results by cause. */
  missing_because: Record<string, number>;
  /** Pass rates over comparable cases; absent when no case is comparable. */
  pass: PassComparison | null;
  /** Reasons for the verdict, the deciding ones first. */
  reasons: string[];
  /** Judge scores, when both runs have them. */
  score: MetricComparison | null;
  /** Deciding scorers and criteria by name, when there are several with enough cases for a test. */
  scores?: ScoreComparison[];
  /** Verdict about each variant, when a run has several targets: the worst one counts. */
  variants?: VariantGate[];
  /** Overall verdict of the gate. */
  verdict: GateVerdict;
}

/** A comparison with a threshold and its result. */
export interface Comparison {
  /** Whether the relation holds. */
  holds: boolean;
  /** Relation that was tested between value and threshold. */
  is: Relation;
  /** Threshold that the value was compared with. */
  threshold: number;
}

/** Settings of a comparison. */
export interface ComparisonSettings {
  /** Family-wise significance level of the comparison. */
  alpha: number;
  /** Settings of the bootstrap intervals. */
  bootstrap: BootstrapSettings;
  /** Number of random sign patterns of the randomization test, if there are too many to enumerate. */
  permutations: number;
  /** Number of the worst regressions to list. */
  regressions: number;
  /** Thresholds of the difference classes. */
  thresholds: DifferenceThresholds;
}

/** Verdict about the treatment. */
export type ComparisonVerdict = "better" | "worse" | "no_evidence";

/** Health of a component. */
export type ComponentHealth = "good" | "warning" | "bad";

/** The `components` of seed section 4.3, for the last round. */
export interface Components {
  /** Weighted readiness score (seed section 3.3), 0 to 1. */
  action_readiness: number;
  /** Components of the readiness score. */
  action_readiness_detail: ReadinessDetail;
  /** Combined novelty rate: minimum over the active levels. */
  novelty_rate: number;
  /** Novelty rate by normal form: new claims divided by the running peak. */
  novelty_rate_L0: number;
  /** Novelty rate by shared words: new claims divided by the running peak. */
  novelty_rate_L1: number;
  /** Novelty rate by embedding: new claims divided by the running peak; null without vectors. */
  novelty_rate_L2: number | null;
  /** Mean cosine similarity of the claims to the nearest claim of an earlier round; null without vectors. */
  semantic_similarity: number | null;
  /** Share of the claims that endorse, modify or contradict an earlier one; null in the first round. */
  structural_agreement: number | null;
}

/** Score factors by confidence, interpolated linearly. */
export interface ConfidenceFactors {
  /** Score factor at confidence 1. */
  highest?: number;
  /** Score factor at confidence 0. */
  lowest?: number;
}

/** An existing memory that a new one contradicts. */
export interface ConflictingMemory {
  /** Id of the existing memory. */
  id: string;
  /** Differences in amounts, names or negation, with the words that show them. */
  reasons: string[];
  /** Similarity from 0 to 1. */
  similarity: number;
  /**
   * Link from the new memory to this one that would resolve it: `supersedes` if the new one was observed
   * later, else `contradicts`.
   */
  suggested_link: LinkKind;
  /** Title of the existing memory. */
  title: string;
}

/** Label of a conversation. */
export interface ConversationLabel {
  /** Name of the person who labelled. */
  annotator: string;
  /** Id of the conversation. */
  conversation_id: string;
  /** Time of the label. */
  created_at: string;
  /** Signal that would have been right after the last round. */
  signal: string;
  /** Round after which the conversation should have ended. */
  stop_round: number | null;
}

/** Label of a conversation to store or to remove. */
export interface ConversationLabelBody {
  /** Name of the person who labels. */
  annotator: string;
  /** Signal that would have been right after the last round; null removes the label. */
  signal?: Signal | null;
  /** Round after which the conversation should have ended. */
  stop_round?: number | null;
}

/** Labels of one conversation, and how often signals agree with people. */
export interface ConversationLabels {
  /** Number of these labels that agree with the signal of their conversation. */
  agreeing: number;
  /** Number of labels of all conversations, at most the latest 1,000. */
  labelled: number;
  /** Labels of this conversation, newest first. */
  labels: ConversationLabel[];
}

/** Page of stored conversations. */
export interface ConversationPage {
  /** Stored conversations, latest first. */
  conversations: ConversationSummary[];
  /** Cursor of the next page; absent on the last page. */
  next_cursor?: string | null;
}

/** Documented formats of a conversation; traces and session logs are accepted as well. */
export type ConversationShape = {
  /** Rounds in chronological order. */
  rounds: Round[];
} | MessageShape[];

/** Summary of a conversation in a list. */
export interface ConversationSummary {
  /** Id of the conversation, unique in the database. */
  conversation_id: string;
  /** Time when the conversation was started. */
  created_at: string;
  /** Name of the profile that decides. */
  profile: string;
  /** Number of rounds in the conversation. */
  rounds: number;
  /** 1 − novelty rate after the last round, 0 to 1. */
  score: number | null;
  /** Current recommendation, such as `CONTINUE`. */
  signal: string;
  /** Topic of the conversation, in a few words. */
  topic: string;
  /** Time when a round was last appended. */
  updated_at: string;
}

/** Measurements of both pipelines on the corpus. */
export interface CorpusEvidence {
  /** 95th percentile of the control's latency in milliseconds. */
  control_p95_ms: number;
  /**
   * Fraction of constitutional memories among the first five results of the control; absent without such
   * memories.
   */
  control_surfacing: number | null;
  /** Paired comparison of the latency; absent in evidence of earlier versions. */
  latency: LatencyComparison | null;
  /** Measures, reciprocal rank first: it decides, and the others must not be worse. */
  measures: MeasuredChange[];
  /** Number of queries with at least one relevant memory. */
  queries: number;
  /** P-value of the slower queries if the treatment is within the limit. */
  slower_p_value: number;
  /** 95th percentile of the treatment's latency in milliseconds. */
  treatment_p95_ms: number;
  /** Fraction of constitutional memories among the first five results of the treatment. */
  treatment_surfacing: number | null;
}

/** Whether an eviction is worth its price. */
export type CostDecision = "pays" | "required" | "below_break_even";

/** Request to create a tenant. */
export interface CreateTenantRequest {
  /** Name: 1 to 40 lower-case letters, digits and hyphens. */
  name: string;
  /** Limits of the tenant; by default none. */
  quotas?: TenantQuotas;
}

/** Request to create a token. */
export interface CreateTokenRequest {
  /** Lifetime in days; a token without one never expires. */
  expires_in_days?: number | null;
  /** Descriptive name chosen by the owner. */
  name: string;
  /** Permissions of the token. */
  scope: Scope;
}

/** A newly created token with its secret. */
export interface CreatedToken {
  /** Time when the token was created. */
  created_at: string;
  /** Time when the token expires; absent if it never does. */
  expires_at: string | null;
  /** Time of the last authenticated request, to the minute. */
  last_used_at: string | null;
  /** Descriptive name chosen by the owner. */
  name: string;
  /** Time when the token was revoked, if it was. */
  revoked_at: string | null;
  /** Scope that the token permits. */
  scope: Scope;
  /** Tenant whose data the token gives access to; absent for the main store. */
  tenant?: string | null;
  /** The secret token; shown only once, in this response. */
  token: string;
  /** Public id, the non-secret part of the token. */
  token_id: string;
  /** Whether the token is neither expired nor revoked. */
  valid: boolean;
}

/** Answer of a judge about one criterion. */
export interface CriterionAnswer {
  /** Text of the criterion. */
  criterion: string;
  /** Whether the criterion is met. */
  met: boolean;
  /** Reason that the judge gave. */
  reason: string;
}

/** Treatment of memories that were superseded or are not valid at the time of the search. */
export interface CurrencySettings {
  /** Score factor of a memory outside its validity, if it is demoted. */
  factor?: number;
  /** What happens to a memory outside its validity. */
  invalid?: OutdatedRule;
  /** What happens to a superseded memory. */
  superseded?: OutdatedRule;
}

/** Harness cycle to record. */
export interface CycleBody {
  /** Name for the cycle, chosen by the caller. */
  cycle_id?: string | null;
}

/** Snapshot of one cycle in the specification's format, extended by the harness version and the measurement. */
export interface CycleSnapshot {
  /** Id of the cycle, `cycle-…`. */
  cycle_id: string;
  /** Version of the harness: the hash of its manifest. */
  harness_version: string;
  /** Measured saturation; absent without suitable runs. */
  measured?: MeasuredSaturation | null;
  /** The five saturation signals. */
  metrics: SignalMetrics;
  /** Saturation level of the score. */
  saturation_level: SaturationLevel;
  /** Saturation score of the signals, from 0 to 1. */
  saturation_score: number;
  /** Time at which the cycle was recorded. */
  timestamp: string;
  /** Whether the metrics were stated by the caller instead of derived from stored runs. */
  unverified?: boolean;
  /** Schema version of the record: [`SCHEMA_VERSION`]. */
  "x-schema-version": string;
}

/** Usage of a tenant on one day (UTC). */
export interface DailyUsage {
  /** Start of the day. */
  day: string;
  /** Number of tokens that models processed today. */
  model_tokens: number;
  /** Number of requests today, up to a few seconds ago. */
  requests: number;
  /** Size of its store in bytes when it was last measured. */
  storage_bytes?: number | null;
}

/** Decision of the saturation gate. */
export type Decision = "continue" | "stop";

/** Result of deleting memories. */
export interface DeleteResponse {
  /** Ids of the deleted memories. */
  deleted: string[];
}

/** A tenant that was removed from the registry. */
export interface DeletedTenant {
  /** Name of the tenant. */
  name: string;
  /** Location of its store, without a password. */
  store: string;
  /** Whether the store was deleted, too; otherwise it can be registered again. */
  store_deleted: boolean;
}

/** Value of a derived metric. */
export interface DerivedMetric {
  /** Name of the metric. */
  name: string;
  /** Reason why there is no value. */
  problem?: string | null;
  /** Number of the prompt, from 1; absent when the suite has one prompt. */
  prompt?: number | null;
  /** Value of the expression; absent when it cannot be computed. */
  value: number | null;
}

/** Number of queries by difference class. */
export interface DifferenceCounts {
  /** Queries with identical results. */
  identical: number;
  /** Queries with incompatible results. */
  incompatible: number;
  /** Queries with major differences. */
  major: number;
  /** Queries with minor differences. */
  minor: number;
}

/** Thresholds of the difference classes. */
export interface DifferenceThresholds {
  /** Number of results of each list to compare. */
  depth: number;
  /** Minimum rank correlation of identical lists. */
  identical_correlation: number;
  /** Minimum overlap of identical lists, 0 to 1. */
  identical_overlap: number;
  /** Rank correlation below which a difference is major. */
  major_correlation: number;
  /** Change of the reciprocal rank above which a difference is major. */
  major_mrr: number;
  /** Overlap below which a difference is major, 0 to 1. */
  major_overlap: number;
}

/** Which side of a threshold is good. */
export type Direction = "lower" | "higher";

/** Correlation of a case with the rest of the suite. */
export interface Discrimination {
  /** Id of the case. */
  case_id: string;
  /** Corrected item-total correlation, from -1 to 1. */
  correlation: number;
}

/**
 * Diversity by maximal marginal relevance (Carbonell and Goldstein 1998). Similarity below the floor counts
 * as 0 and then rises linearly to 1, so that only near-duplicates are demoted.
 */
export interface Diversity {
  /** Cosine similarity above which two results count as near-duplicates. */
  floor?: number;
  /** Weight of relevance; similarity has the remaining weight. 1 disables diversity. */
  lambda?: number;
  /** Word similarity above which two results count as near-duplicates; used without vectors. */
  word_floor?: number;
}

/** Workers that were asked to drain. */
export interface DrainedWorkers {
  /** Name of the workers. */
  name: string;
  /** Number of workers with this name. */
  workers: number;
}

/** Score that drives the window. */
export type Driver = "measured" | "signals";

/** How much two memories are alike. */
export type DuplicateKind = "identical" | "near";

/** An existing memory that a new one repeats. */
export interface DuplicateMemory {
  /** Id of the existing memory. */
  id: string;
  /** Whether it is identical or near-identical. */
  kind: DuplicateKind;
  /** Value of `on_duplicate` that fits: `update` if the new text contains the old one, else `merge`. */
  proposal: OnDuplicate;
  /** Similarity from 0 to 1. */
  similarity: number;
  /** Title of the existing memory. */
  title: string;
}

/** A change of one file. */
export interface Edit {
  /** Number of lines that the edit adds. */
  added: number;
  /** Path of the file as the agent wrote it; empty if it could not be determined. */
  path: string;
  /** Number of lines that the edit removes. */
  removed: number;
}

/** Progress of vectors that are made in the background. */
export interface EmbeddingProgress {
  /** Whether this process embeds in the background. */
  active: boolean;
  /** Number of chunks that this process has embedded in the background. */
  done: number;
  /** Number of chunks that wait for a vector. */
  pending: number;
  /** Last error of the worker, which tries again, or the last text that the model rejected. */
  problem?: string | null;
  /** Estimated seconds until all chunks have a vector; absent if unknown. */
  seconds_left?: number | null;
}

/** Entry of the ledger, which records one event. */
export interface Entry {
  /** Time of the event. */
  at: string;
  /** Details of the event. */
  body: unknown;
  /** BLAKE3 hash of all other fields in canonical JSON. */
  hash: string;
  /** Kind of event, such as `cycle`, `approved` or `restored`. */
  kind: string;
  /** Hash of the previous entry. */
  prev: string;
  /** Sequence number, starting at 0 without gaps. */
  seq: number;
}

/** Component that caused an error. */
export type ErrorOwner = "target" | "judge" | "harness" | "infra";

/** Evaluated runs: a single one, or a list. */
export type EvaluateResponse = RunReport | {
  /** Results in the order of the request. */
  runs: RunReport[];
};

/** Evaluation options on which common tools differ. */
export interface EvaluationOptions {
  /** Value of judged queries without results. */
  missing: MissingQueries;
  /** Value of queries without relevant documents. */
  no_relevant: NoRelevant;
  /** Minimum grade of a relevant document. */
  relevance_threshold: number;
  /** Handling of results without a judgment. */
  unjudged: Unjudged;
}

/** Item that a proposal would evict. */
export interface EvictionCandidate {
  /** Number of turns since the last use. */
  age_turns: number;
  /** Id of the item. */
  ctx_id: string;
  /** Feature values at scoring time, one for each of [`Term::ALL`]. */
  features: number[];
  /** Kind of the item. */
  kind: string;
  /** Probability with which the item was included in the proposal. */
  propensity: number;
  /** Probability that the item will be needed again: 0 irrelevant, 1 critical. */
  relevance_score: number;
  /** One-line summary of the item. */
  snippet: string;
  /** Size of the item in tokens. */
  token_count: number;
  /** Zone of the item. */
  zone: string;
}

/** Expected cost and saving of an eviction, in tokens at the price of an uncached input token. */
export interface EvictionCost {
  /** Number of further requests from which the eviction pays; absent if it never does. */
  break_even_turns?: number | null;
  /** Whether the cache still holds the last request; an expired cache is written again anyway. */
  cache_warm: boolean;
  /** Whether the eviction is worth its price. */
  decision: CostDecision;
  /** Expected number of dropped items that are read again. */
  expected_rereads: number;
  /** Saving minus costs. */
  net: number;
  /** Date of the prices. */
  prices_as_of: string;
  /** Provider whose prices were used. */
  provider: string;
  /** Tokens behind the earliest dropped item that stay and are billed again. */
  rebilled_tokens: number;
  /** Cost of billing them again. */
  rebilling: number;
  /** Expected number of further requests. */
  remaining_turns: number;
  /** Expected cost of reading them again. */
  rereading: number;
  /** Expected saving over the remaining requests. */
  saving: number;
}

/** Candidate that was excluded, overriding the scorer. */
export interface EvictionExclusion {
  /** Id of the item. */
  ctx_id: string;
  /** Reason for the exclusion. */
  exclude_reason: string | null;
  /** Score of the item in the proposal. */
  relevance_score: number;
}

/** Outcome of a resolved proposal. */
export interface EvictionFeedback {
  /** Ids of the candidates that were evicted. */
  evicted: string[];
  /** Candidates that were excluded from eviction. */
  excluded: EvictionExclusion[];
  /** Number of tokens that were freed. */
  freed_tokens: number;
  /** Number of tokens that had to be freed. */
  need_tokens: number;
  /** Exclusions that were overruled, because of the quota or because nothing else was left to evict. */
  overruled: EvictionExclusion[];
  /** Ids of the candidates that stay because they were pinned after the proposal. */
  pinned_since?: string[];
  /** Id of the proposal. */
  proposal_id: string;
  /** Maximum number of tokens that could be excluded. */
  quota_tokens: number;
  /** Time at which the proposal was resolved. */
  resolved_at: string;
  /** Who or what resolved the proposal. */
  resolved_by: ResolvedBy;
  /** Id of the scope. */
  scope_id: string;
  /** Items evicted without a proposal, because the candidates freed too few tokens. */
  second_pass: SecondPass[];
  /** Reason why too few tokens were freed; absent if enough were. */
  shortfall?: Shortfall | null;
}

/** Evidence of a warning: a text, the text it is compared with, and their similarity. */
export interface Evidence {
  /** Text it is compared with. */
  against?: string | null;
  /** Round of the text it is compared with. */
  against_round?: number | null;
  /** Text that triggered the warning. */
  text: string;
  /** Similarity of the two texts, 0 to 1. */
  value?: number | null;
}

/** What was found. */
export type EvidenceKind = "exact_repeat" | "near_repeat" | "cycle" | "same_error" | "stagnation" | "revision" | "undo" | "reread" | "no_new_target" | "cost_growth" | "repeated_question" | "repeated_text";

/** Results of all checks. */
export interface Examination {
  /** One finding per checked component. */
  findings: HealthFinding[];
}

/** A feature after a change of its state. */
export interface ExperimentChange {
  /** Definition of the changed feature. */
  feature: Feature;
  /** Reason given for the change, if any. */
  reason: string | null;
  /** New state: `running`, `paused`, `graduated` or `rejected`. */
  status: string;
}

/** Result of checking a feature against the checklist. */
export interface ExperimentCheck {
  /** Graduation checklist; corpus metrics are from the last measurement. */
  checklist: Checklist;
  /** Corpus metrics of both pipelines, as last measured. */
  corpus: CorpusEvidence | null;
  /** Definition of the feature. */
  feature: Feature;
  /** Whether the feature became the default. */
  graduated: boolean;
  /** Graduation time in microseconds since the Unix epoch. */
  graduated_at: number | null;
  /** Reason given for the last change of state, if any. */
  reason: string | null;
  /** Summary of the shadow runs. */
  shadow: ShadowSummary;
  /** Start time in microseconds since the Unix epoch. */
  started_at: number;
  /** State: `running`, `paused`, `graduated` or `rejected`. */
  status: string;
  /** State of the sequential test. */
  test: Standing;
  /** Verdict of the graduation checklist. */
  verdict: GraduationVerdict;
}

/** Summary of a feature in the list. */
export interface ExperimentFeature {
  /** Decision of the sequential test so far. */
  decision: TrialDecision;
  /** Description of the change under test. */
  description: string;
  /** Name of the feature, unique. */
  feature_id: string;
  /** Mean difference of the reciprocal rank, treatment minus control. */
  mrr_delta: number | null;
  /** Percentage of sessions that get the feature. */
  rollout_percent: number;
  /** Number of queries compared so far. */
  samples: number;
  /** State: `running`, `paused`, `graduated` or `rejected`. */
  status: string;
}

/** All features and the pipeline that searches use. */
export interface ExperimentList {
  /** Features, in order of their start. */
  features: ExperimentFeature[];
  /** Default pipeline with all graduated features applied. */
  pipeline: Pipeline;
  /** Graduated features that are no longer valid, with the reason; searches skip them. */
  unfit: Array<[string, string]>;
}

/** Status of a feature under test. */
export interface ExperimentStatus {
  /** Graduation checklist; corpus metrics are from the last measurement. */
  checklist: Checklist;
  /** Corpus metrics of both pipelines, as last measured. */
  corpus: CorpusEvidence | null;
  /** Definition of the feature. */
  feature: Feature;
  /** Graduation time in microseconds since the Unix epoch. */
  graduated_at: number | null;
  /** Reason given for the last change of state, if any. */
  reason: string | null;
  /** Summary of the shadow runs. */
  shadow: ShadowSummary;
  /** Start time in microseconds since the Unix epoch. */
  started_at: number;
  /** State: `running`, `paused`, `graduated` or `rejected`. */
  status: string;
  /** State of the sequential test. */
  test: Standing;
}

/** One decision and the evidence for it. */
export interface Explanation {
  /** Outcome of the decision, such as "SHIP" or "LOW". */
  decision: string;
  /** Numbers that the decision is based on. */
  numbers?: Number[];
  /** Decisions that this decision depends on. */
  parts?: Explanation[];
  /** Reasons as sentences, most important first. */
  reasons?: string[];
  /** Subject of the decision, such as "signal" or "novelty". */
  subject: string;
}

/** How plain messages are sorted into claims, questions and actions. */
export type Extract = "rules" | "model";

/** A feature, with the fields of the specification's `EvalFeatureFlag` (camel-case names are also accepted). */
export interface Feature {
  /** Probability of wrongly accepting either pipeline. */
  alpha: number;
  /** Only for `sprt`: probability of missing an effect of size `effect`. */
  beta: number;
  /** Human-readable description of the feature. */
  description: string;
  /** Only for `sprt`: size of the effect to detect. */
  effect: number;
  /** Whether the feature takes part in experiments. */
  enabled: boolean;
  /** Id of the feature: letters, digits, `.`, `_` and `-`. */
  feature_id: string;
  /** Minimum improvement of the reciprocal rank that justifies graduation. */
  graduation_threshold: number;
  /** Sequential test that decides: `betting` or `sprt`. */
  method: Method;
  /** Minimum number of compared queries before a decision. */
  min_samples: number;
  /** Overrides of the active pipeline; keys that are not named keep their values. */
  pipeline: Record<string, unknown>;
  /** Percentage of sessions that get the feature, from 0 to 100. */
  rollout_percent: number;
  /** Whether the other pipeline is run as a shadow. */
  shadow_enabled: boolean;
  /** Percentage of queries with a shadow run, from 0 to 100. */
  shadow_percent: number;
}

/** A feature, with the fields of the specification's `EvalFeatureFlag` (camel-case names are also accepted). */
export interface FeatureInput {
  /** Probability of wrongly accepting either pipeline. */
  alpha?: number;
  /** Only for `sprt`: probability of missing an effect of size `effect`. */
  beta?: number;
  /** Human-readable description of the feature. */
  description?: string;
  /** Only for `sprt`: size of the effect to detect. */
  effect?: number;
  /** Whether the feature takes part in experiments. */
  enabled?: boolean;
  /** Id of the feature: letters, digits, `.`, `_` and `-`. */
  feature_id: string;
  /** Minimum improvement of the reciprocal rank that justifies graduation. */
  graduation_threshold?: number;
  /** Sequential test that decides: `betting` or `sprt`. */
  method?: Method;
  /** Minimum number of compared queries before a decision. */
  min_samples?: number;
  /** Overrides of the active pipeline; keys that are not named keep their values. */
  pipeline: Record<string, unknown>;
  /** Percentage of sessions that get the feature, from 0 to 100. */
  rollout_percent?: number;
  /** Whether the other pipeline is run as a shadow. */
  shadow_enabled?: boolean;
  /** Percentage of queries with a shadow run, from 0 to 100. */
  shadow_percent?: number;
}

/** Statistics over the feedback to proposals. */
export interface Feedback {
  /** Number of proposals answered by an agent or a person. */
  answered: number;
  /** Number of proposals that can still be answered. */
  open: number;
  /** Exclusion rates and how well they were predicted; absent without answers. */
  report: FeedbackReport | null;
  /** Scope of the statistics; all scopes if absent. */
  scope_id: string | null;
  /** Number of proposals that timed out; they are not used for learning. */
  timed_out: number;
}

/** A judgment derived from feedback. */
export interface FeedbackJudgment {
  /** Probability that the grade is on the same side of the relevance threshold (grade 2). */
  confidence: number;
  /** Whether the feedback contains both positive and negative signals. */
  conflict: boolean;
  /** Most probable grade, 0 to 3. */
  grade: number;
  /** Id of the result. */
  memory_id: string;
  /** Outcome of the derived judgment. */
  outcome: FeedbackOutcome;
  /** Probability of each grade from 0 to 3. */
  probabilities: number[];
  /** Id of the query. */
  query_id: string;
  /** Feedback that led to the grade. */
  reasons: string[];
}

/** Outcome of a derived judgment. */
export type FeedbackOutcome = "written" | "uncertain" | "by_person";

/** Summary of the feedback on proposals. */
export interface FeedbackReport {
  /** Number of candidates in those proposals. */
  labels: number;
  /** Exclusion rate over all candidates. */
  overall: RateRow;
  /** How well `relevance_score` predicted exclusions; absent if all or none were excluded. */
  prediction: Prediction | null;
  /** Number of proposals that were answered. */
  proposals: number;
  /** Exclusion rates by zone, age, kind, scope and score. */
  rates: Rates;
}

/** A quotation and its source. */
export interface Finding {
  /** Number of the source in `sources`. */
  source: number;
  /** A sentence, or a whole list, table or code block, verbatim. */
  text: string;
}

/** Fitted weights, and whether they predict need better. */
export interface Fitted {
  /** Prediction quality on unseen groups of the weights that resulted. */
  after: Prediction;
  /** Prediction quality of the old scorer. */
  before: Prediction;
  /** Prediction quality on unseen groups with the correction by features. */
  features: Prediction;
  /** Improvement by features over the rescaled scorer. */
  gain: Gain;
  /**
   * Number of groups of labels that cross-validation keeps together: sessions, or proposals if there are
   * fewer sessions than folds.
   */
  groups: number;
  /** Constant added to the rescaled log-odds. */
  intercept: number;
  /** Number of labels used for the fit. */
  labels: number;
  /** What the weights change. */
  model: FittedModel;
  /** Number of proposals from which the labels come. */
  proposals: number;
  /** Prediction quality on unseen groups of the old scorer with its log-odds rescaled. */
  rescaled: Prediction;
  /** Improvement by rescaling over the old scorer. */
  rescaling: Gain;
  /** Factor of the old log-odds. */
  slope: number;
  /** Weights resulting from the fit. */
  weights: ScorerWeights;
}

/** What a fit changes in the old scorer. */
export type FittedModel = "rescaled" | "features";

/** Rank and score of a result in one channel. */
export interface Found {
  /** Rank in the channel, from 1. */
  rank: number;
  /** Score on the scale of the channel. */
  score: number;
}

/** How the lists of the channels are fused. */
export type Fusion = "z_score" | "score" | {
  reciprocal_rank: {
    /** Smoothing constant: larger values reduce the advantage of the first ranks. */
    k: number;
  };
};

/** Improvement of one scorer over another. */
export interface Gain {
  /** Reduction of the log loss on unseen groups. */
  log_loss: BootstrapEstimate;
  /**
   * Chance that the new scorer has the higher log loss on as many unseen groups again, for each candidate
   * that was tried added up (at most 1).
   */
  risk: number;
  /**
   * Whether the improvement counts: for rescaling, whether the whole interval is above zero; for features,
   * whether the risk is below 0.001.
   */
  shown: boolean;
}

/** Result of a non-inferiority gate with a margin. */
export type Gate = "pass" | "fail" | "inconclusive";

/** Decisions of the search gate. */
export interface GateAnswer {
  /** Decision for each round, in order. */
  decisions: SearchGateResponse[];
  /** Summary over all rounds. */
  summary: GateSummary;
}

/** Rounds to decide on; each is compared with all earlier rounds. */
export interface GateBody {
  /**
   * Rounds in order: each an object with `query`, and `results` (objects with `title`, `url`, `snippet`)
   * or `error`.
   */
  rounds: Array<{
    error?: string;
    query?: string;
    results?: Array<{
      snippet: string;
      title: string;
    }>;
  }>;
  /** Settings of the search gate; defaults apply when absent. */
  settings?: GateSettings | null;
  /** Task of rounds that do not name one. */
  task?: string;
}

/** What a look at a comparison found. */
export interface GateLook {
  /** P-value of the hypothesis that the pass rate fell by the margin or more. */
  drop_p_value: number;
  /** Significance level at which that hypothesis is rejected at this look. */
  pass_level: number;
  /** Significance level of a regression at this look. */
  regression_level: number;
  /** Number of complete rounds. */
  round: number;
  /** Largest number of rounds. */
  rounds: number;
}

/** Error level and thresholds of a gate comparison. */
export interface GatePolicy {
  /**
   * Probability of a false alarm for an unchanged system. The default lies slightly below 0.05, so that
   * the observed rate over a thousand re-runs stays below 0.05 too.
   */
  alpha?: number;
  /**
   * Absolute latency increase in milliseconds above which a case is flagged, together with
   * `latency_increase`.
   */
  latency_floor_ms?: number;
  /** Relative latency increase above which a case is flagged, together with `latency_floor_ms`. */
  latency_increase?: number;
  /** Largest drop of the pass rate that may go undetected, as a fraction between 0 and 1. */
  margin?: number;
  /** Largest acceptable fraction of missing results. */
  max_missing?: number;
  /** Judge scores that drop by more than this are flagged. */
  score_drop?: number;
}

/** Settings of the saturation gate. Each has a default. */
export interface GateSettings {
  /** Assessor that scores how new results are. */
  assessor?: Assessor;
  /** Probability that a round below the threshold is kept anyway, from 0 to 1. */
  epsilon?: number;
  /** Distance from the threshold within which `auto` asks a model. */
  grey_zone?: number;
  /** Look-ahead rule that avoids paying for a round that would be rejected; absent in the specification. */
  look_ahead?: LookAhead | null;
  /** Share of the relevant results of ten searches that rule `missed` accepts to miss, from 0 to 1. */
  max_missed?: number;
  /** Maximum number of rounds. */
  max_rounds?: number;
  /** Number of first rounds that are never gated. */
  min_rounds?: number;
  /** Seed of the random draws; recorded with every run. */
  seed?: number;
  /** Rule that decides when the search stops. */
  stop?: StopRule;
  /** Threshold below which results are no longer new. */
  threshold?: StopThresholdInput;
}

/** Totals over all rounds. */
export interface GateSummary {
  /** Rounds that the gate would have accepted. */
  accepted: number;
  /** Rounds after the point where the gate would have stopped. */
  after_stop: number;
  /** Agreement between pairs of assessors. */
  agreement: AssessorAgreement[];
  /** Number of recorded rounds. */
  rounds: number;
  /** Number of distinct runs. */
  runs: number;
  /** Searches that would have been made with the gate. */
  searches: number;
}

/** Verdict of the regression gate. */
export type GateVerdict = "pass" | "regression" | "inconclusive";

/** Overall verdict of the checklist. */
export type GraduationVerdict = "graduate" | "refuse" | "undecided";

/** Comparison within a group of queries. */
export interface GroupComparison {
  /** Comparison by the first measure, with Holm correction over all groups. */
  comparison: MeasureComparison;
  /** Field value that the queries of the group share. */
  value: string;
}

/** Metrics of the queries that share a value. */
export interface GroupReport {
  /** Mean of each measure with its confidence interval. */
  metrics: Record<string, Aggregate>;
  /** Number of queries in the group. */
  queries: number;
}

/** Status of an eval harness. */
export interface HarnessStatus {
  /** Action that follows from the window. */
  action: Action;
  /** Number of cycles in the window. */
  cycles_tracked: number;
  /** Differences between the files and the recorded version. */
  drift?: RigorDiff | null;
  /** Score that the window follows. */
  driver: Driver;
  /**
   * Evidence over all versions that so few cases fail that no improvement could be detected; significant
   * from 20.
   */
  evidence?: SaturationEvidence | null;
  /** The open expansion, if any. */
  expansion?: OpenExpansion | null;
  /** Directory of the harness. */
  folder: string;
  /** Scores in the window, oldest first. */
  history: number[];
  /** Whether the harness is consistently saturated. */
  is_consistent: boolean;
  /**
   * Saturation score of these signals by the literal formula of the specification, for comparison with `history`
   * and `metrics`; no decision depends on it. Absent if a signal is out of range.
   */
  literal_score?: number | null;
  /** Saturation measurement over all suites. */
  measured?: Measured | null;
  /** The five signals, as they would be recorded now. */
  metrics: SignalMetrics;
  /** Recommended next step, in words. */
  next: string;
  /** Reason why the harness was not measured. */
  not_measured?: string | null;
  /** Weakenings of the files compared with the active version, in any phase of an expansion. */
  objections?: string[];
  /** Reason for the decision, if any. */
  reason: string | null;
  /** Whether that is the recorded version; absent before the first cycle. */
  recorded: boolean | null;
  /** Metrics of the rolling window. */
  rolling_metrics: RollingMetrics;
  /** State of each suite. */
  suites: SuiteState[];
  /** Thresholds, and whether they are met. */
  thresholds: ThresholdState[];
  /** Number of cycles with metrics from a file: they can raise an alarm, never lower one. */
  unverified_cycles?: number;
  /** Urgency of the action. */
  urgency: Urgency;
  /** Version hash of the files on disk. */
  version: string;
}

/** Headroom of a suite, and whether it is detectable. */
export interface Headroom {
  /** Number of cases in the suite. */
  cases: number;
  /** Number of cases of this kind that would make the headroom detectable; absent without headroom. */
  cases_needed: number | null;
  /**
   * Headroom divided by `detectable`; absent if any improvement would be detected. Below 1, closing all
   * headroom goes undetected.
   */
  detectability: number | null;
  /** Smallest improvement that is detected with the desired power. */
  detectable: number;
  /** Effective number of independent cases. */
  effective_cases: number;
  /** Number of cases that the accepted version does not always pass. */
  failing: number;
  /** Minimum number of failing cases with which an improvement can be shown. */
  failing_needed: number;
  /** Mean distance of the cases to the ceiling, as a share. */
  headroom: number;
  /** Smallest one-sided p-value that a successor without failures could reach: `2^−failing`. */
  p_floor: number;
  /** Probability, over resampled clusters of cases, that closing all headroom would go undetected. */
  saturation: number;
  /** 95 % upper bound of the failure rate: `1 − 0.05^(1/n)` without failures, Wilson's bound otherwise. */
  upper_bound: number;
}

/** Health of the server, its store and its models. */
export interface Health {
  /** Configured chat model, without its URL. */
  chat?: string | null;
  /** Configured sentence model, without its URL. */
  embedder: string;
  /** Number of jobs that are running. */
  jobs_running: number;
  /** Number of jobs that are queued. */
  jobs_waiting: number;
  /** Always `ok`; failures are problems. */
  status: string;
  /** Database engine: `sqlite` or `postgres`. */
  store: string;
  /** Version of the satiety program. */
  version: string;
}

/** Result of checking one component. */
export interface HealthFinding {
  /** Observation in one line. */
  detail: string;
  /** Suggested action; absent if none is needed. */
  fix?: string | null;
  /** Health of the component. */
  health: ComponentHealth;
  /** Checked component: `store`, `schema`, `embedder`. */
  part: string;
}

/** A result that was excluded from the list. */
export interface Held {
  /** Id of the memory. */
  id: string;
  /** Title of the memory. */
  title: string;
  /** Number of tokens of the result. */
  tokens: number;
}

/** Events of an eval harness. */
export interface History {
  /** Log entries, oldest first. */
  entries: Entry[];
}

/**
 * One result of a search.
 *
 * Common alternative keys are accepted: `href` and `link` for the address, `body`, `content`, `description`
 * and `text` for the snippet.
 */
export interface Hit {
  /** Lines of the document in which the snippet stands verbatim; absent for pages and converted documents. */
  lines?: LineSpan | null;
  /** Publication date as reported by the search engine. */
  published?: string | null;
  /** Relevance score on the search engine's own scale. */
  score?: number | null;
  /** Excerpt or description shown by the search engine; may be empty. */
  snippet: string;
  /** Title of the result; may be empty. */
  title: string;
  /** Address of the page or document; may be empty. */
  url: string;
}

/** Agreement of feedback with human judgments. */
export interface HumanAgreement {
  /** Cohen's kappa with quadratic weights. */
  kappa: number | null;
  /** Number of results judged by both. */
  results: number;
  /** Share with the same grade, 0 to 1. */
  same_grade: number;
  /** Share on the same side of the relevance threshold (grade 2), 0 to 1. */
  same_side: number;
}

/** Request to import records that are part of the request. */
export interface ImportBody {
  /** Check the records and store nothing. */
  dry_run?: boolean;
  /** Folder to put the memories into. */
  folder?: string | null;
  /** Format of the records; detected by their fields. */
  format?: ImportFormat | null;
  /** Project to keep them in, by name or id, or `global` for all (scope `admin`). */
  project?: string | null;
  /** Records of one format, such as objects with `content` and optional `id`, `title`, `folder` and `kind`. */
  records: unknown[];
  /** Name of the source. Records with the same source and id are stored once and updated when they change. */
  source: string;
}

/** Formats that can be imported. */
export type ImportFormat = "jsonl" | "csv" | "chatgpt" | "claude" | "messages" | "server-memory" | "mem0" | "markdown" | "satiety";

/** Result of an import. */
export interface ImportedMemories {
  /** Number of new memories. */
  added: number;
  /** Number of memories that changed since an earlier import. */
  changed: number;
  /** Whether nothing was stored because only a check was requested. */
  dry_run: boolean;
  /** Number of chunks that got a vector after the import. */
  embedded: number;
  /** Format of the source. */
  format: ImportFormat | null;
  /** Whether the import was interrupted; repeat it to continue. */
  interrupted: boolean;
  /** Number of causal links that were added. */
  links: number;
  /** Number of memories that request a tier above `important`, which they do not get. */
  lowered: number;
  /** Number of chunks that wait for a vector; they are found by words. */
  pending: number;
  /** The first 100 skipped records, with the reason. */
  refused: RefusedRecord[];
  /** Number of records that were skipped because they could not be imported. */
  skipped: number;
  /** Number of memories that an earlier import stored and that are unchanged. */
  unchanged: number;
}

/** Where this process got its index from, and how it followed the database. */
export interface IndexActivity {
  /** Number of changed, deleted or newly embedded memories that were applied to the index. */
  changes_applied: number;
  /** Reason why the index file could not be read or written; absent if there was none. */
  file_problem?: string | null;
  /** Duration of the last complete load, in milliseconds. */
  load_ms: number;
  /** Number of times that the complete index was read from the database. */
  loads_from_database: number;
  /** Number of times that the index was read from its file. */
  loads_from_file: number;
}

/** Request to index a directory of Markdown files. */
export interface IndexBody {
  /** Directory to index; over HTTP below the server's root. */
  folder: string;
  /** Keep memories whose files were deleted. */
  keep_missing?: boolean;
  /** Project to keep them in, by name or id, or `global` for all. */
  project?: string | null;
}

/** Result of indexing a directory. */
export interface IndexResponse {
  /** Number of new files. */
  added: number;
  /** Number of files that changed. */
  changed: number;
  /** Files that request a tier above `important`, which they do not get. */
  lowered: string[];
  /** Files that were rejected, with the reason; the others are indexed. */
  refused: RefusedFile[];
  /** Number of memories removed because their file was deleted. */
  removed: number;
  /** Number of unchanged files. */
  unchanged: number;
}

/** Ranked results of a query. */
export interface InlineAnswers {
  /** Id of the query. */
  query_id: string;
  /** Ids of documents, best first. */
  results: string[];
}

/** Relevance grade of a document. */
export interface InlineGrade {
  /** Id of the document. */
  doc_id: string;
  /** Relevance grade; higher is more relevant. */
  relevance: number;
}

/** Relevance judgments of a query. */
export interface InlineJudgments {
  /** Judged documents with their grades. */
  judgments: InlineGrade[];
  /** Id of the query. */
  query_id: string;
}

/** Judgments and runs in the request body. */
export interface InlineRankings {
  /** Significance level of a comparison, 0 to 1; 0.05 if absent. */
  alpha?: number | null;
  /** Relevance judgments, grouped by query. */
  judgments: InlineJudgments[];
  /** Measures to compute, such as `ndcg@10`; the defaults if empty. */
  measures?: string[];
  /** Minimum grade of a relevant document; 2 if absent. */
  relevance_threshold?: number | null;
  /** Runs to evaluate; for a comparison the first is the control. */
  runs: InlineRun[];
}

/** A ranked run of a system. */
export interface InlineRun {
  /** Name of the run in reports. */
  name: string;
  /** Ranked results of each query. */
  queries: InlineAnswers[];
}

/** Supported formats of a conversation. */
export type InputFormat = "transcript" | "trace" | "chat" | "agent-log";

/** Inputs of a round, preserved without interpretation. */
export type Inputs = Record<string, unknown>;

/** Intent of a query. */
export type Intent = "add_feature" | "fix_bug" | "refactor" | "security_audit" | "understand" | "find_spec" | "find_decision";

/** Weight of each channel, by intent of the query. */
export interface IntentWeights {
  /** Weights for queries about adding a feature. */
  add_feature?: Weights;
  /** Weights for queries about a past decision. */
  find_decision?: Weights;
  /** Weights for queries about a specification or requirement. */
  find_spec?: Weights;
  /** Weights for queries about fixing a bug. */
  fix_bug?: Weights;
  /** Weights for queries without a recognised intent. */
  general?: Weights;
  /** Weights for queries about refactoring code. */
  refactor?: Weights;
  /** Weights for queries about security. */
  security_audit?: Weights;
  /** Weights for queries about how something works. */
  understand?: Weights;
}

/** Closed interval with its nominal confidence. */
export interface Interval {
  /** Nominal coverage, such as 0.95. */
  confidence: number;
  /** Upper bound of the interval. */
  high: number;
  /** Lower bound of the interval. */
  low: number;
}

/** Non-decreasing mapping: linear between its knots, constant outside. */
export interface Isotonic {
  /** Positions of the knots, strictly increasing. */
  x: number[];
  /** Values at the knots, non-decreasing. */
  y: number[];
}

/** Outcome of an item in a proposal. */
export interface ItemFate {
  /** Id of the item. */
  ctx_id: string;
  /** Reason for the exclusion, if one was given. */
  exclude_reason?: string | null;
  /** Outcome of the item. */
  fate: ItemOutcome;
  /** Size of the item in tokens. */
  token_count: number;
}

/** Possible outcome of an item in a proposal. */
export type ItemOutcome = "proposed" | "dropped" | "kept_back" | "overruled" | "second_pass" | "pinned_since";

/** Summary of an item in a list. */
export interface ItemSummary {
  /** Turns since the item's last use. */
  age_turns: number;
  /** Id of the context item. */
  ctx_id: string;
  /** Kind of the item's content. */
  kind: string;
  /** Whether the item is protected from eviction. */
  pinned: boolean;
  /** Position in eviction order, from 1; absent for items that must not be evicted. */
  rank: number | null;
  /** Number of times the item was used. */
  reference_count: number;
  /** Score of the item with its components. */
  score: Score;
  /** One line that identifies the content. */
  snippet: string;
  /** Size of the item in tokens. */
  token_count: number;
  /** Zone that the item belongs to. */
  zone: string;
}

/** Item analysis of the cases of a suite. */
export interface Items {
  /** Ids of cases that always passed and carry no information. */
  always_pass: string[];
  /** Share of cases that always passed; absent with too few versions. */
  dead_share: number | null;
  /** Correlation of each varying case with the rest; a negative value is suspicious. */
  discrimination: Discrimination[];
  /** Ids of cases that pass only sometimes within one version. */
  flaky: string[];
  /** Mean of `4 p̄(1 − p̄)` over cases: 1 if every case splits the versions in half. */
  information: number;
  /** Ids of cases that never passed: too hard, or broken. */
  never_pass: string[];
  /** KR-20 (Cronbach's alpha with repeats) over versions; absent if the totals do not vary. */
  reliability: number | null;
  /** Published saturation index `exp(−R²)` of the five best versions, with `n_eff = √n`. */
  s_index: number | null;
  /** Saturation index with the standard error of paired differences. */
  s_index_paired: number | null;
  /** Range of the versions' means divided by the noise of repeating a run; absent without repeats or noise. */
  signal_to_noise: number | null;
  /** Number of recent versions considered for "always" and "never". */
  versions: number;
}

/** List of background jobs. */
export interface JobList {
  /** Jobs in order, newest first. */
  jobs: JobView[];
}

/** Progress of a job. Every kind has `done` and `planned`; other fields depend on the kind. */
export type JobProgress = BenchJobProgress | ResearchJobProgress | RetrievalJobProgress;

/** State of a background job. */
export type JobState = "waiting" | "running" | "done" | "failed" | "stopped";

/** Background job of this server. */
export interface JobView {
  /** Time when the job was requested. */
  created_at: string;
  /** Time when the job ended. */
  ended_at?: string | null;
  /** Error message of a failed job. */
  error?: string | null;
  /** Id of the job. */
  job_id: string;
  /** Kind of job: `bench_run`, `research_run` or `retrieval_run`. */
  kind: string;
  /** Progress of the job so far. */
  progress?: JobProgress | null;
  /** Result of a finished job. */
  result?: unknown;
  /** Id of the run, if known before the end. */
  run_id?: string | null;
  /** Current state of the job. */
  state: JobState;
  /** Subject of the job: the suite, the task or the system. */
  subject: string;
}

/** Request to derive judgments. */
export interface JudgeFeedbackRequest {
  /** Report only, without writing. */
  dry_run?: boolean;
  /** Minimum confidence for a judgment to be written, 0 to 1; 0.6 by default. */
  min_confidence?: number;
  /** Attribute all uses to queries again, and replace the judgments that earlier feedback led to. */
  rederive?: boolean;
}

/** Opinion of one judge about one answer. */
export interface JudgeOpinion {
  /** Answer per criterion, in the order of the rubric. */
  criteria?: CriterionAnswer[];
  /** Name of the judge. */
  judge: string;
  /** Reason that the judge gave. */
  reason?: string;
  /** Score between 0 and 1. */
  score: number;
}

/** Result of deriving judgments from feedback. */
export interface JudgedCorpus {
  /** Agreement with human judgments, if both exist. */
  beside_people: HumanAgreement | null;
  /** Number of results with a human judgment, which are unchanged. */
  by_people: number;
  /** Whether nothing was written. */
  dry_run: boolean;
  /** Total number of feedback events. */
  events: number;
  /** Number of written judgments by grade. */
  grades: Record<string, unknown>;
  /** All judgments with their reasons. */
  judgments: FeedbackJudgment[];
  /** Number of queries in the corpus. */
  queries: number;
  /** Number of earlier judgments from feedback that are gone, if they were derived again. */
  removed: number;
  /** Number of judgments below the minimum confidence. */
  uncertain: number;
  /** Number of queries whose results have feedback. */
  with_feedback: number;
  /** Number of judgments that were written. */
  written: number;
}

/** Judgement of the runs of a log. */
export interface JudgedLog {
  /** Format that the log was read as. */
  format: LogFormat;
  /** Judgement of each run, in the order of the log. */
  runs: ProgressReport[];
  /** Records that were not understood. */
  skipped: Skipped;
}

/** Share of judged documents in the top results. */
export interface JudgedShare {
  /** Share for the control, 0 to 1. */
  control: number | null;
  /** Number of top results considered per query. */
  depth: number;
  /** Share for the treatment, 0 to 1. */
  treatment: number | null;
}

/** Label to store or to remove. */
export interface LabelBody {
  /** Id of the case. */
  case_id: string;
  /** Whether the response is correct; null removes the label, and the result is as it was before. */
  pass?: boolean | null;
  /** Repeat of the case, counted from 0. */
  repeat?: number;
  /** Name of the variant, if the run has several. */
  variant?: string | null;
}

/** Result to label next, and the labels so far. */
export interface LabelStep {
  /** Agreement of the judge with people, if both assessed the same responses. */
  calibration?: Calibration | null;
  /** Number of labels given in this session. */
  labelled: number;
  /** Total number of results with a label. */
  labels: number;
  /** Number of results left to label, including the next one. */
  left: number;
  /** Result to label next; absent if none is left. */
  next: UnlabelledCase | null;
  /** Share of cases that passed, from 0 to 1. */
  pass_rate: number | null;
  /** Number of results still pending for a person or a judge. */
  pending: number;
  /** Id of the benchmark run. */
  run_id: string;
  /** Limitations that apply to this session. */
  warnings?: string[];
}

/** Factors of the vector weight for queries that are not in English, if the model knows only English. */
export interface LanguageSettings {
  /** Factor for other languages in Latin script, of which the model knows some words. */
  latin?: number;
  /** Factor for languages in other scripts. */
  other?: number;
}

/** Latency of a stage in milliseconds. */
export interface Latency {
  /** Mean latency in milliseconds. */
  mean: number;
  /** Median latency in milliseconds. */
  p50: number;
  /** 95th percentile in milliseconds. */
  p95: number;
  /** 99th percentile in milliseconds. */
  p99: number;
  /** Number of queries with this stage. */
  queries: number;
}

/** Comparison of the latency of two pipelines. */
export interface LatencyComparison {
  /** 95th percentile of the control in milliseconds, over the fastest repetition of each query. */
  control_p95_ms: number;
  /** Median over the queries of the median relative increase, 0 for none. */
  median_increase: number;
  /** Number of queries measured with both pipelines. */
  queries: number;
  /** Number of repetitions of each query. */
  repetitions: number;
  /** P-value of so many slower queries if the treatment is within the limit. */
  slower_p_value: number;
  /** Number of queries that exceed the limit in every repetition. */
  slower_queries: number;
  /** 95th percentile of the treatment in milliseconds, over the fastest repetition of each query. */
  treatment_p95_ms: number;
  /** P-value of so many queries within the limit if the treatment exceeds it. */
  within_p_value: number;
}

/** Classification of novelty or readiness. */
export type Level = "LOW" | "MEDIUM" | "HIGH";

/** BM25 parameters of the lexical channel. */
export interface LexicalSettings {
  /** BM25 `b`: length normalisation, from 0 to 1. */
  b?: number;
  /** Weight of a synonym, relative to a word of the query. */
  expansion?: number;
  /** BM25 `k1`: term frequency saturation. */
  k1?: number;
  /** Weight of an occurrence in a title, heading or trigger phrase, relative to one in the text. */
  title?: number;
}

/** A range of lines of a text. */
export interface LineSpan {
  /** First line, counted from 1. */
  first: number;
  /** Last line; at least `first`. */
  last: number;
}

/** Request to add or remove a causal link. */
export interface LinkBody {
  /** Id of the source memory. */
  from: string;
  /** Relation to the target memory. */
  kind: LinkKind;
  /** Project to search, by name or id, or `all`. */
  project?: string | null;
  /** Remove the link instead. */
  remove?: boolean;
  /** Id of the target memory. */
  to: string;
}

/** Relation of one memory to another. */
export type LinkKind = "caused" | "enabled" | "supersedes" | "contradicts" | "supports";

/** State of a causal link after a change. */
export interface LinkResponse {
  /** Id of the source memory. */
  from: string;
  /** Relation of the source to the target. */
  kind: LinkKind;
  /** Whether the link exists now. */
  linked: boolean;
  /** Id of the target memory. */
  to: string;
}

/** Influence of causal links on the results. */
export interface LinkSettings {
  /** Number of best results whose links are followed. */
  seeds?: number;
  /** Fraction of a result's score that its causal neighbour inherits. */
  share?: number;
}

/** Summary of a memory in a list. */
export interface ListResponse {
  /** Confidence from validations, 0 to 1. */
  confidence: number;
  /** Hierarchical path, such as store/sqlite. */
  folder: string;
  /** Id of the memory. */
  id: string;
  /** Kind, such as decision or bug. */
  kind: string;
  /** Project of the memory; null if it is global. */
  project: Project | null;
  /** Tier that sets its importance. */
  tier: Tier;
  /** Summary in one line. */
  title: string;
}

/** Formats of agent logs. */
export type LogFormat = "steps" | "chat" | "swe-agent" | "mini-swe-agent" | "openhands" | "autogen" | "autogen-agentchat" | "langchain" | "tau-bench" | "inspect" | "claude-code" | "codex" | "gemini" | "responses" | "chat-gpt" | "otel" | "swe-agent-dataset";

/** What a log shows: an agent at work, a discussion, or both. */
export type LogKind = "work" | "deliberation" | "mixed";

/** Shapes of a log: a list of records, or one document. */
export type LogShape = Array<Record<string, unknown>> | Record<string, unknown>;

/** State of the query log. */
export interface LogState {
  /** Number of searches that could not be written. */
  lost: number;
  /** Error of the last failed write, if any. */
  problem: string | null;
  /** Number of searches in the queue. */
  waiting: number;
  /** Number of searches written by this process. */
  written: number;
}

/** Rule that stops after an accepted round when the next one is not expected to pay off. */
export interface LookAhead {
  /** First round after which the rule applies. */
  from_round: number;
  /** Yield (new and relevant content relative to the best round) below which to stop, from 0 to 1. */
  yield_below: number;
}

/** Request to match trigger phrases in a text. */
export interface MatchBody {
  /** Maximum number of matches; 5 by default. */
  limit?: number | null;
  /** Project, by name or id, or `all`. Global memories are included. */
  project?: string | null;
  /** Session; its results quoted in the text count as used if the caller may write. */
  session?: string | null;
  /** Text to match against. */
  text: string;
}

/** Memories whose trigger phrases occur in a text. */
export interface MatchedTriggers {
  /** Matches in descending order of score. */
  matches: TriggerMatch[];
}

/** A retrieval measure with an optional cutoff, such as `ndcg@10`. */
export type Measure = string;

/** Comparison by one measure; differences are treatment − control. */
export interface MeasureComparison {
  /** Bootstrap interval of the mean difference; absent with fewer than two queries. */
  ci: Interval | null;
  /** Mean of the control over these queries. */
  control: number;
  /** Smallest true difference detectable with a power of 80 %; absent if the differences do not vary. */
  detectable: number | null;
  /** Mean difference, treatment − control. */
  difference: number;
  /** Mean difference divided by the standard deviation of the differences; absent if they do not vary. */
  effect_size: number | null;
  /** Number of queries for which the treatment is worse. */
  losses: number;
  /** Measure that is compared. */
  measure: Measure;
  /** p-value of the randomization test after Holm correction over all measures. */
  p_holm: number;
  /** Two-sided p-value of the sign-flip randomization test. */
  p_randomization: number;
  /** Two-sided p-value of the paired t-test; absent if all differences are equal. */
  p_t: number | null;
  /** Number of queries with a value for both systems. */
  queries: number;
  /** Number of queries without a difference. */
  ties: number;
  /** Mean of the treatment over these queries. */
  treatment: number;
  /** Verdict of this measure after correction. */
  verdict: ComparisonVerdict;
  /** Number of queries for which the treatment is better. */
  wins: number;
}

/** Result of a saturation measurement. */
export interface Measured {
  /** Headroom of the suite, and whether it is detectable. */
  headroom: Headroom;
  /** Information that each case still carries. */
  items: Items;
  /** Reasons for the verdict, the decisive one first. */
  reasons: string[];
  /** Verdict of the measurement. */
  verdict: SuiteVerdict;
}

/** Change of one measure on the corpus. */
export interface MeasuredChange {
  /** Value of the control pipeline. */
  control: number;
  /** Treatment value minus control value. */
  difference: number;
  /** 95 % bootstrap interval of the difference. */
  interval: Bounds | null;
  /** Name of the measure. */
  measure: string;
  /** P-value of the randomisation test, after Holm's correction. */
  p_value: number;
  /** Value of the treatment pipeline. */
  treatment: number;
  /** Verdict: `better`, `worse` or `no_evidence`. */
  verdict: string;
}

/** Page of measured runs. */
export interface MeasuredPage {
  /** Cursor of the next page; absent on the last page. */
  next_cursor?: string | null;
  /** Measured runs, newest first. */
  runs: MeasuredRun[];
  /** Interrupted runs that can be resumed; only on the first page. */
  unfinished: UnfinishedRun[];
}

/** A measured run and its metrics. */
export interface MeasuredRun {
  /** Id of the run it was compared with, if any. */
  control_run_id: string | null;
  /** Metrics by the names of the specification. */
  figures: Record<string, number>;
  /** Whether the difference to the control is significant. */
  is_significant: boolean | null;
  /** Time of the measurement. */
  measured_at: string;
  /** Number of queries in the metrics. */
  queries: number;
  /** Id of the measured run. */
  run_id: string;
  /** Type of run: `full`, `regression`, `shadow` or `ab_test`. */
  run_type: string;
  /** System or file that was measured. */
  system: string;
}

/** A measured run with its values by query. */
export interface MeasuredRunDetail {
  /** Value of each measure by query; empty if not stored. */
  by_query: Record<string, Record<string, number>>;
  /** Id of the run it was compared with, if any. */
  control_run_id: string | null;
  /** Metrics by the names of the specification. */
  figures: Record<string, number>;
  /** Whether the difference to the control is significant. */
  is_significant: boolean | null;
  /** Time of the measurement. */
  measured_at: string;
  /** Number of queries in the metrics. */
  queries: number;
  /** All metrics with intervals, as originally reported. */
  report: unknown;
  /** Id of the measured run. */
  run_id: string;
  /** Type of run: `full`, `regression`, `shadow` or `ab_test`. */
  run_type: string;
  /** System or file that was measured. */
  system: string;
}

/** Measured saturation of a cycle. */
export interface MeasuredSaturation {
  /** Saturation level of the probability. */
  level: SaturationLevel;
  /** Probability that closing all headroom would go undetected, from 0 to 1. */
  probability: number;
  /** Verdict of the measurement. */
  verdict: SuiteVerdict;
}

/** A stored memory with its metadata. */
export interface Memory {
  /** Person, agent or system that said or wrote it. */
  author?: string | null;
  /** Confidence from validations, 0 to 1. */
  confidence: number;
  /** Statement and reasons, in Markdown. */
  content: string;
  /** Time when it was saved. */
  created_at: string;
  /** Time when it is deleted, if it expires. */
  expires_at?: string | null;
  /** Hierarchical path, such as store/sqlite. */
  folder: string;
  /** Id of the memory. */
  id: string;
  /** Kind, such as decision or bug. */
  kind: string;
  /** Trigger phrases learned from selections. */
  learnt_triggers: string[];
  /** Time when it was said or seen, if it is not that of saving. */
  observed_at?: string | null;
  /** Path of the source file, if any. */
  origin?: string | null;
  /** Project of the memory; null if it is global. */
  project: Project | null;
  /** Labels for filters, sorted. */
  tags?: string[];
  /** Tier that sets its importance. */
  tier: Tier;
  /** Summary in one line. */
  title: string;
  /** Trigger phrases set by its author. */
  triggers: string[];
  /** Time of the last change. */
  updated_at: string;
  /** Time from which it holds, if bounded. */
  valid_from?: string | null;
  /** Time from which it no longer holds, if bounded. */
  valid_until?: string | null;
  /** Number of validations so far. */
  validations: number;
}

/**
 * Conditions that all results satisfy; absent ones do not restrict. Time ranges include their start and
 * exclude their end.
 */
export interface MemoryFilter {
  /** Any of these authors. */
  authors?: string[];
  /** Any of these kinds, such as `decision`. */
  kinds?: string[];
  /** Observed at this time or later. */
  observed_from?: string | null;
  /** Observed before this time. */
  observed_until?: string | null;
  /** Recorded at this time or later. */
  recorded_from?: string | null;
  /** Recorded before this time. */
  recorded_until?: string | null;
  /** All of these tags. */
  tags?: string[];
  /** Any of these tiers. */
  tiers?: Tier[];
}

/** Health and size of the memory. */
export interface MemoryHealth {
  /** Number of searchable chunks. */
  chunks: number;
  /** Number of constitutional memories. */
  constitutional: number;
  /** Reason why semantic search is unavailable or incomplete; absent if it works. */
  degraded: string | null;
  /** Number of chunks with a vector of the configured model. */
  embedded: number;
  /** Configured sentence model; absent if there is none. */
  embedder: string | null;
  /** Progress of vectors that are made in the background. */
  embedding: EmbeddingProgress;
  /** Source of the index, and how it follows the database. */
  index: IndexActivity;
  /** Metrics of the latest measured run; absent before the first. */
  latest_metrics: MeasuredRun | null;
  /** State of this process's query log. */
  log: LogState;
  /** Total number of memories. */
  memories: number;
  /** URL or path of the database. */
  store: string;
  /** Statistics of the agents' tasks. */
  tasks: TaskMetrics;
  /** Memory used by vectors, in bytes. */
  vector_bytes: number;
  /** Number of vectors of other models, which are ignored. */
  vectors_of_other_models: number;
  /** Approximate memory used by the word index, in bytes. */
  word_bytes: number;
}

/** A page of memories. */
export interface MemoryPage {
  /** Memories in the order of their last change. */
  memories: ListResponse[];
  /** Cursor of the next page; absent on the last one. */
  next_cursor?: string | null;
}

/** One result of a memory search. */
export interface MemoryResult {
  /** Rank and score in each channel that found it. */
  channels: Record<string, Found>;
  /** Calibrated probability from 0 to 1 that the result is relevant. */
  confidence: number;
  /** Whether it is included only because it is constitutional. */
  constitutional_only: boolean;
  /** Ids of visible memories that contradict this one. */
  contradicts?: string[];
  /** Best matching chunk of the memory. */
  excerpt: string;
  /** Folder of the memory. */
  folder: string;
  /** Id of the memory. */
  id: string;
  /** Kind of the memory, such as `decision`, `bug` or `note`. */
  kind: string;
  /** Whether the memory has more text than the excerpt. */
  partial: boolean;
  /** Project of the memory; null for a global memory that every project sees. */
  project: Project | null;
  /** Rank of the result, from 1. */
  rank: number;
  /** Whether the confidence reaches the relevance floor. */
  relevant: boolean;
  /** Relevance score after ranking. */
  score: number;
  /** Id of the current memory that replaced this one; absent if it was not replaced. */
  superseded_by?: string | null;
  /** Importance tier of the memory. */
  tier: Tier;
  /** Title of the memory. */
  title: string;
  /** Number of tokens of the excerpt. */
  tokens: number;
  /** Whether it held earlier or will hold later; absent if it holds at the time of the search. */
  validity?: Validity | null;
}

/** Result of a memory search. */
export interface MemorySearch {
  /** Results that the session has already received; not returned again. */
  already_shown: Held[];
  /** Keywords and phrases that matched. */
  because: string[];
  /** What was found but does not reach the relevance floor, if nothing does; best first. */
  below_floor?: WeakResult[];
  /** Reason why a channel was unavailable; absent otherwise. */
  degraded: string | null;
  /** Detected intent; absent when no keyword matches. */
  intent: Intent | null;
  /** Whether context pressure replaced the requested mode by a shallower one. */
  mode_override_applied: boolean;
  /** Whether anything relevant was found. */
  outcome: SearchOutcome;
  /** Results that exceed the token budget. */
  over_budget: Held[];
  /** Pressure on the caller's context. */
  pressure_level: Pressure;
  /** Query text in natural language. */
  query: string;
  /** Id of the query in the query log. */
  query_id: string;
  /** Results of the search, best first. If nothing relevant was found, only constitutional memories. */
  results: MemoryResult[];
  /** Mode that the search uses. */
  selected_mode: Mode;
  /** Timings and statistics of the search. */
  telemetry: SearchTelemetry;
  /** Total number of tokens of the results. */
  tokens: number;
}

/** Message of a chat log. */
export interface MessageShape {
  /** Text of the message. */
  content: string;
  /** Speaker, such as `user` or `assistant`. */
  role: string;
}

/** Request to append messages of an agent to a run. */
export interface MessagesBody {
  /**
   * Messages in order, in the shape of the agent's framework: OpenAI, Anthropic or LangChain messages with
   * tool calls and results, session log records, or steps with `calls`.
   */
  messages: Array<Record<string, unknown>>;
}

/** Sequential test that decides a trial. */
export type Method = "betting" | "sprt";

/** Comparison of one metric between two runs. */
export interface MetricComparison {
  /** Mean over cases in the baseline. */
  baseline: number;
  /** Mean over cases in the candidate. */
  candidate: number;
  /** Number of cases that have the metric in both runs. */
  cases: number;
  /** Cases that were flagged for this metric. */
  changes: CaseChange[];
  /** Share of the false-alarm level assigned to this metric. */
  level: number;
  /**
   * P-value of the one-sided test over cases that the metric did not get worse; absent when the change is
   * too small to test.
   */
  p_value: number | null;
  /** Reason why the metric is a regression; absent otherwise. */
  regression: string | null;
}

/** Estimate of what the searches so far have missed. */
export interface MissedEstimate {
  /** Share that is exceeded in one of ten loops, in steps of 0.1. */
  bound: number;
  /** Expected share of the relevant results of ten searches that was not returned yet, from 0 to 1. */
  share: number;
}

/** Value of judged queries without results. */
export type MissingQueries = "zero" | "skip";

/** Depth of a search. */
export type Mode = "quick" | "focused" | "deep";

/** Limits and channels of a search mode. */
export interface ModeSettings {
  /** Maximum number of candidates per channel. */
  candidates?: number;
  /** Whether the query is expanded by synonyms. */
  expand?: boolean;
  /** Maximum number of link hops from a result. */
  hops?: number;
  /** Maximum number of results. */
  limit?: number;
  /** Maximum number of tokens of all results. */
  token_budget?: number;
  /** Whether the vector channel is searched. */
  vectors?: boolean;
}

/** Limits of each search mode. */
export interface ModeTable {
  /** Deep mode: all channels, query expansion, more link hops and more results. */
  deep?: ModeSettings;
  /** Focused mode: all channels. */
  focused?: ModeSettings;
  /** Quick mode: lexical and trigger channels only, few results. */
  quick?: ModeSettings;
}

/** Number of chat model calls in a round, by purpose. */
export interface ModelCalls {
  /** Calls to write an answer. */
  answer: number;
  /** Calls to write the summary. */
  compress: number;
  /** Failed calls, which were replaced by rules. */
  failed: number;
  /** Calls to score novelty. */
  novelty: number;
  /** Calls to plan the query. */
  plan: number;
}

/** Value of one scorer, metric or criterion for one answer. */
export interface NamedScore {
  /** Whether the status of the result depends on this score. */
  decides?: boolean;
  /** Whether higher or lower values are better, if known. */
  direction?: Direction | null;
  /** Original value if it was a text, such as a letter grade. */
  label?: string | null;
  /** Name of the scorer or metric, or text of the criterion. */
  name: string;
  /** Whether this score alone passes; absent when it has no threshold. */
  passed?: boolean | null;
  /** Smallest and largest possible value, if known. */
  range?: number[] | null;
  /** Explanation or evidence that the scorer gave. */
  reason?: string | null;
  /** Value on the scorer's own scale; absent when it returned no number. */
  value?: number | null;
  /** Weight of the score among those of its answer; absent for the usual weight of 1. */
  weight?: number | null;
}

/** Value of queries without relevant documents. */
export type NoRelevant = "skip" | "zero";

/** Note to add to a run. */
export interface NoteBody {
  /** Name of the person who writes the note. */
  author: string;
  /** Text of the note. */
  note: string;
}

/** Scores of one round by every assessor. A score that could not be computed is absent. */
export interface Novelty {
  /** Share of new claims, from 0 to 1. */
  claims: number | null;
  /** Number of distinct claims that are new. */
  claims_new: number;
  /** Number of distinct claims in the results. */
  claims_seen: number;
  /** Score of the chat model, scaled to 0 to 1. */
  model?: number | null;
  /** Whether the model's answer contained no number, so that the neutral score 5 was used. */
  model_unparsable?: boolean;
  /** Share of new words, as the specification counts them. */
  seed: number | null;
  /** Mean embedding distance to accepted claims, from 0 to 1. */
  semantic?: number | null;
  /**
   * New and relevant content relative to the best accepted round: 1 for the first round, 0 when nothing
   * new is relevant to the task.
   */
  yield?: number | null;
}

/** A number and the threshold it was compared with. */
export interface Number {
  /** Reason why the value is absent. */
  absent_because?: string | null;
  /** Comparison with a threshold; absent when the number was only reported. */
  compared?: Comparison | null;
  /** Name of the measured quantity. */
  name: string;
  /** Measured value; absent when it could not be computed. */
  value?: number | null;
}

/** Quantity that eviction minimizes: the cost of a wrong eviction is reading the item again. */
export type Objective = "rereads" | "reread_tokens";

/** What saving does if an identical or near-identical memory exists. Nothing is ever deleted. */
export type OnDuplicate = "keep" | "update" | "merge" | "reject";

/** Something that is unfinished at the end of a run. */
export interface OpenEnd {
  /** Kind of the open end. */
  kind: OpenEndKind;
  /** Step (from 1) in which it appeared, if known. */
  step?: number | null;
  /** The item, command or question, shortened. */
  text: string;
}

/** Kinds of open ends. */
export type OpenEndKind = "plan_item" | "failed_check" | "question";

/** Expansion that is open. */
export interface OpenExpansion {
  /** Id of the expansion. */
  expansion_id: string;
  /** Current phase of the expansion. */
  phase: Phase;
  /** Research brief as a prompt. */
  prompt?: string | null;
  /** Reason why the expansion was opened. */
  trigger_reason: string;
}

/** What happens to a result that is not current. */
export type OutdatedRule = "demote" | "hide" | "mark";

/** Outputs of a round, grouped by kind. */
export interface Outputs {
  /** Sources as strings or objects, preserved without interpretation. */
  citations?: unknown[] | null;
  /** Statements made as facts or proposals. */
  claims?: Claim[] | null;
  /** Decisions made in this round. */
  decisions?: string[] | null;
  /** Actions to take next, such as "write the migration". */
  next_actions?: string[] | null;
  /** Questions that are still unanswered. */
  open_questions?: string[] | null;
  /** Courtesies that end an exchange, such as thanks; set only if the round contains nothing else. */
  partings?: string[];
  /** Summary of the round in one sentence; not scored. */
  summary?: string | null;
}

/** A page that was considered for reading in full. */
export interface Page {
  /** Number of characters read; absent when the page was not read. */
  chars?: number | null;
  /** Share of its snippet that was known before its round. */
  overlap: number;
  /** Text of the page as Markdown. */
  text?: string;
  /** Address of the page. */
  url: string;
  /** Reason why the page was not read. */
  why_not?: string | null;
}

/** Spans that were not accepted. */
export interface PartialSuccess {
  /** Why the first of them was rejected. */
  errorMessage: string;
  /** Number of rejected spans. */
  rejectedSpans: number;
}

/** Comparison of the pass rates of two runs. */
export interface PassComparison {
  /** Mean pass rate over cases in the baseline. */
  baseline: number;
  /** Number of cases that pass more often. */
  better: number;
  /** Mean pass rate over cases in the candidate. */
  candidate: number;
  /** Number of cases decided in both runs. */
  cases: number;
  /** Candidate pass rate minus baseline pass rate. */
  difference: number;
  /**
   * 90 % confidence interval of the difference over cases (95 % one-sided); absent with fewer than two
   * cases.
   */
  interval: Interval | null;
  /** Significance level that the p-value was compared with. */
  level: number;
  /** P-value of the exact one-sided test that no case got worse. */
  p_value: number;
  /** Number of cases that pass less often. */
  worse: number;
}

/** Phase of an expansion. */
export type Phase = "research" | "awaiting_approval" | "archiving" | "applying_thresholds" | "adding_benchmarks" | "adding_edge_cases" | "enabling" | "verifying" | "committing" | "logging" | "rolling_back" | "done" | "rejected" | "rolled_back";

/** Item protected from eviction by a pin. */
export interface PinnedItem {
  /** Id of the item. */
  ctx_id: string;
  /** Id of the pinned item that depends on it; absent if the item itself is pinned. */
  needed_by?: string | null;
  /** Size of the item in tokens. */
  token_count: number;
}

/**
 * Parameters of a search.
 *
 * ```
 * use satiety::memory::{Fusion, Mode, Pipeline};
 * let part = r#"{"fusion": {"reciprocal_rank": {"k": 10}}, "modes": {"deep": {"limit": 30}}}"#;
 * let pipeline: Pipeline = serde_json::from_str(part)?;
 * assert_eq!(pipeline.fusion, Fusion::ReciprocalRank { k: 10 });
 * assert_eq!((pipeline.modes.of(Mode::Deep).limit, pipeline.modes.of(Mode::Deep).hops), (30, 2));
 * assert!(serde_json::from_str::<Pipeline>(r#"{"fussion": "score"}"#).is_err());
 * # Ok::<(), serde_json::Error>(())
 * ```
 */
export interface Pipeline {
  /** Oversampling factor of each channel, because some candidates are filtered out or expired. */
  candidates_over?: number;
  /** Channels that are searched. */
  channels?: ChannelSwitches;
  /** Score factors by confidence. */
  confidence?: ConfidenceFactors;
  /** Constitutional memories appear within this many first results. */
  constitutional_within?: number;
  /** Treatment of memories that were superseded or are not valid at the time of the search. */
  currency?: CurrencySettings;
  /** How near-duplicates are demoted. */
  diversity?: Diversity;
  /** How the lists of the channels are fused. */
  fusion?: Fusion;
  /** Influence of the language of the query. */
  languages?: LanguageSettings;
  /** Parameters of the lexical channel (BM25). */
  lexical?: LexicalSettings;
  /** Influence of causal links on the results. */
  links?: LinkSettings;
  /** Limits of each search mode. */
  modes?: ModeTable;
  /** Context usage thresholds for shallower searches. */
  pressure?: PressureSettings;
  /** Confidence of results, and the floor below which a search has found nothing. */
  relevance?: RelevanceSettings;
  /** Number of candidates that are reranked. */
  rerank?: RerankSettings;
  /** Influence of earlier feedback in the session. */
  session?: SessionSettings;
  /** Score factor of each tier. */
  tiers?: TierFactors;
  /** Influence of neighboring turns of a conversation. */
  turns?: TurnSettings;
  /** Weight of each channel, by intent. */
  weights?: IntentWeights;
}

/** Metrics of a search pipeline. Each is a mean over the queries that report it, with a confidence interval. */
export interface PipelineMetrics {
  /** Contribution of each channel. */
  channels: Record<string, Channel>;
  /** Tokens saved by deduplication; absent if no query reports it. */
  dedup_tokens: TokenSavings | null;
  /** Number of results analyzed per query. */
  depth: number;
  /** Share of the results returned only because of query expansion. */
  expansion_impact: Aggregate;
  /** Share of the results whose final rank differs from their best rank in any channel. */
  fusion_reorder_rate: Aggregate;
  /** Latency of each stage in milliseconds. */
  latency_ms: Record<string, Latency>;
  /** Number of queries with a trace. */
  queries: number;
}

/** An item of a plan or to-do list. */
export interface PlanItem {
  /** Whether the item is completed. */
  done: boolean;
  /** Text of the item. */
  text: string;
}

/** How well probabilities predict exclusions. */
export interface Prediction {
  /** Probability that an excluded item is ranked above an evicted one; 0.5 is chance. */
  auc: number;
  /** Brier score: mean squared error of the probabilities. */
  brier: number;
  /** Expected calibration error: mean distance between probability and frequency. */
  ece: number;
  /** Log loss: mean negative log-likelihood. */
  log_loss: number;
  /** Bins of the reliability diagram. */
  reliability: CalibrationBin[];
}

/** Pressure on the caller's context, by how full it is. */
export type Pressure = "unknown" | "none" | "warning" | "critical";

/** Context usage thresholds above which searches become shallower. */
export interface PressureSettings {
  /** Context usage from 0 to 1 from which no mode deeper than focused is used. */
  focused_from?: number;
  /** Context usage from 0 to 1 from which no mode deeper than quick is used. */
  quick_from?: number;
}

/** Share of the workers that a distributed run gets next to other runs. */
export type Priority = "low" | "normal" | "high";

/** Error response in the problem details format. */
export interface Problem {
  /** JSON path of the error in the request body. */
  at?: string | null;
  /** Description of what is wrong with this request. */
  detail: string;
  /** Estimated cost of the request, in units of about a millisecond of one processor. */
  estimated?: number;
  /** Suggested action to fix the request. */
  hint?: string | null;
  /** Limit of one request, or the remaining budget of the caller. */
  limit?: number;
  /** Id of the request, also in the server's log. */
  request_id?: string | null;
  /** HTTP status of the response. */
  status: number;
  /** Short title of the kind of problem. */
  title: string;
  /** Kind of problem: `urn:satiety:problem:` and a word. */
  type: string;
}

/** Log of an agent to judge without storing it. */
export interface ProgressBody {
  /** Format of the log; detected if absent. */
  format?: LogFormat | null;
  /** Messages with tool calls and results in order, or a whole log in one of the supported formats. */
  log: LogShape;
}

/** One finding about a step. */
export interface ProgressEvidence {
  /** The earlier step (from 1) that this one repeats. */
  earlier_step?: number | null;
  /** What was found. */
  kind: EvidenceKind;
  /** Length of the cycle in steps, for [`EvidenceKind::Cycle`]. */
  period?: number | null;
  /** How much the finding raises the level, in nats. */
  weight: number;
}

/** Judgement of a whole run. */
export interface ProgressReport {
  /** Probability that the signal is right, from 0 to 1. */
  confidence: number;
  /** Expected number of further steps without a new result. */
  expected_waste: number;
  /** Expected cost of these steps in the currency of the log, if the log has costs. */
  expected_waste_cost?: number | null;
  /** Expected number of tokens for these steps, if the log has token counts. */
  expected_waste_tokens?: number | null;
  /** First step (from 1) with NUDGE. */
  first_nudge_step: number | null;
  /** First step (from 1) with STOP or ESCALATE. */
  first_stop_step: number | null;
  /** Id of the run, if the log has one. */
  id?: string | null;
  /** What the log shows. */
  kind: LogKind;
  /** What is unfinished after the last step. */
  open_ends: OpenEnd[];
  /** Name of the profile. */
  profile: string;
  /** Reason for the signal in one sentence. */
  reason: string;
  /** Recommendation after the last step. */
  signal: ProgressSignal;
  /** Signal after each step. */
  signal_by_step: ProgressSignal[];
  /** Verdict after each step. */
  steps: StepVerdict[];
  /** Calls, failures and repeats of each tool. */
  tools: ToolStats[];
  /** Number of steps that brought nothing new. */
  wasted_steps: number;
}

/** Recommendation for an agent at work after a step. */
export type ProgressSignal = "CONTINUE" | "NUDGE" | "SHIP" | "STOP" | "ESCALATE";

/** A project, such as a repository. */
export interface Project {
  /** Unique id: `project-` and 16 hexadecimal digits, derived from its directory or its name. */
  id: string;
  /** Display name: the name of its directory, or the given name. */
  label: string;
}

/** Result of the search for better channel weights. */
export type ProposalVerdict = "propose" | "keep" | "not_enough_evidence";

/** Request for a proposal of channel weights. */
export interface ProposeRequest {
  /** Start the proposed change as a feature of this name, without rollout; only report it when absent. */
  start?: string | null;
}

/** An eviction proposal and how to present it. */
export interface ProposeResponse {
  /** Number of tokens that evicting all candidates frees. */
  candidate_tokens: number;
  /** Items to evict, the least valuable first. */
  candidates: EvictionCandidate[];
  /** Expected cost and saving; absent without prices, or if nothing could be dropped. */
  cost?: EvictionCost | null;
  /** Expected number of exploration items, as a share of the selected items. */
  exploration: number;
  /** Number of tokens that must be freed. */
  need_tokens: number;
  /** Id of the proposal. */
  proposal_id: string;
  /** Time at which the proposal was made. */
  proposed_at: string;
  /** Id of the scope. */
  scope_id: string;
  /** Version of the weights that scored the items. */
  scorer_model: string;
  /** Seed of the random exploration. */
  seed: number;
  /** Reason why the candidates free too few tokens; absent if they free enough. */
  shortfall?: Shortfall | null;
  /** Ids of earlier proposals that timed out and were therefore executed. */
  timed_out?: string[];
  /** Time the agent has to answer, in milliseconds. */
  timeout_ms: number;
  /** Turn in which the proposal was made. */
  turn_number: number;
  /** Compact candidates to show to the agent. */
  view: CandidateView[];
}

/** Request for an eviction proposal. */
export type ProposeScopeRequest = {
  /** Maximum tokens after eviction. */
  budget_tokens?: number | null;
  /** Extra candidates proposed only for learning, as a share of those that must go; 0.05 if absent. */
  exploration?: number | null;
  /** Tokens to free, instead of `budget_tokens`. */
  free_tokens?: number | null;
  /** Seconds since the last request to the model, to know whether its cache has expired; 0 if absent. */
  idle_seconds?: number | null;
  /** Provider with the cache prices to use, such as `anthropic`; the configured one if absent. */
  provider?: string | null;
  /** Expected number of further requests; as many as there have been turns, at least 10, if absent. */
  remaining_turns?: number | null;
  /** Id of the scope to shrink. */
  scope_id: string;
  /** Random seed; generated if absent. */
  seed?: number | null;
  /** Answer timeout in milliseconds; 2000 if absent. */
  timeout_ms?: number | null;
  /** Current turn, if it has advanced. */
  turn?: number | null;
  /** Tokens that the model accepts at most. Below this, a proposal that costs more than it saves waits. */
  window_tokens?: number | null;
} & ({
  budget_tokens: number;
  free_tokens?: null;
} | {
  budget_tokens?: null;
  free_tokens: number;
} | {
  budget_tokens?: null;
  free_tokens?: null;
});

/** Change of one query. */
export interface QueryChange {
  /** Value of the control. */
  control: number;
  /** Difference, treatment − control. */
  difference: number;
  /** Id of the query. */
  query: string;
  /** Value of the treatment. */
  treatment: number;
}

/** Values of a query in two runs. */
export interface QueryDelta {
  /** Value in the earlier run. */
  before: number;
  /** Value in the later run. */
  now: number;
  /** Text of the query, if it is in the corpus. */
  query?: string | null;
  /** Id of the query. */
  query_id: string;
}

/** What a question asks for. */
export type QuestionKind = "number" | "time" | "place" | "person" | "reason" | "procedure" | "name" | "list" | "yes_no" | "definition" | "other";

/** State of the work queue. */
export interface QueueStatus {
  /** Number of cases that workers run. */
  in_progress: number;
  /** Seconds since the oldest run with a waiting case was queued; null if no case waits. */
  oldest_seconds: number | null;
  /** Runs with remaining cases, the one that is served next first; at most 100. */
  runs: QueuedRun[];
  /** Number of cases that wait for a worker. */
  waiting: number;
  /** Connected workers, latest start first. */
  workers: WorkerInstance[];
}

/** Run with queued cases. */
export interface QueuedRun {
  /** Seconds since the run was queued. */
  age_seconds: number;
  /** Number of cases that workers run. */
  in_progress: number;
  /** Share of the workers next to other runs. */
  priority: Priority;
  /** Id of the benchmark run. */
  run_id: string;
  /** Id of the suite. */
  suite_id: string;
  /** Number of cases that wait for a worker. */
  waiting: number;
}

/** Exclusion rate of one group. */
export interface RateRow {
  /** Name of the group. */
  group: string;
  /** Wilson interval of the rate at 95 % confidence. */
  interval: Interval;
  /** Number of candidates that were excluded. */
  kept_back: number;
  /** Number of candidates in the group. */
  proposed: number;
  /** Share of candidates that were excluded, from 0 to 1. */
  rate: number;
}

/** Exclusion rates by group, each list sorted by group. */
export interface Rates {
  /** Exclusion rates by turns since the last use. */
  age: RateRow[];
  /** Exclusion rates by item kind. */
  kind: RateRow[];
  /** Exclusion rates by scope. */
  scope: RateRow[];
  /** Exclusion rates by relevance score. */
  score: RateRow[];
  /** Exclusion rates by zone. */
  zone: RateRow[];
}

/** Components of action readiness (seed section 3.2). */
export interface ReadinessDetail {
  /** 1 without blockers, otherwise 0. */
  blocker_score: number;
  /** Score of the next actions, 0 to 1: none, vague, specific, or several with an owner. */
  next_actions_score: number;
  /** Score of the open questions, 0 to 1: higher for none or fewer than before. */
  open_questions_score: number;
}

/** Reason for the decision of the gate. */
export type Reason = "first_rounds" | "novel" | "passed_through" | "saturated" | "outlook" | "few_missed" | "many_missed" | "fixed_rounds" | "cap" | "empty" | "failed";

/** Answer to an exporter, as in OTLP's `ExportTraceServiceResponse`. */
export interface ReceivedTraces {
  /** What was not accepted; absent if everything was. */
  partialSuccess?: PartialSuccess | null;
}

/** Recorded harness cycle and its evaluation. */
export interface RecordedCycle {
  /** Action that follows from the window. */
  action: Action;
  /** Changes of the harness since the previous cycle, if any. */
  adopted?: RigorDiff | null;
  /** Id of the open expansion, opened by this cycle or earlier. */
  expansion_id?: string | null;
  /** Scores in the window, oldest first. */
  history: number[];
  /** Whether the harness is consistently saturated. */
  is_consistent: boolean;
  /** Measurement over all suites; absent with metrics from a file. */
  measured?: Measured | null;
  /** Measurements that are missing, and why. */
  notes?: string[];
  /** Reason for the decision, if any. */
  reason: string | null;
  /** Metrics of the rolling window. */
  rolling_metrics: RollingMetrics;
  /** Saturation score of the specification, by signal. */
  signals: SignalScore;
  /** Recorded snapshot of the cycle. */
  snapshot: CycleSnapshot;
  /** State of each suite. */
  suites?: SuiteState[];
  /** Thresholds, and whether they are met. */
  thresholds?: ThresholdState[];
  /** Urgency of the action. */
  urgency: Urgency;
}

/** Result of refreshing the relevance signals of a scope. */
export interface RefreshResponse {
  /** Items sent to the scorer model. */
  asked: number;
  /** Whether the circuit breaker is open after repeated failures. */
  breaker_open: boolean;
  /** Items whose rating was already cached. */
  cached: number;
  /** Items whose similarity to the goal is now known. */
  embedded: number;
  /** Requests to the scorer model that failed. */
  failed: number;
  /** Scorer model; absent if none is configured. */
  model: string | null;
  /** Id of the refreshed scope. */
  scope_id: string;
}

/** A file that was rejected. */
export interface RefusedFile {
  /** Path of the rejected file. */
  file: string;
  /** Reason why the file was rejected. */
  reason: string;
}

/** A record that was not imported. */
export interface RefusedRecord {
  /** File and line, or the number of the record in a request. */
  place: string;
  /** Reason why it was not imported. */
  reason: string;
}

/** Relation between a value and its threshold. */
export type Relation = "below" | "at_most" | "at_least" | "above";

/** Logistic model of relevance, and the floor of confidence. */
export interface RelevanceCalibration {
  /** Increase of the log-odds at a cosine of 1. */
  cosine?: number;
  /** Increase of the log-odds if the words of the result cover the whole query. */
  coverage?: number;
  /** Confidence below which a result does not count as relevant; 0 disables the floor. */
  floor?: number;
  /** Log-odds of a result that has nothing in common with the query. */
  intercept?: number;
}

/** Calibration of confidence by the evidence that a search has. */
export interface RelevanceSettings {
  /** For searches by words and meaning. */
  fused?: RelevanceCalibration;
  /** For searches by words alone, and for models and languages whose cosines are not calibrated. */
  lexical?: RelevanceCalibration;
  /** For turns of conversations by words and meaning: they are short, and their neighbors are evidence as well. */
  turns?: RelevanceCalibration;
  /** For searches by meaning alone. */
  vector?: RelevanceCalibration;
}

/** How reliably cases pass within `k` tries. */
export interface Reliability {
  /** Number of cases with at least `k` decided repeats. */
  cases: number;
  /** Number of tries, `k`. */
  k: number;
  /** Mean probability that at least one of `k` tries passes. */
  pass_at_k: number;
  /** Mean probability that all `k` tries pass. */
  pass_hat_k: number;
}

/** A sentence of a model that no source supports. */
export interface RemovedSentence {
  /** Reason why it was removed. */
  reason: string;
  /** Sentence as the model wrote it, without its citations. */
  text: string;
}

/** Request to replay the evaluation corpus. */
export type ReplayBody = {
  /** Earlier run to compare with: its id, or `last`. */
  baseline?: string | null;
  /** Results to request per query, from 1 to 200; default 20. */
  depth?: number | null;
  /** Gate: maximum tolerated loss against the baseline, from 0 to 1. */
  fail_if_worse?: number | null;
  /** Search depth; by default chosen per query. */
  mode?: Mode | null;
  /** Changed pipeline settings; others keep their defaults. */
  pipeline?: Record<string, unknown>;
  /** Id of the run to resume. */
  resume?: string | null;
  /** Seed of the resampling and randomization test. */
  seed?: number;
} & ({
  fail_if_worse?: null;
} | {
  baseline: string;
});

/** A message to the agent between two of its turns. */
export interface Reply {
  /** Name of the sender, if known. */
  from?: string | null;
  /** Text of the message. */
  text: string;
}

/** Result of scoring a complete conversation. */
export interface Report {
  /** Components of the score in the last round. */
  components: Components;
  /** Embedding model used for L2; null if L2 was not active. */
  embedder: string | null;
  /** Tree of all values and thresholds behind the signal. */
  explanation: Explanation;
  /** Number of the first round with a signal other than CONTINUE; null if there is none. */
  first_stop_round: number | null;
  /** Recommended action as one sentence. */
  hint: string;
  /** Active matching levels: L0, L1 and, with an embedder, L2. */
  levels: string[];
  /** Novelty of each round; use `novelty` for trends. */
  novelty_by_round: RoundNovelty[];
  /** Name of the profile used for scoring. */
  profile: string;
  /** Action readiness of each round. */
  readiness_by_round: RoundReadiness[];
  /** The three strongest reasons for the signal. */
  reasons: string[];
  /** Yield of a review whose findings state severities; absent for other conversations. */
  review?: Review | null;
  /** 1 minus the combined novelty rate of the last round, 0 to 1. */
  score: number;
  /** Version of the scoring formulas. */
  scoring_version: string;
  /** Signal after each round. */
  signal_by_round: RoundSignal[];
  /** Recommendation after the last round. */
  stop_recommendation: StopRecommendation;
  /** Estimates of unseen claims; reported, but not used for the decision. */
  unseen: Unseen;
  /** Warnings of all rounds, with evidence. */
  warnings: Warning[];
}

/** Number of candidates that are reranked. */
export interface RerankSettings {
  /** Minimum number of reranked candidates. */
  least?: number;
  /** Number of reranked candidates per requested result. */
  per_result?: number;
}

/** Request to start or resume a research run. */
export type ResearchBody = {
  /** Settings of the search gate; at most 30 rounds. */
  gate?: GateSettings | null;
  /** Time limit in seconds; default 600. */
  max_seconds?: number | null;
  /** Token limit for the chat model; default none. */
  max_tokens?: number | null;
  /** First queries; by default derived from the task. */
  queries?: string[];
  /** Pages to read in full at the end; default 0. Private addresses are refused. */
  read_pages?: number | null;
  /** Results to request per search, from 1 to 50; default 20. */
  results?: number | null;
  /** Id of the run to resume. */
  resume?: string | null;
  /** Name of the source, from `/v1/research/sources`; default the first one. */
  source?: string | null;
  /** Question or task to research; omit it to resume a run. */
  task?: string | null;
  /** Whether to use the server's chat model, if configured. */
  use_model?: boolean;
} & ({
  task: string;
} | {
  resume: string;
  source?: null;
  task?: null;
});

/** Progress of a research run. */
export interface ResearchJobProgress {
  /** Number of rounds that were new enough to be accepted. */
  accepted: number;
  /** Answers so far, in the order of the questions; those of a chat model arrive one by one. */
  answers?: Answer[];
  /** Number of decided and stored rounds. */
  done: number;
  /** Novelty of the last round from 0 to 1; absent before the first results. */
  novelty?: number | null;
  /** Maximum number of rounds; most runs stop earlier. */
  planned: number;
  /** Current or latest search query. */
  query: string;
  /** URL of the page being read. */
  reading?: string | null;
  /** Id of the run in the store. */
  run_id: string;
}

/** Page of research runs. */
export interface ResearchPage {
  /** Cursor of the next page; absent on the last one. */
  next_cursor?: string | null;
  /** Runs in order, newest first. */
  runs: ResearchSummary[];
}

/** Findings of a research run and how they were obtained. */
export interface ResearchReport {
  /** Agreement between the novelty assessors. */
  agreement: AssessorAgreement[];
  /** Findings for each question of the task. */
  answers: Answer[];
  /** Number of chat model calls in the run. */
  model_calls: ModelCalls;
  /** Remarks on this run, such as fallbacks. */
  notes?: string[];
  /** Pages that were considered for reading in full. */
  pages?: Page[];
  /** Records of all rounds. */
  rounds: RoundRecord[];
  /** Number of rounds whose results were kept. */
  rounds_accepted: number;
  /** Id of the research run. */
  run_id: string;
  /** Schema identifier, `satiety.research/1`. */
  schema: string;
  /** Number of searches made. */
  searches: number;
  /** Seed of the gate's random draws. */
  seed: number;
  /** Search source that was used. */
  source: string;
  /** Accepted results in citation order. */
  sources: Source[];
  /** Time, tokens and money spent. */
  spent: Spent;
  /** Reason why the research ended. */
  stop: StopReason;
  /** Reason why the research ended, in words. */
  stop_words: string;
  /** Summary of the accepted results. */
  summary: string;
  /** Model that wrote the summary; absent when sentences were extracted. */
  summary_by?: string | null;
  /** Task that was researched. */
  task: string;
  /** Estimate of the share that is still unseen. */
  unseen: UnseenEstimate;
}

/** Summary of a research run in a list. */
export interface ResearchSummary {
  /** Time when the run ended; absent while it is running. */
  completed_at: string | null;
  /** Number of rounds so far. */
  rounds: number;
  /** Id of the research run. */
  run_id: string;
  /** Source that was searched, such as `arxiv`. */
  source: string;
  /** Time when the run started. */
  started_at: string;
  /** Reason why the run stopped; absent while it is running. */
  stop_reason: string | null;
  /** Research task in plain words. */
  task: string;
}

/** Answer to an eviction proposal. */
export interface ResolveRequest {
  /** Items to keep, most important first. */
  exclude_ctx_ids?: string[];
  /** Reasons, by item id. */
  exclude_reasons?: Record<string, string>;
  /** Id of the answered proposal. */
  proposal_id: string;
  /** Share of the proposal's tokens that may be kept; 0.3 if absent. */
  quota?: number | null;
  /** Who answers; `llm` if absent, `auto_accepted` if nothing is excluded. */
  resolved_by?: ResolvedBy | null;
}

/** Who or what resolved a proposal. */
export type ResolvedBy = "llm" | "user" | "auto_accepted" | "timeout";

/** A claim and the earlier one that it restates. */
export interface Restatement {
  /** Text of the restating claim. */
  claim: string;
  /** Matching level: L0, L1 or L2. */
  level: string;
  /** Text of the earlier claim. */
  of: string;
  /** Number of the round with the earlier claim. */
  of_round: number;
  /** Jaccard similarity (L1) or cosine similarity (L2); 1 for L0. */
  similarity: number;
}

/** Progress of a corpus replay. */
export interface RetrievalJobProgress {
  /** Number of queries asked so far. */
  done: number;
  /** Number of queries that failed. */
  failed: number;
  /** Number of queries in the corpus. */
  planned: number;
}

/** Yield of a review: what each round still finds, weighted by severity. */
export interface Review {
  /** Weighted yield below which a round is not worth its cost, from the profile. */
  bar: number;
  /** Whether the yield of the latest rounds stayed below the bar. */
  below_bar: boolean;
  /**
   * Good-Turing estimate of the probability that the next finding is new; absent unless its 95 % interval
   * is narrow.
   */
  unseen_share?: number | null;
  /** Discovery curve: the rounds with findings that state a severity. */
  yield_by_round: RoundYield[];
}

/** Effect of a change on the rigor of the harness. */
export type Rigor = "weaker" | "incomparable" | "neutral" | "harder";

/** Difference between two harnesses. */
export interface RigorDiff {
  /** Whether nothing is weaker and everything is comparable. */
  admissible: boolean;
  /** All changes, the weakening ones first. */
  changes: Change[];
  /** Version of the old harness. */
  from: string;
  /** Version of the new harness. */
  to: string;
}

/** Request to return to the previously active version. */
export interface RollbackRequest {
  /** Name of the person who rolls back. */
  by: string;
  /** Reason for the rollback, for the log. */
  reason: string;
}

/** Metrics computed over a window of cycles. */
export interface RollingMetrics {
  /** Mean score of the window; 0 if it is empty. */
  avg_saturation_score: number;
  /** Number of trailing cycles that are CRITICAL. */
  consecutive_critical_count: number;
  /** Number of trailing cycles that are HIGH or CRITICAL. */
  consecutive_high_count: number;
  /** Trend of the score. */
  saturation_trend: Trend;
}

/** Rollout of a feature from now on. */
export interface RolloutBody {
  /** Percentage of sessions that get the feature; unchanged when absent. */
  rollout_percent?: number | null;
  /** Percentage of queries that also run in shadow mode; unchanged when absent. */
  shadow_percent?: number | null;
}

/** One round: an iteration of a loop, a message, or an exchange between agents. */
export interface Round {
  /** Name of the agent that spoke, if known. */
  agent?: string | null;
  /** Inputs of the round, such as a prompt; not scored. */
  inputs?: Inputs | null;
  /** Claims, decisions, questions and actions of the round. */
  outputs?: Outputs | null;
  /** Number of the round, used for display; rounds are scored in list order. */
  round: number;
  /** Measurements of the round, such as token counts; not scored. */
  telemetry?: Telemetry | null;
}

/** Novelty metrics of one round. */
export interface RoundNovelty {
  /** Name of the agent that spoke, if known. */
  agent?: string | null;
  /** Number of distinct claims in the round. */
  claims: number;
  /** Novelty level according to the rule of the profile. */
  classification: Level;
  /** Number of claims that are new at every active level. */
  new_claims: number;
  /** Graded novelty, 0 to 1: √(share of new terms × distance to earlier claims); null without claims. */
  novelty: number | null;
  /** Combined novelty rate: minimum over the active levels. */
  novelty_rate: number;
  /** Novelty rate by normal form: new claims divided by the running peak. */
  novelty_rate_L0: number;
  /** Novelty rate by shared words. */
  novelty_rate_L1: number;
  /** Novelty rate by embedding; null without vectors. */
  novelty_rate_L2: number | null;
  /** New claims that may restate an earlier claim. */
  possible_restatements: Restatement[];
  /** Claims that restate an earlier claim. */
  restatements: Restatement[];
  /** Number of the round as given in the input. */
  round: number;
  /** Mean cosine similarity to the nearest earlier claim. */
  semantic_similarity: number | null;
  /** Share of claims that endorse, modify or contradict an earlier one. */
  structural_agreement: number | null;
  /** Share of the round's terms that no earlier round used. */
  term_novelty: number | null;
}

/** Outcome of a search. */
export type RoundOutcome = {
  kind: "found";
} | {
  kind: "empty";
} | {
  /** Error message of the last attempt. */
  error: string;
  kind: "failed";
};

/** Action readiness of one round. */
export interface RoundReadiness {
  /** Weighted readiness score (seed section 3.3), 0 to 1. */
  action_readiness: number;
  /** Questions answered in the round. */
  answered_questions: AnsweredQuestion[];
  /** Texts that mention a blocker. */
  blockers: string[];
  /** Readiness level of the round. */
  classification: Level;
  /** Components of the readiness score. */
  detail: ReadinessDetail;
  /** Questions no longer listed, without an answer. */
  dropped_questions: string[];
  /** Questions still open after the round. */
  open_questions: string[];
  /** Number of the round as given in the input. */
  round: number;
}

/** Complete record of one round. */
export interface RoundRecord {
  /** Whether the results came from the cache. */
  from_cache: boolean;
  /** Number of chat model calls in the round. */
  model_calls: ModelCalls;
  /** Cost of the round in the currency of the configured prices. */
  money: number;
  /** Number of results not seen before, if the round was accepted. */
  new_results: number;
  /** Scores of the novelty assessors. */
  novelty: Novelty;
  /** Outcome of the search. */
  outcome: RoundOutcome;
  /** Whether the query was planned from the start rather than derived from a gap. */
  planned: boolean;
  /** Query that was searched for. */
  query: string;
  /** Results that the search returned. */
  results: Hit[];
  /** Number of the round, starting at 1. */
  round: number;
  /** Duration of the round in seconds. */
  seconds: number;
  /** Summary of accepted results after the round. */
  summary: string;
  /** Length of the summary in characters. */
  summary_chars: number;
  /** Input and output tokens of chat models. */
  tokens: number;
  /** Estimate of the unseen share after the round. */
  unseen: UnseenEstimate;
  /** Decision of the saturation gate. */
  verdict: SearchVerdict;
}

/** Signal after one round. */
export interface RoundSignal {
  /** Number of the round as given in the input. */
  round: number;
  /** Recommendation after the round. */
  signal: Signal;
}

/** Estimates of unseen claims after one round. */
export interface RoundUnseen {
  /** Reason why an estimate is absent. */
  absent_because?: string | null;
  /** Number of claims so far; a claim counts once per speaker. */
  claims: number;
  /** Number of distinct claims so far. */
  distinct: number;
  /** Number of the round as given in the input. */
  round: number;
  /** Chao1 lower bound of the total number of distinct claims. */
  total_estimate: number | null;
  /** 95 % confidence interval of the total. */
  total_interval: Interval | null;
  /** 95 % confidence interval of the share (Esty). */
  unseen_interval: Interval | null;
  /** Good-Turing estimate of the probability that the next claim is new. */
  unseen_share: number | null;
}

/** Result of scoring one round. */
export interface RoundVerdict {
  /** Tree of all values and thresholds behind the signal. */
  explanation: Explanation;
  /** Novelty metrics of the round. */
  novelty: RoundNovelty;
  /** Readiness metrics of the round. */
  readiness: RoundReadiness;
  /** The three strongest reasons for the signal. */
  reasons: string[];
  /** Number of the round as given in the input. */
  round: number;
  /** Recommendation after this round. */
  signal: Signal;
  /** Warnings raised by this round. */
  warnings: Warning[];
}

/** What one round of a review found. */
export interface RoundYield {
  /** Number of findings with a severity. */
  findings: number;
  /** Number of those findings that are new. */
  new_findings: number;
  /** Number of the round as given in the input. */
  round: number;
  /** Sum of the weights of the new findings: critical 8, high 4, medium 2, low 1, nit 0.25. */
  weighted_yield: number;
  /** Worst severity among the new findings. */
  worst?: string | null;
}

/** Request to append rounds to a conversation. */
export interface RoundsBody {
  /** Rounds to append, in order. */
  rounds: Round[];
}

/** Benchmark suite to run, and how. */
export interface RunBody {
  /** Run only cases with these ids. */
  cases?: string[];
  /** Enqueue the cases for workers (`satiety worker`) on the same database; the job waits for them. */
  distributed?: boolean;
  /** Run only the cases that did not pass in this stored run of the suite. */
  failed_in?: string | null;
  /** Whether to compare the run with the suite's baseline. */
  gate?: boolean;
  /**
   * Share of the workers next to other distributed runs: a high run gets four cases for each case of a normal one,
   * and a low run one for each four. Default normal; a resumed run keeps its own.
   */
  priority?: Priority | null;
  /** Repeats of each case; by default as the suite specifies. */
  repeats?: number | null;
  /** Id of the run to resume. */
  resume?: string | null;
  /** Seed of the random choices. */
  seed?: number;
  /** Path of the suite's file or directory; over HTTP, below the server's root. */
  suite: string;
  /** Run only cases with one of these tags. */
  tags?: string[];
  /** Repeat the suite in rounds until the gate decides, within these limits. Implies the gate. */
  until_decided?: UntilDecided | null;
}

/** Changes between two measured runs, query by query. */
export interface RunChanges {
  /** Id of the run compared with. */
  before: string;
  /** Measure that is compared, such as `ndcg@10`. */
  measure: string;
  /** Id of the examined run. */
  now: string;
  /** Queries with a value in both runs; largest loss first. */
  queries: QueryDelta[];
}

/** A run compared with the control. */
export interface RunComparison {
  /** Comparison of the first measure by field and value, if requested. */
  by?: Record<string, GroupComparison[]>;
  /** Number of queries by difference class. */
  differences: DifferenceCounts;
  /** Decision of the gate; absent without one. */
  gate: Gate | null;
  /** Share of judged documents in the top results; unjudged ones count as irrelevant. */
  judged: JudgedShare;
  /** Results by measure; the first one decides the verdict. */
  measures: MeasureComparison[];
  /** Changes of the first measure by query, largest loss first, if requested. */
  per_query?: ChangedQuery[] | null;
  /** Number of queries evaluated for both systems. */
  queries: number;
  /** Queries with the largest losses by the first measure. */
  regressions: QueryChange[];
  /** File name of the treatment run. */
  treatment: string;
  /** Verdict of the first measure. */
  verdict: ComparisonVerdict;
}

/** Note of a person on a run. */
export interface RunNote {
  /** Name of the person who wrote the note. */
  author: string;
  /** Time when the note was written. */
  created_at: string;
  /** Text of the note. */
  note: string;
}

/** Notes on a run. */
export interface RunNotes {
  /** Notes in order, oldest first. */
  notes: RunNote[];
}

/** Page of benchmark runs. */
export interface RunPage {
  /** Cursor of the next page; absent on the last page. */
  next_cursor?: string | null;
  /** Benchmark runs, newest first. */
  runs: RunSummary[];
}

/** Metrics of an evaluated run. */
export interface RunReport {
  /** Bootstrap settings of the confidence intervals. */
  bootstrap: BootstrapSettings;
  /** Means by field and value, if requested. */
  by?: Record<string, Record<string, GroupReport>>;
  /** Reciprocal rank of the first queries of sessions, if the queries have sessions. */
  cold_start?: ColdStart | null;
  /** Mean of each measure with its confidence interval. */
  metrics: Record<string, Aggregate>;
  /** Judged queries for which the run has no results. */
  missing_queries: number;
  /** Evaluation options that were applied. */
  options: EvaluationOptions;
  /** Value of every query and measure, if requested; undefined values are omitted. */
  per_query?: Record<string, Record<string, number>> | null;
  /** Effect of the session boost on the reciprocal rank, if the run has results without it. */
  personalization_lift?: Aggregate | null;
  /** Pipeline metrics, if the run has traces. */
  pipeline?: PipelineMetrics | null;
  /** Number of queries in the means. */
  queries: number;
  /** Queries without a document at or above the relevance threshold. */
  queries_without_relevant: number;
  /** File name of the run. */
  run: string;
  /** Id of the stored metrics, if recorded. */
  run_id?: string | null;
  /** Queries of the run without judgments, which were skipped. */
  unjudged_queries: number;
}

/** Benchmark run in a list. */
export interface RunSummary {
  /** Time when the run completed; absent while incomplete. */
  completed_at: string | null;
  /** Whether workers ran the cases. */
  distributed?: boolean;
  /** Share of cases that passed, from 0 to 1. */
  pass_rate: number | null;
  /** Id of the benchmark run. */
  run_id: string;
  /** Time when the run started. */
  started_at: string;
  /** Id of the suite. */
  suite_id: string;
  /** Name of the target that was run. */
  target: string;
}

/** Evidence of saturation over all versions. */
export interface SaturationEvidence {
  /** Number of failed results of all versions. */
  failures: number;
  /** Current evidence against "the failure rate is at least `rate`". */
  now: SequentialEvidence;
  /** Tested failure rate: failing cases that an improvement needs, divided by all cases. */
  rate: number;
  /** Number of decided results of all versions. */
  results: number;
  /** Number of versions until saturation was shown; absent if it was not. */
  shown_after: number | null;
  /** Strongest evidence after any version; once shown, saturation stays shown. */
  strongest: SequentialEvidence;
}

/** Saturation level of a harness. */
export type SaturationLevel = "NORMAL" | "ELEVATED" | "HIGH" | "CRITICAL";

/** What happened to a memory that was to be saved. */
export type SaveAction = "saved" | "updated" | "merged";

/** Request to save a memory. */
export interface SaveBody {
  /** Who said or wrote it; `agent` or `person` by default. */
  author?: string | null;
  /** Statement and reasons; Markdown. */
  content: string;
  /** Delete it after this many days. */
  expires_in_days?: number | null;
  /** Hierarchical path, such as store/sqlite. */
  folder?: string;
  /** decision, bug, convention, preference, note. */
  kind?: string | null;
  /** When it was said or seen, if not now: RFC 3339 or a date. */
  observed_at?: string | null;
  /** If a memory says the same: keep both, update or merge it, or reject. */
  on_duplicate?: OnDuplicate;
  /** Project to keep it in, by name or id, or `global` for all (scope `admin`). */
  project?: string | null;
  /** Session; its results quoted in the text count as used. */
  session?: string | null;
  /** Labels to filter by. */
  tags?: string[];
  /** Default `normal`; `constitutional` needs a person. */
  tier?: Tier | null;
  /** Summary in one line. */
  title: string;
  /** Phrases that recall it when a text contains them. */
  triggers?: string[];
  /** Holds from this time. */
  valid_from?: string | null;
  /** Holds until this time. */
  valid_until?: string | null;
}

/** Result of saving a memory. */
export interface SaveResponse {
  /** Whether it was saved as a new memory, or changed an existing one that says the same. */
  action: SaveAction;
  /** Number of searchable chunks. */
  chunks: number;
  /** Existing memories that say something different about the same, most similar first. */
  conflicts?: ConflictingMemory[];
  /** Existing memories that say the same, most similar first. */
  duplicates?: DuplicateMemory[];
  /** Model that embedded the chunks; without one, the memory is found by words and triggers only. */
  embedder: string | null;
  /** The saved memory without its content, which the caller has. */
  memory: ListResponse;
  /** Whether vectors are being made in the background; until then it is found by words and triggers. */
  pending: boolean;
}

/** Permissions of a token; each scope includes the ones before it. */
export type Scope = "read" | "write" | "admin";

/** All scopes, or the items of one. */
export interface ScopeListing {
  /** Items of the requested scope in eviction order; items that must not be evicted are last. */
  items?: ItemSummary[];
  /** Scopes with their size and open proposals. */
  scopes: ScopeSummary[];
}

/** Page of eviction scopes. */
export interface ScopePage {
  /** Cursor of the next page; absent on the last page. */
  next_cursor?: string | null;
  /** Eviction scopes on this page. */
  scopes: ScopeSummary[];
}

/** Summary of a scope in a list. */
export interface ScopeSummary {
  /** Number of items in the context. */
  items: number;
  /** Number of proposals without an answer. */
  open_proposals: number;
  /** Id of the listed scope. */
  scope_id: string;
  /** Current turn of the scope. */
  turn: number;
}

/** State of a scope after a change. */
export interface ScopeUpdated {
  /** Number of items in the context. */
  items: number;
  /** Id of the changed scope. */
  scope_id: string;
  /** Ids of proposals that timed out and were therefore executed. */
  timed_out?: string[];
  /** Total tokens of the items. */
  tokens: number;
  /** Current turn of the scope. */
  turn: number;
}

/** Score of an item, with its terms. */
export interface Score {
  /** Expected loss per token freed; the item with the lowest density is evicted first. */
  density: number;
  /** Expected loss if the item is evicted: expected uses times the cost of each. */
  expected_loss: number;
  /** Probability that the item will be needed again: 0 irrelevant, 1 critical. */
  relevance_score: number;
  /** Terms of the log-odds, the largest contribution first. */
  terms: ScoreTerm[];
}

/** Conversation to score without storing it. */
export interface ScoreBody {
  /**
   * Conversation to score: a transcript (`{"rounds": […]}`), or a list of messages with `role` and
   * `content`.
   */
  conversation: ConversationShape;
  /** Extraction of claims, questions and actions from plain messages; fixed rules by default. */
  extract?: Extract | null;
  /** Built-in profile: `default` or `spec`. */
  profile?: "default" | "spec" | null;
}

/** Comparison of one deciding scorer, metric or criterion between two runs. */
export interface ScoreComparison {
  /** Mean over cases in the baseline, on the scorer's own scale. */
  baseline: number;
  /** Mean over cases in the candidate, on the scorer's own scale. */
  candidate: number;
  /** Number of cases that have the score in both runs. */
  cases: number;
  /** Name of the scorer or metric, or text of the criterion. */
  name: string;
  /** One-sided p-value that the score did not get worse, adjusted for all names. */
  p_value: number;
  /** Reason why the score is a regression; absent otherwise. */
  regression?: string | null;
}

/** Result of scoring a conversation. */
export interface ScoreResponse {
  /** Components of the score in the last round. */
  components: Components;
  /** Id from the input, or one generated when the conversation was recorded. */
  conversation_id: string | null;
  /** Embedding model used for L2; null if L2 was not active. */
  embedder: string | null;
  /** Tree of all values and thresholds behind the signal. */
  explanation: Explanation;
  /** Number of the first round with a signal other than CONTINUE; null if there is none. */
  first_stop_round: number | null;
  /** Recommended action as one sentence. */
  hint: string;
  /** Format that the input was parsed as. */
  input_format: InputFormat;
  /** Active matching levels: L0, L1 and, with an embedder, L2. */
  levels: string[];
  /** Novelty of each round; use `novelty` for trends. */
  novelty_by_round: RoundNovelty[];
  /** Name of the profile used for scoring. */
  profile: string;
  /** Action readiness of each round. */
  readiness_by_round: RoundReadiness[];
  /** The three strongest reasons for the signal. */
  reasons: string[];
  /** Yield of a review whose findings state severities; absent for other conversations. */
  review?: Review | null;
  /** 1 minus the combined novelty rate of the last round, 0 to 1. */
  score: number;
  /** Version of the scoring formulas. */
  scoring_version: string;
  /** Signal after each round. */
  signal_by_round: RoundSignal[];
  /** Recommendation after the last round. */
  stop_recommendation: StopRecommendation;
  /** Topic of the conversation, in a few words. */
  topic: string | null;
  /** Estimates of unseen claims; reported, but not used for the decision. */
  unseen: Unseen;
  /** Warnings of all rounds, with evidence. */
  warnings: Warning[];
}

/** Summary of one named score over a run. */
export interface ScoreSummary {
  /** Whether the status of results depends on this score. */
  decides: boolean;
  /** Largest value, if any. */
  max: number | null;
  /** Mean over cases of the mean over repeats, on the scorer's own scale; absent without numbers. */
  mean: number | null;
  /** Smallest value, if any. */
  min: number | null;
  /** Name of the scorer or metric, or text of the criterion. */
  name: string;
  /** Share of results that pass by this score alone; absent when it has no threshold. */
  pass_rate: number | null;
  /** Number of results with a value. */
  scored: number;
  /** Number of results that name the score without a value. */
  unscored: number;
}

/** Term of the log-odds of a score. */
export interface ScoreTerm {
  /** Contribution to the log-odds: value times weight. */
  contribution: number;
  /** Name of the term, such as `recency` or `zone memory`. */
  name: string;
  /** Value of the feature. */
  value: number;
  /** Weight of the feature. */
  weight: number;
}

/** A file to write. */
export interface ScorerFile {
  /** Name of the file, without a directory. */
  name: string;
  /** Content of the file. */
  text: string;
}

/** Summary of a scorer version in a list. */
export interface ScorerSummary {
  /** AUC on held-out proposals, 0 to 1. */
  auc: number | null;
  /** Creation time in microseconds since the Unix epoch; absent for the built-in version. */
  created_at: number | null;
  /** Whether the fit showed a gain on held-out proposals. */
  gain_shown: boolean | null;
  /** Kind of scorer: `baseline`, `weights`, `prompt` or `online`. */
  variant: string;
  /** Version of the scorer. */
  version: string;
}

/** Weights that turn features into a score. */
export interface ScorerWeights {
  /** Probability that an agent excludes an item that it does not need, from 0 to below 1. */
  floor: number;
  /** Mapping from raw to observed probabilities; absent without enough observations. */
  isotonic?: Isotonic | null;
  /** Weight of each kind; unknown kinds contribute nothing. */
  kinds: Record<string, number>;
  /** Quantity that eviction minimizes. */
  objective: Objective;
  /** Weight of each feature by name, plus `bias`; absent features have weight 0. */
  terms: Record<string, number>;
  /** Version name of the weights; `heuristic-1` is built in. */
  version: string;
  /** Weights of each zone; unknown zones contribute nothing. */
  zones: Record<string, ZoneWeights>;
}

/** All scorer versions and the activation log. */
export interface Scorers {
  /** Version of the active scorer. */
  in_force: string;
  /** Activation log, most recent first. */
  log: ActivationRow[];
  /** All versions, newest first; the built-in one is last. */
  versions: ScorerSummary[];
}

/** Request to search memories. */
export interface SearchBody {
  /** Time to be true at; now by default. */
  as_of?: string | null;
  /** Return results even if none is relevant. */
  below_floor?: boolean;
  /** Conditions that all results satisfy. */
  filter?: MemoryFilter;
  /** Only this folder and below. */
  folder?: string | null;
  /** Maximum number of results. */
  limit?: number | null;
  /** Search depth; chosen by query and free context. */
  mode?: Mode | null;
  /** Project, by name or id, or `all`. Global memories are included. */
  project?: string | null;
  /** Query in plain words. */
  query: string;
  /** Session; memories it used before score higher. */
  session?: string | null;
  /** Omit results shown before. */
  skip_shown?: boolean;
  /** Maximum tokens of all results. */
  token_budget?: number | null;
  /** Used share of your context, 0 to 1. */
  token_usage?: number | null;
}

/** Decision on a recorded round. */
export interface SearchGateResponse {
  /** Whether the results of the round are kept. */
  accepted: boolean;
  /** Whether the gate would have stopped before this round. */
  after_stop?: boolean;
  /** Novelty score by each assessor. */
  by_assessor: Novelty;
  /** Whether to continue searching or stop. */
  decision: Decision;
  /** Random number drawn from [0, 1); absent when no draw was needed. */
  draw?: number | null;
  /** Estimate of what is missed after this round; absent before the first results. */
  missed?: MissedEstimate | null;
  /** Share of new content compared with the threshold; absent without results. */
  novelty: number | null;
  /** Probability of the outcome: epsilon for a round accepted by the draw, 1 when no draw was needed. */
  propensity: number;
  /** Query of the round, if recorded. */
  query?: string | null;
  /** Reason given by the gate. */
  reason: Reason;
  /** Score of the loop's own assessor, 0 to 10. */
  recorded_novelty?: number | null;
  /** Number of the round, starting at 1. */
  round: number;
  /** Run that the round belongs to. */
  run?: unknown;
  /** The same novelty as the specification's score from 0 to 10. */
  score: number | null;
  /** Threshold that the novelty was compared with. */
  threshold: StopThreshold;
  /** Verdict in plain words. */
  words: string;
}

/** Whether a search found anything relevant. */
export type SearchOutcome = "relevant" | "nothing_relevant";

/** Telemetry of a search, with the field names of the specification. */
export interface SearchTelemetry {
  /** Mean score of the results. */
  avg_relevance_score: number;
  /** Change of the mean score by session attention. */
  boost_impact_delta: number;
  /** Duration of embedding the query, in milliseconds. */
  embedding_latency_ms: number;
  /** Health score from 0 to 1 as defined by the specification. */
  quality_proxy_score: number;
  /** Id of the earlier query that this one repeats, if any. */
  re_search_of: string | null;
  /** Number of results returned. */
  result_count: number;
  /** Trace of each stage, in order. */
  stages: StageTrace[];
  /** Score of the best result. */
  top_result_score: number;
  /** Total duration in milliseconds. */
  total_latency_ms: number;
  /** Unique id of this trace. */
  trace_id: string;
  /** Weight of each channel in the fusion. */
  weights: Weights;
}

/** Decision about one round and the values it is based on. */
export interface SearchVerdict {
  /** Whether the results of the round are kept. */
  accepted: boolean;
  /** Whether to continue searching or stop. */
  decision: Decision;
  /** Random number drawn from [0, 1); absent when no draw was needed. */
  draw?: number | null;
  /** Estimate of what is missed after this round; absent before the first results. */
  missed?: MissedEstimate | null;
  /** Share of new content compared with the threshold; absent without results. */
  novelty: number | null;
  /** Probability of the outcome: epsilon for a round accepted by the draw, 1 when no draw was needed. */
  propensity: number;
  /** Reason given by the gate. */
  reason: Reason;
  /** Number of the round, starting at 1. */
  round: number;
  /** The same novelty as the specification's score from 0 to 10. */
  score: number | null;
  /** Threshold that the novelty was compared with. */
  threshold: StopThreshold;
}

/** Item evicted in the second pass. */
export interface SecondPass {
  /** Id of the item. */
  ctx_id: string;
  /** Size of the item in tokens. */
  token_count: number;
}

/**
 * Evidence against a null hypothesis as an e-value: the wealth of a gambler who starts with one and bets
 * against the null at fair odds. Large values are evidence; under the null it *ever* exceeds 1/alpha with
 * probability at most alpha (Ville's inequality). Stored as a logarithm, because it is unbounded.
 */
export interface SequentialEvidence {
  /** Natural logarithm of the e-value. */
  ln_e: number;
}

/** Influence of earlier feedback in the session. */
export interface SessionSettings {
  /** Maximum score increase by session attention, as a fraction of the score. */
  boost?: number;
  /** Decay factor of a use per later query, from 0 to 1. */
  decay?: number;
  /** Number of recent queries and events to consider. */
  look_back?: number;
}

/** Summary of the latest thousand shadow runs. */
export interface ShadowSummary {
  /** Number of `identical`, `minor`, `major` and `incompatible` runs. */
  classes: number[];
  /** Median and 95th percentile of the control's latency, in milliseconds. */
  control_latency_ms: number[] | null;
  /** Number of runs counted by the test. */
  counted: number;
  /** Number of runs that failed or timed out. */
  failed: number;
  /** Error of the latest failed run, if any. */
  last_failure: string | null;
  /** Mean rank correlation (Kendall's tau-b), −1 to 1. */
  mean_rank_correlation: number | null;
  /** Mean overlap of the result sets (Jaccard), 0 to 1. */
  mean_set_overlap: number | null;
  /** Number of runs that await feedback about their results. */
  open: number;
  /** Number of recorded shadow runs. */
  runs: number;
  /** Share of runs with the same top result, 0 to 1. */
  top_result_agreement: number | null;
  /** Median and 95th percentile of the treatment's latency, in milliseconds. */
  treatment_latency_ms: number[] | null;
}

/** Reason why a proposal cannot free enough tokens. */
export interface Shortfall {
  /** Number of tokens held by other open proposals. */
  held_tokens: number;
  /** Number of tokens still missing. */
  missing_tokens: number;
  /** Items that cannot be evicted because of pins, the largest first. */
  pins: PinnedItem[];
}

/** Recommendation for a conversation after a round. */
export type Signal = "CONTINUE" | "SHIP" | "STOP" | "ESCALATE";

/** Signals of one cycle. A signal that was not measured is absent and contributes nothing to the score. */
export interface SignalMetrics {
  /** Share of cycles in which all auditors agreed, from 0 to 1. */
  auditor_unanimous_rate?: number | null;
  /** Share of benchmarks that score above 95 %, from 0 to 1. */
  benchmark_ceiling_rate?: number | null;
  /** Gain of the last accepted change, from -1 to 1; its history comes from the stored cycles. */
  improvement_delta?: number | null;
  /** Share of proposals that pass the gate, from 0 to 1. */
  proposal_pass_rate?: number | null;
  /** Share of regression tests that pass, from 0 to 1. */
  regression_pass_rate?: number | null;
}

/** Contribution of one signal to the score. */
export interface SignalPart {
  /** Name of the signal in the specification. */
  name: string;
  /** Normalized value, from 0 to 1. */
  normalised: number;
  /** Measured value; for the trend, the mean of the recent deltas. */
  raw: number | null;
  /** Explanation of the normalized value. */
  reason: string;
  /** Weight of the signal in the score. */
  weight: number;
}

/** Saturation score of one cycle by the specification's signals. */
export interface SignalScore {
  /** Saturation level of the score. */
  level: SaturationLevel;
  /** Contributions of the signals, in the specification's order. */
  parts: SignalPart[];
  /** Saturation from 0 to 1; higher is more saturated. */
  score: number;
}

/** Records that were not understood, counted, with the first of them in detail. */
export interface Skipped {
  /** Number of skipped records. */
  count: number;
  /** The first skipped records, each with its line and reason. */
  first: SkippedRecord[];
}

/** A record that was not understood. */
export interface SkippedRecord {
  /** Line of the file, from 1. */
  line: number;
  /** Reason why the record was skipped. */
  reason: string;
}

/** An accepted result that findings may cite. */
export interface Source {
  /** Other addresses of the same text. */
  also_at?: string[];
  /** Whether a finding cites this source. */
  cited: boolean;
  /** Lines of the document that it stands on; absent for pages and converted documents. */
  lines?: LineSpan | null;
  /** Number used in citations, starting at 1. */
  number: number;
  /** Round that returned it first. */
  round: number;
  /** Whether it came with the round that ended the search. */
  salvaged?: boolean;
  /** Title of the search result. */
  title: string;
  /** Address of the page or document. */
  url: string;
}

/** Sources that research may search. */
export interface SourceList {
  /** Names of the sources; the first is the default. */
  sources: string[];
}

/** Resources spent so far. */
export interface Spent {
  /** Cost in the currency of the configured prices; 0 without prices. */
  money: number;
  /** Seconds since the start of the run. */
  seconds: number;
  /** Input and output tokens of chat models; estimated when a server does not report usage. */
  tokens: number;
}

/** Stage of a search, with the names of the specification. */
export type Stage = "candidate" | "filter" | "fusion" | "rerank" | "fallback" | "final-rank";

/** Trace of one stage. */
export interface StageTrace {
  /** Duration of the stage in milliseconds. */
  duration_ms: number;
  /** Number of candidates before the stage. */
  input_count: number;
  /** Number of candidates after the stage. */
  output_count: number;
  /** Stage that the trace is about. */
  stage: Stage;
}

/** Current state of a trial. */
export interface Standing {
  /** Mean reciprocal rank of the control. */
  control_mrr: number | null;
  /** Decision of the trial so far. */
  decision: TrialDecision;
  /** `betting`: current two-sided e-value. */
  e_value: number | null;
  /** Thinned history of the evidence. */
  history: number[];
  /**
   * Confidence sequence of the mean difference, valid at all times simultaneously (from betting, for
   * either test).
   */
  interval: Bounds | null;
  /**
   * Logarithm of the evidence, positive for the treatment and negative for the control. `betting`:
   * log-wealth of the better of the two bets, 0 as long as neither has won; `sprt`: log-likelihood ratio,
   * absent during the burn-in.
   */
  log_likelihood_ratio: number | null;
  /** Evidence below this bound accepts the control. */
  lower_bound: number;
  /** Sequential test that is used. */
  method: Method;
  /** Minimum number of compared queries before a decision. */
  min_samples: number;
  /** Mean difference of the reciprocal rank, treatment − control. */
  mrr_delta: number | null;
  /** Mean difference of the nDCG, treatment − control. */
  ndcg_delta: number | null;
  /** `betting`: p-value that is valid at any time. */
  p_value: number | null;
  /** Number of compared queries. */
  samples: number;
  /** Mean reciprocal rank of the treatment. */
  treatment_mrr: number | null;
  /** Evidence above this bound accepts the treatment. */
  upper_bound: number;
}

/** Outcome of one result. */
export type Status = "pass" | "fail" | "error" | "timeout" | "skipped" | "pending";

/** Number of results by status. */
export interface StatusCounts {
  /** Results that ended with an error. */
  error: number;
  /** Results that did not meet the expectation. */
  fail: number;
  /** Results that met the expectation. */
  pass: number;
  /** Results that await a person or a judge. */
  pending: number;
  /** Results of cases that were not run. */
  skipped: number;
  /** Results that exceeded the timeout. */
  timeout: number;
}

/** One turn of an agent with everything that followed from it. */
export interface Step {
  /** Name of the agent, where a log has several. */
  agent?: string | null;
  /** Tools that the agent called in this turn, with their results. */
  calls?: Call[];
  /** Whether the context of the agent was compacted before this turn. */
  compacted?: boolean;
  /** Whether the agent ends the run with this turn: a finish or submit call, or a final answer. */
  finish?: boolean;
  /** The plan or to-do list after this turn, if the turn changed it. */
  plan?: PlanItem[] | null;
  /** Messages that users or other programs sent before the next turn. */
  replies?: Reply[];
  /** What the agent wrote in this turn, without hidden reasoning. */
  text?: string;
  /** When the turn began. */
  time?: string | null;
  /** Tokens and cost of the turn, where known. */
  usage?: Usage;
}

/** Result of judging one step. */
export interface StepVerdict {
  /** Probability that the signal is right, from 0 to 1. */
  confidence: number;
  /** Findings about this step; empty if it brings something new. */
  evidence?: ProgressEvidence[];
  /** Expected number of further steps without a new result. */
  expected_waste: number;
  /** Expected cost of these steps in the currency of the log, if the log has costs. */
  expected_waste_cost?: number | null;
  /** Expected number of tokens for these steps, if the log has token counts. */
  expected_waste_tokens?: number | null;
  /** Level of the CUSUM after this step, in nats; 0 for an agent at work. */
  level: number;
  /** Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE. */
  nudge?: string | null;
  /** What is unfinished, for a step that ends the run. */
  open_ends?: OpenEnd[];
  /** Reason for the signal in one sentence. */
  reason: string;
  /** Recommendation after this step. */
  signal: ProgressSignal;
  /** Number of the step, from 1. */
  step: number;
}

/** Reason why the research ended. */
export type StopReason = {
  kind: "saturated";
} | {
  kind: "outlook";
} | {
  kind: "few_missed";
} | {
  kind: "cap";
} | {
  kind: "budget";
  /** Limit that was reached. */
  limit: BudgetLimit;
} | {
  kind: "nothing_left_to_ask";
} | {
  kind: "interrupted";
};

/** The `stop_recommendation` of seed section 4.3. */
export interface StopRecommendation {
  /** Gaps that remain when the signal is SHIP. */
  caveat?: string | null;
  /** Number of consecutive low-novelty rounds up to the last round. */
  k_consecutive_low_novelty: number;
  /** Novelty level according to the rule of the profile. */
  novelty_classification: Level;
  /** Explanation of the signal in sentences. */
  rationale: string;
  /** Readiness level of the last round. */
  readiness_classification: Level;
  /** Recommended signal for the conversation. */
  signal: Signal;
}

/** Rule that decides when the search stops. */
export type StopRule = "novelty" | "missed" | "fixed";

/** Threshold below which results are no longer new enough. */
export type StopThreshold = {
  score: number;
} | {
  share: number;
};

/** Threshold below which results are no longer new enough. */
export type StopThresholdInput = {
  score: number;
} | {
  share: number;
};

/** A stored conversation with its rounds. */
export interface StoredConversation {
  /** Id of the stored conversation. */
  conversation_id: string;
  /** Sentence model that compared the texts; absent if words alone were compared. */
  embedder: string | null;
  /** Name of the profile that decides. */
  profile: string;
  /** Full report over all rounds; absent before the first round. */
  report: Report | null;
  /** Rounds in order, each with its verdict. */
  rounds: StoredRound[];
  /** Current recommendation, such as `CONTINUE`. */
  signal: string;
  /** Topic of the conversation, in a few words. */
  topic: string;
}

/** A research run with its rounds. */
export interface StoredResearch {
  /** Final report; absent while the run is in progress. */
  report: ResearchReport | null;
  /** Rounds so far, in order. */
  rounds: RoundRecord[];
  /** Id of the research run. */
  run_id: string;
  /** Source that was searched, such as `arxiv`. */
  source: string;
  /** Time when the run started. */
  started_at: string;
  /** Research task in plain words. */
  task: string;
}

/** A round and the verdict after it. */
export interface StoredRound {
  /** Name of the agent that spoke. */
  agent: string | null;
  /** Novelty of the round, 0 to 1. */
  novelty: number | null;
  /** Position in the conversation, from 1. */
  position: number;
  /** Readiness for action after the round, 0 to 1. */
  readiness: number | null;
  /** The round as it was submitted. */
  round: unknown;
  /** Recommendation after this round, such as `CONTINUE`. */
  signal: string;
}

/** A stored run with the judgement of all its steps. */
export interface StoredRun {
  /** What the agent did in each step. */
  actions: Step[];
  /** Probability that the signal is right, from 0 to 1. */
  confidence: number;
  /** Id of the run. */
  conversation_id: string;
  /** Time when the run was first reported. */
  created_at: string;
  /** Expected number of further steps without a new result. */
  expected_waste: number;
  /** Expected cost of these steps in the currency of the log, if the log has costs. */
  expected_waste_cost?: number | null;
  /** Expected number of tokens for these steps, if the log has token counts. */
  expected_waste_tokens?: number | null;
  /** First step (from 1) with NUDGE. */
  first_nudge_step: number | null;
  /** First step (from 1) with STOP or ESCALATE. */
  first_stop_step: number | null;
  /** Id of the run, if the log has one. */
  id?: string | null;
  /** What the log shows. */
  kind: LogKind;
  /** What is unfinished after the last step. */
  open_ends: OpenEnd[];
  /** Name of the profile. */
  profile: string;
  /** Reason for the signal in one sentence. */
  reason: string;
  /** Recommendation after the last step. */
  signal: ProgressSignal;
  /** Signal after each step. */
  signal_by_step: ProgressSignal[];
  /** Verdict after each step. */
  steps: StepVerdict[];
  /** Calls, failures and repeats of each tool. */
  tools: ToolStats[];
  /** Time when a message was last appended. */
  updated_at: string;
  /** Number of steps that brought nothing new. */
  wasted_steps: number;
}

/** Suites found below a directory. */
export interface SuiteList {
  /** Paths of skills without benchmarks; informational only. */
  skills_without_benchmarks: string[];
  /** Suites, sorted by file. */
  suites: SuiteSummary[];
}

/** A problem in a suite or case file. */
export interface SuiteProblem {
  /** Path of the field, such as `cases[3].expected.value`. */
  field: string;
  /** Name of the file. */
  file: string;
  /** Cause of the problem and how to fix it. */
  reason: string;
}

/** Suite with its measurement. */
export interface SuiteState {
  /** Number of cases in the suite. */
  cases: number;
  /** Saturation measurement of the suite. */
  measured?: Measured | null;
  /** Reason why the suite was not measured. */
  not_measured?: string | null;
  /** Pass rate of the newest run, from 0 to 1. */
  pass_rate: number | null;
  /** Number of regression tests, which are expected to pass and do not distinguish versions. */
  regression_cases: number;
  /** Id of the suite. */
  suite_id: string;
  /** Number of versions (runs) considered. */
  versions: number;
}

/** Suite found on disk. */
export interface SuiteSummary {
  /** Number of cases in the suite. */
  cases: number;
  /** Path of the suite's file. */
  file: string;
  /** Number of hard or adversarial cases. */
  hard: number;
  /** Content hash of the suite. */
  hash: string | null;
  /** Errors found in the suite. */
  problems: SuiteProblem[];
  /** Id of the suite; absent if the file cannot be read. */
  suite_id: string | null;
  /** System under test, as named in the suite. */
  target: string | null;
  /** Version given in the suite. */
  version: string | null;
  /** Warnings about the suite. */
  warnings: string[];
}

/** Whether a suite still discriminates. */
export type SuiteVerdict = "DISCRIMINATES" | "SATURATED" | "UNDERPOWERED";

/** Number of passes among decided repeats. */
export interface Tally {
  /** Number of repeats that passed. */
  passes: number;
  /** Number of decided repeats. */
  tries: number;
}

/** Statistics of tasks, with and without use of memories. */
export interface TaskMetrics {
  /** Number of closed tasks. */
  closed: number;
  /** Mean learning index of closed tasks. */
  mean_learning_index: number | null;
  /** Mean share of queries that repeat an earlier query. */
  mean_re_search_rate: number | null;
  /** Number of open tasks. */
  open: number;
  /** Success rate of closed tasks, 0 to 1. */
  success_rate: number | null;
  /** Success rate of tasks in which a memory was read, quoted or judged useful. */
  success_rate_with_memory: number | null;
  /** Success rate of tasks without such a memory. */
  success_rate_without_memory: number | null;
}

/** Measurements of a round, preserved without interpretation. */
export type Telemetry = Record<string, unknown>;

/** A tenant with its limits and today's usage. */
export interface Tenant {
  /** Time when the tenant was created. */
  created_at: string;
  /** Time when the tenant was disabled, if it is. */
  disabled_at?: string | null;
  /** Whether its tokens are accepted. */
  enabled: boolean;
  /** Name of the tenant. */
  name: string;
  /** Limits of the tenant; an absent one does not limit. */
  quotas: TenantQuotas;
  /** Directory that paths in its requests are confined to. */
  root?: string | null;
  /** Location of its store, without a password. */
  store: string;
  /** Usage of the current day. */
  usage: TenantUsage;
}

/** All tenants of a server. */
export interface TenantList {
  /** Tenants by name. */
  tenants: Tenant[];
}

/** Limits of a tenant; an absent one does not limit. */
export interface TenantQuotas {
  /**
   * Maximum number of tokens that models may process per day (UTC): embedded texts, and prompts and answers of chat
   * models.
   */
  model_tokens_per_day?: number | null;
  /** Maximum number of requests per day (UTC). */
  requests_per_day?: number | null;
  /** Maximum number of requests in any 60 seconds. */
  requests_per_minute?: number | null;
  /** Maximum size of the tenant's database in bytes. */
  storage_bytes?: number | null;
}

/** A tenant with its tokens and its usage of the last days. */
export interface TenantReport {
  /** Time when the tenant was created. */
  created_at: string;
  /** Usage of the last 30 days, newest first; days without usage are left out. */
  days: DailyUsage[];
  /** Time when the tenant was disabled, if it is. */
  disabled_at?: string | null;
  /** Whether its tokens are accepted. */
  enabled: boolean;
  /** Name of the tenant. */
  name: string;
  /** Limits of the tenant; an absent one does not limit. */
  quotas: TenantQuotas;
  /** Directory that paths in its requests are confined to. */
  root?: string | null;
  /** Location of its store, without a password. */
  store: string;
  /** Its tokens, most recently created first. */
  tokens: Token[];
  /** Usage of the current day. */
  usage: TenantUsage;
}

/** Usage of a tenant on the current day (UTC). */
export interface TenantUsage {
  /** Number of tokens that models processed today. */
  model_tokens: number;
  /** Number of requests today, up to a few seconds ago. */
  requests: number;
  /** Size of its store in bytes when it was last measured. */
  storage_bytes?: number | null;
}

/** Threshold and its current value. */
export interface ThresholdState {
  /** Direction in which the metric is better. */
  direction: Direction;
  /** Value of the metric in the newest run. */
  found: number | null;
  /** Whether it is met; absent without a result, or while undecided results could change it. */
  met: boolean | null;
  /** Name of the threshold, as `suite/metric`. */
  name: string;
  /** Note on a missing or undecided result. */
  note?: string | null;
  /** Whether the target reports the metric itself, so that it is not verified. */
  reported_by_target?: boolean;
  /** Bound that the metric must meet. */
  value: number;
}

/** Importance tier of a memory. */
export type Tier = "temporary" | "normal" | "important" | "critical" | "constitutional";

/** Score factor of each tier. Factors near 1 break ties by importance without overriding relevance. */
export interface TierFactors {
  /** Score factor of constitutional memories. */
  constitutional?: number;
  /** Score factor of critical memories. */
  critical?: number;
  /** Score factor of important memories. */
  important?: number;
  /** Score factor of normal memories. */
  normal?: number;
  /** Score factor of temporary memories. */
  temporary?: number;
}

/** Timeline of the proposals of a scope. */
export interface Timeline {
  /** One row per proposal, the oldest first. */
  rows: TimelineRow[];
}

/** Proposal in a timeline, with the outcome of its items. */
export interface TimelineRow {
  /** Number of tokens that were freed. */
  freed_tokens: number;
  /** Items in the order of the proposal, followed by those of the second pass. */
  items: ItemFate[];
  /** Number of tokens that had to be freed. */
  need_tokens: number;
  /** Id of the proposal. */
  proposal_id: string;
  /** Time at which the proposal was made. */
  proposed_at: string;
  /** Who or what resolved the proposal; absent while it is open. */
  resolved_by: ResolvedBy | null;
  /** Turn in which the proposal was made. */
  turn_number: number;
}

/** Metadata of a token, without its secret. */
export interface Token {
  /** Time when the token was created. */
  created_at: string;
  /** Time when the token expires; absent if it never does. */
  expires_at: string | null;
  /** Time of the last authenticated request, to the minute. */
  last_used_at: string | null;
  /** Descriptive name chosen by the owner. */
  name: string;
  /** Time when the token was revoked, if it was. */
  revoked_at: string | null;
  /** Scope that the token permits. */
  scope: Scope;
  /** Tenant whose data the token gives access to; absent for the main store. */
  tenant?: string | null;
  /** Public id, the non-secret part of the token. */
  token_id: string;
  /** Whether the token is neither expired nor revoked. */
  valid: boolean;
}

/** All API tokens of the server. */
export interface TokenList {
  /** Tokens, most recently created first. */
  tokens: Token[];
}

/** Tokens saved by deduplication. */
export interface TokenSavings {
  /** Saved tokens per query. */
  per_query: Aggregate;
  /** Number of omitted results. */
  results: number;
  /** Total number of saved tokens. */
  total: number;
}

/** How often a tool was called, failed and repeated itself. */
export interface ToolStats {
  /** Number of calls. */
  calls: number;
  /** Number of calls that failed. */
  failures: number;
  /** Number of calls in steps that repeat an earlier one. */
  repeats: number;
  /** Name of the tool. */
  tool: string;
}

/** Spans as OTLP exporters send them. */
export interface TracesBody {
  /** Spans by resource and scope, as in OTLP's `ExportTraceServiceRequest`. */
  resourceSpans?: Array<Record<string, unknown>>;
}

/** Trend of a score. */
export type Trend = "increasing" | "decreasing" | "stable";

/** Decision of a trial. */
export type TrialDecision = "continue" | "accept-treatment" | "accept-control";

/** A memory with a trigger phrase that occurs in a text. */
export interface TriggerMatch {
  /** Id of the memory. */
  id: string;
  /** Project of the memory; null for a global memory that every project sees. */
  project: Project | null;
  /** Fraction of the text that the phrase covers, from 0.5 to 1. */
  score: number;
  /** Importance tier of the memory. */
  tier: Tier;
  /** Title of the memory. */
  title: string;
}

/** Influence of neighboring turns on the score of a turn, as a share of their scores. */
export interface TurnSettings {
  /** Share of the score of the turn directly after. */
  after?: number;
  /** Share of the score of the turn directly before. */
  before?: number;
  /** Share of the scores of the turns at a distance of two. */
  second?: number;
  /** Number of best candidates whose neighbors become candidates as well. */
  seeds?: number;
}

/** A run that was interrupted. */
export interface UnfinishedRun {
  /** Number of answers so far. */
  answers: number;
  /** Id of the interrupted run. */
  run_id: string;
  /** System that is measured. */
  system: string;
}

/** Handling of results without a judgment. */
export type Unjudged = "irrelevant" | "condensed";

/** Result as shown to a person for labelling. */
export interface UnlabelledCase {
  /** Id of the case. */
  case_id: string;
  /** Goal of the case, if the suite is available. */
  goal: string | null;
  /** Earlier label of this result: `pass` or `fail`. */
  human_label: string | null;
  /** Note of the case for people who label. */
  note: string | null;
  /** Output of the target as text. */
  output: string;
  /** Repeat of the case, counted from 0. */
  repeat: number;
  /** Status of the result so far. */
  status: Status;
  /** Name of the variant, if there are several. */
  variant: string | null;
}

/** Estimates of the claims that were not made yet. */
export interface Unseen {
  /** Estimates after each round. */
  by_round: RoundUnseen[];
  /** The last estimate as a sentence; absent without enough evidence. */
  summary?: string | null;
}

/** Good-Turing estimate after a round. */
export interface UnseenEstimate {
  /** Reason why the estimate is absent. */
  absent_because?: string | null;
  /** Number of accepted claims, including repeats. */
  claims: number;
  /** Number of distinct claims. */
  distinct: number;
  /** Confidence interval of the share (95 %). */
  interval?: Interval | null;
  /** Estimated probability that the next claim is new. */
  share?: number | null;
}

/** Limits of a run that is repeated until the gate decides. */
export interface UntilDecided {
  /** Largest number of calls of targets. */
  max_calls?: number | null;
  /** Largest cost in US dollars that targets report. */
  max_cost_usd?: number | null;
  /** Largest number of tokens that targets report. */
  max_tokens?: number | null;
  /** Largest number of repeats, as a multiple of those that the suite or the request specifies. */
  times?: number;
}

/** Changes to a memory; absent fields stay. */
export interface UpdateBody {
  /** New content in Markdown. */
  content?: string | null;
  /** Folder to move to. */
  folder?: string | null;
  /** Kind to change to. */
  kind?: string | null;
  /** When it was said or seen: RFC 3339 or a date. */
  observed_at?: string | null;
  /** New project, by name or id, or `global` for all (scope `admin`). */
  project?: string | null;
  /** Session; its results quoted in the text count as used. */
  session?: string | null;
  /** New tags, replacing all. */
  tags?: string[] | null;
  /** Tier to change to. */
  tier?: Tier | null;
  /** New title, one line. */
  title?: string | null;
  /** New trigger phrases, replacing all. */
  triggers?: string[] | null;
  /** Holds from this time. */
  valid_from?: string | null;
  /** Holds until this time. */
  valid_until?: string | null;
}

/** Request to change the contents of a context. */
export interface UpdateScopeRequest {
  /**
   * Items to add. Without `token_count` the content is tokenized; without `created_turn` the current turn
   * is used.
   */
  add?: Array<{
    content?: string;
    ctx_id: string;
    pinned?: boolean;
    token_count: number;
    zone: string;
  }>;
  /** New goal of the agent. */
  goal?: string | null;
  /** Items that must never be evicted. */
  pin?: string[];
  /** Items that the agent removed itself. */
  remove?: string[];
  /** Id of the scope; created with its first item. */
  scope_id: string;
  /** Current turn; the last known one if absent. */
  turn?: number | null;
  /** Items that may be evicted again. */
  unpin?: string[];
  /** Items used in this turn. */
  use?: string[];
}

/** Request to change a tenant; what is absent stays as it is. */
export interface UpdateTenantRequest {
  /** Whether its tokens are accepted; a change takes effect within five seconds. */
  enabled?: boolean | null;
  /** All limits of the tenant; an absent limit is removed. */
  quotas?: TenantQuotas | null;
}

/** Urgency of an action. */
export type Urgency = "LOW" | "MEDIUM" | "HIGH" | "CRITICAL";

/** Tokens and cost of a turn. */
export interface Usage {
  /** Cost of the turn in the currency of the log, usually US dollars. */
  cost?: number | null;
  /** Input and output tokens of the turn. */
  tokens?: number | null;
}

/** Request to record whether a memory was useful. */
export interface ValidateBody {
  /** Session whose fitting query is judged. */
  session?: string | null;
  /** Whether the memory helped. */
  useful: boolean;
}

/** State of a memory after a validation. */
export interface ValidateResponse {
  /** Updated confidence of the memory, 0 to 1. */
  confidence: number;
  /** Id of the validated memory. */
  id: string;
  /** Trigger phrase learned from this validation, if any. */
  learnt_trigger: string | null;
  /** Probability that the validation belongs to that query. */
  probability?: number | null;
  /** Whether it may be promoted to a higher tier. */
  promotion_eligible: boolean;
  /** Id of the session's query that it fits, if any. */
  query_id: string | null;
  /** Rank in the results of that query, from 1. */
  rank_in_results: number | null;
  /** Number of validations so far. */
  validations: number;
}

/** Whether a memory holds at a time. */
export type Validity = "current" | "past" | "future";

/** What a scorer version changes compared with the heuristic. */
export type Variant = "baseline" | "weights" | "prompt" | "online";

/** Verdict about one system of a run with several. */
export interface VariantGate {
  /** Pass rates over its comparable cases; absent when no case is comparable. */
  pass: PassComparison | null;
  /** Reasons for its verdict, the deciding ones first. */
  reasons: string[];
  /** Name of the variant, such as the provider. */
  variant: string;
  /** Verdict about this variant alone. */
  verdict: GateVerdict;
}

/** Files for an ablation of a scorer version. */
export interface Variants {
  /** Version that serves as the control. */
  control: string;
  /** Files to write into one directory. */
  files: ScorerFile[];
  /** Number of sessions that the suite replays. */
  sessions: number;
  /** Version of the scorer under test. */
  version: string;
}

/** Request for the files of an ablation of a scorer version. */
export interface VariantsRequest {
  /** Sessions to judge on, as a trace (JSON Lines, one turn per line); generated ones if absent. */
  trace?: string | null;
  /** Version of the scorer under test. */
  version: string;
}

/** Override of a verdict: who decided, and why. */
export interface VerdictOverride {
  /** Name of the person or service that decided. */
  by: string;
  /** Reason for the decision. */
  reason: string;
}

/** A warning about a round. */
export interface Warning {
  /** Texts and numbers that support the warning. */
  evidence: Evidence[];
  /** Kind of problem detected. */
  kind: WarningKind;
  /** Description of the problem in one sentence. */
  message: string;
  /** Number of the round that raised the warning. */
  round: number;
}

/** Kinds of warnings: failure modes of seed section 5, loops, contradictions and empty rounds. */
export type WarningKind = "paraphrase_gaming" | "claim_inflation" | "fake_readiness" | "question_suppression" | "blocker_evasion" | "stale_readiness" | "repeated_round" | "alternation" | "contradiction" | "empty_round";

/** A result below the relevance floor. */
export interface WeakResult {
  /** Calibrated probability from 0 to 1 that it is relevant. */
  confidence: number;
  /** Id of the memory. */
  id: string;
  /** Title of the memory. */
  title: string;
}

/** Mean quality with one ratio of the weights. */
export interface WeightCandidate {
  /** Mean nDCG@10 over all judged queries. */
  ndcg: number;
  /** Factor of the ratio of lexical to vector weight; 1 is the active pipeline. */
  ratio: number;
}

/** Channel weights that suit the judged queries of the store. */
export interface WeightProposal {
  /** Mean nDCG@10 of each factor. */
  candidates: WeightCandidate[];
  /** The change as a feature; absent unless one is proposed. */
  feature: Feature | null;
  /** Cross-validated change of nDCG@10; absent with too few queries. */
  gain: number | null;
  /** 95 % interval of the gain. */
  interval: Bounds | null;
  /** Number of judged queries. */
  queries: number;
  /** Factor of the ratio of lexical to vector weight that is best on all queries. */
  ratio: number;
  /** State of the feature if it was started. */
  started: ExperimentChange | null;
  /** Whether other weights are worth an experiment. */
  verdict: ProposalVerdict;
}

/** Weight of each channel in the fusion. */
export interface Weights {
  /** Weight of the graph channel. */
  graph: number;
  /** Weight of the lexical channel. */
  lexical: number;
  /** Weight of the trigger channel. */
  trigger: number;
  /** Weight of the vector channel. */
  vector: number;
}

/** Decision on a feature, with its reason. */
export interface Why {
  /** Reason to keep in the record. */
  reason?: string | null;
}

/** Status of a health probe. */
export interface Word {
  /** Always `ok`; failures are problems. */
  status: string;
}

/** Connected worker. */
export interface WorkerInstance {
  /** Whether it finishes its cases and takes no new ones. */
  draining: boolean;
  /** Name of the worker. */
  name: string;
}

/** An answer written by a model, after every sentence was checked. */
export interface WrittenAnswer {
  /** Model that wrote it. */
  by: string;
  /** Whether the model said that the passages do not answer the question. */
  refused: boolean;
  /** Sentences that were removed because no source supports them. */
  removed?: RemovedSentence[];
  /** Sentences that the sources support, in order. */
  sentences: WrittenSentence[];
}

/** A sentence of a model that a source supports. */
export interface WrittenSentence {
  /** Whether the model wrote it as an item of a list. */
  is_item?: boolean;
  /** Whether it is about something else than the question: a model may quote what was not asked for. */
  is_off_question?: boolean;
  /** Spans of the sources that support it, verbatim. */
  quotes: Finding[];
  /** Cosine of the sentence and the nearest span; absent for a verbatim quotation or without a sentence model. */
  similarity?: number | null;
  /** Sentence, list item, table or code block, without its citations. */
  text: string;
}

/** Contribution of a zone to the log-odds. */
export interface ZoneWeights {
  /** Weight of ln(1 + age) in addition to `recency`. */
  ageing: number;
  /** Constant added to the log-odds. */
  offset: number;
}
