//! Human labels of results. A label decides results that are pending for a person, replaces a judge that was
//! not called, and is stored next to a judge's verdict, so that judges can be calibrated against people.
//!
//! A label never overrides a check or a judge: if the verdict is wrong, the case has to be changed.

use crate::handles::BenchOperations;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use satiety::Hint;
use satiety::bench::judge::{Calibration, calibrate};
use satiety::bench::{
    Answers, BenchmarkCase, BenchmarkResult, BenchmarkRun, ErrorOwner, Mode, Observed, Status, assess,
    case_hash, summarize_run,
};
use satiety_store::Store;
use satiety_store::bench::{BenchRunRow, ResultKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ablation::ABLATION;
use super::executor::{row, threshold_metrics};
use super::history::{self, Detail};
use super::suites::load;
use crate::EngineError;

/// Stored values of a label.
const PASS: &str = "pass";
const FAIL: &str = "fail";
/// Number of results that one statement reads to find the next one with a response.
const UNLABELLED_PER_READ: u32 = 50;
/// Maximum number of statements to find it: results without a response are rare.
const MAX_READS: u32 = 20;
/// Maximum number of labelled results that the agreement with the judge is computed from.
const MAX_COMPARED: u32 = 1000;

/// Label of one result by a person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    pub case_id: String,
    /// Repeat, counted from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Variant, if the run has several.
    #[serde(default)]
    pub variant: Option<String>,
    /// Whether the response is correct.
    pub pass: bool,
}

/// Result as shown to a person for labelling.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UnlabelledCase {
    /// Id of the case.
    pub case_id: String,
    /// Repeat of the case, counted from 0.
    pub repeat: u32,
    /// Name of the variant, if there are several.
    pub variant: Option<String>,
    /// Goal of the case, if the suite is available.
    pub goal: Option<String>,
    /// Note of the case for people who label.
    pub note: Option<String>,
    /// Output of the target as text.
    pub output: String,
    /// Status of the result so far.
    pub status: Status,
    /// Earlier label of this result: `pass` or `fail`.
    pub human_label: Option<String>,
}

/// Which result to label next.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LabelQueueRequest")]
pub struct NextLabelRequest {
    /// Id of the benchmark run.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Whether to ask also about results that are decided and have no label yet, to measure the judge.
    #[serde(default)]
    pub all: bool,
    /// Number of open results to skip.
    #[serde(default)]
    pub skip: u32,
}

/// Label to store or to remove.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LabelBody")]
pub struct LabelResultRequest {
    /// Id of the benchmark run.
    #[schemars(length(min = 1, max = 256))]
    pub id: String,
    /// Id of the case.
    #[schemars(length(min = 1, max = 256))]
    pub case_id: String,
    /// Repeat of the case, counted from 0.
    #[serde(default)]
    pub repeat: u32,
    /// Name of the variant, if the run has several.
    #[serde(default)]
    pub variant: Option<String>,
    /// Whether the response is correct; null removes the label, and the result is as it was before.
    pub pass: Option<bool>,
}

/// Result to label next, and the labels so far.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LabelStep {
    /// Result to label next; absent if none is left.
    pub next: Option<UnlabelledCase>,
    /// Number of results left to label, including the next one.
    pub left: usize,
    /// Labels so far, and the agreement of the judge with people.
    #[serde(flatten)]
    pub outcome: LabelResponse,
}

/// Outcome of a labelling session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LabelResponse {
    /// Id of the benchmark run.
    pub run_id: String,
    /// Number of labels given in this session.
    pub labelled: usize,
    /// Total number of results with a label.
    pub labels: usize,
    /// Number of results still pending for a person or a judge.
    pub pending: u64,
    /// Share of cases that passed, from 0 to 1.
    pub pass_rate: Option<f64>,
    /// Agreement of the judge with people, if both assessed the same responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Limitations that apply to this session.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Run whose results are being labelled.
#[derive(Debug)]
pub struct LabelSession {
    store: Store,
    run: BenchmarkRun,
    /// Cases that are unchanged since the run.
    cases: BTreeMap<String, BenchmarkCase>,
    places: HashMap<(String, String, u32), usize>,
    given: usize,
    warnings: Vec<String>,
}

impl BenchOperations<'_> {
    /// Opens a stored run for labelling. The suite, as given or as recorded in the run, provides goals and
    /// expectations; if it is missing, or a case has changed since, the label alone decides.
    pub async fn open_label_session(
        self,
        named: &str,
        suite: Option<&Path>,
    ) -> Result<LabelSession, EngineError> {
        if Path::new(named).is_file() {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot label {named}: it is a file, and labels are stored with runs in the database"
                ),
                hint: Hint::with_command(
                    "give a run id or `latest`; list the runs to see their ids",
                    "satiety bench list --runs",
                ),
            });
        }
        let run = self.find_run(named, Detail::Full).await?;
        let store = self.engine.store().await?.clone();
        let mut warnings = Vec::new();
        let cases = match suite_path(&run, suite) {
            Some(path) => cases_of(&run, &path, &mut warnings)?,
            None => stored_cases(&store, &run).await?,
        };
        if cases.is_empty() && warnings.is_empty() {
            warnings.push("suite not found, so labels alone decide; pass it with --suite".into());
        }
        Ok(LabelSession::new(store, run, cases, warnings))
    }

    /// Returns the next result of a stored run to label.
    pub async fn next_label(self, request: &NextLabelRequest) -> Result<LabelStep, EngineError> {
        label_step(self.engine.store().await?, request, 0).await
    }

    /// Stores or removes the label of one result of a stored run.
    pub async fn label_result(self, request: &LabelResultRequest) -> Result<LabelStep, EngineError> {
        let store = self.engine.store().await?;
        let head = stored_run(store, &request.id).await?;
        let label = Label {
            case_id: request.case_id.clone(),
            repeat: request.repeat,
            variant: request.variant.clone(),
            pass: request.pass.unwrap_or_default(),
        };
        let key = ResultKey {
            case_id: label.case_id.clone(),
            variant: label.variant.clone().unwrap_or_default(),
            repeat: i64::from(label.repeat),
        };
        let body = store.bench().result_body(&head.run_id, &key).await?;
        let body = body.ok_or_else(|| missing(&head.run_id, "result", &label))?;
        let mut result: BenchmarkResult = serde_json::from_str(&body)?;
        if request.pass.is_some() && !can_label(&result) {
            return Err(missing(&head.run_id, "response", &label));
        }
        let was_pending = result.status == Status::Pending;
        if request.pass.is_some() || result.human_label.is_some() {
            let case = stored_case(store, &head.run_id, &result.case_id).await?;
            settle(&mut result, case.as_ref(), request.pass);
            store.bench().replace_result(&head.run_id, &row(&result)?).await?;
            refresh_summary(store, head).await?;
        }
        let next = NextLabelRequest {
            id: request.id.clone(),
            all: request.pass.is_some() && !was_pending,
            skip: 0,
        };
        label_step(store, &next, usize::from(request.pass.is_some())).await
    }
}

/// Finds the next result to label, and what the labels of the run say so far. Reads the bodies of that result and of
/// labelled results, never of the whole run: this is the cost of each click in the annotation queue.
async fn label_step(
    store: &Store,
    request: &NextLabelRequest,
    labelled: usize,
) -> Result<LabelStep, EngineError> {
    let head = stored_run(store, &request.id).await?;
    let run_id = head.run_id.as_str();
    let counts = store.bench().result_counts(run_id).await?;
    let count = |wanted: &[&str]| -> i64 {
        let wanted = counts
            .iter()
            .filter(|(status, _)| wanted.contains(&status.as_str()));
        wanted.map(|(_, results)| results).sum()
    };
    let labels = store.bench().label_count(run_id).await?;
    let next = next_unlabelled(store, run_id, request.all, request.skip).await?;
    let mut warnings = Vec::new();
    let case = match &next {
        Some(result) => stored_case(store, run_id, &result.case_id).await?,
        None => None,
    };
    if next.is_some() && case.is_none() {
        warnings.push("the case was not stored with this run, so the label alone decides".to_owned());
    }
    let pending = count(&["pending"]);
    let left = if request.all {
        count(&["pass", "fail", "pending"]) - labels
    } else {
        pending
    };
    // Results with an error of the judge have a response, too, but the count does not tell them from others.
    let left = left.max(i64::from(next.is_some()));
    let pairs = stored_pairs(store, run_id, &mut warnings).await?;
    Ok(LabelStep {
        next: next.map(|result| unlabelled_case(&result, case.as_ref())),
        left: usize::try_from(left).unwrap_or(0),
        outcome: LabelResponse {
            run_id: head.run_id.clone(),
            labelled,
            labels: usize::try_from(labels).unwrap_or(0),
            pending: u64::try_from(pending).unwrap_or(0),
            pass_rate: head.pass_rate,
            calibration: calibrate(&pairs),
            warnings,
        },
    })
}

/// Returns the next result without a label: a pending one, or with `all` any that has a response.
async fn next_unlabelled(
    store: &Store,
    run_id: &str,
    all: bool,
    skip: u32,
) -> Result<Option<BenchmarkResult>, EngineError> {
    // Every pending result has a response, so the database can skip them.
    let (mut offset, mut skip, limit) = if all {
        (0, skip, UNLABELLED_PER_READ)
    } else {
        (skip, 0, 1)
    };
    let mut after: Option<ResultKey> = None;
    for _ in 0..MAX_READS {
        let bench = store.bench();
        let page = bench
            .unlabelled_results(run_id, all, after.as_ref(), offset, limit)
            .await?;
        offset = 0;
        let Some((last, _)) = page.last() else {
            return Ok(None);
        };
        after = Some(last.clone());
        for (_, body) in page {
            let result: BenchmarkResult = serde_json::from_str(&body)?;
            if !can_label(&result) {
                continue;
            }
            if skip == 0 {
                return Ok(Some(result));
            }
            skip -= 1;
        }
    }
    Ok(None)
}

/// Verdicts of the judge and of people about the same responses of a stored run.
async fn stored_pairs(
    store: &Store,
    run_id: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<(bool, bool)>, EngineError> {
    let bodies = store.bench().labelled_results(run_id, MAX_COMPARED + 1).await?;
    if bodies.len() > MAX_COMPARED as usize {
        warnings.push(format!(
            "the agreement is that of the first {MAX_COMPARED} labelled results"
        ));
    }
    let mut results: Vec<BenchmarkResult> = Vec::new();
    for body in bodies.iter().take(MAX_COMPARED as usize) {
        let result: BenchmarkResult = serde_json::from_str(body)?;
        if result.llm_judge_score.is_some() {
            results.push(result);
        }
    }
    let ids: BTreeSet<&str> = results.iter().map(|result| result.case_id.as_str()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let cases = parse_cases(&store.bench().case_bodies(run_id, &ids).await?);
    let pair = |result: &BenchmarkResult| {
        Some((
            judge_passes(result, cases.get(&result.case_id))?,
            label_of(result)?,
        ))
    };
    Ok(results.iter().filter_map(pair).collect())
}

async fn stored_run(store: &Store, run_id: &str) -> Result<BenchRunRow, EngineError> {
    let head = store.bench().run_head(run_id).await?;
    head.ok_or_else(|| EngineError::NotFound {
        what: format!("run `{run_id}`"),
        hint: "list the runs to see their ids".into(),
    })
}

/// Case as it was stored with the run; `None` for runs of earlier versions, imported ones, and cases that cannot be read.
async fn stored_case(
    store: &Store,
    run_id: &str,
    case_id: &str,
) -> Result<Option<BenchmarkCase>, EngineError> {
    let bodies = store.bench().case_bodies(run_id, &[case_id]).await?;
    Ok(parse_cases(&bodies).remove(case_id))
}

/// Updates the stored summary of a complete run to match its results. The results of an ablation belong to several
/// systems; a single pass rate would be meaningless.
async fn refresh_summary(store: &Store, head: BenchRunRow) -> Result<(), EngineError> {
    let Some(ended) = head.completed_at else {
        return Ok(());
    };
    if head.config_snapshot.get(ABLATION).is_some() {
        return Ok(());
    }
    let run = history::load(store, head, Detail::Metrics).await?;
    let Some(summary) = &run.summary else {
        return Ok(());
    };
    store
        .bench()
        .complete_run(&run.run_id, ended, summary, summary.pass_rate)
        .await?;
    Ok(())
}

fn missing(run_id: &str, what: &str, label: &Label) -> EngineError {
    let variant = label.variant.as_ref();
    EngineError::Invalid {
        message: format!(
            "cannot label: run {run_id} has no {what} for case `{}`, repeat {}{}",
            label.case_id,
            label.repeat,
            variant.map_or_else(String::new, |variant| format!(", variant {variant}"))
        ),
        hint: "a label is {\"case_id\": \"…\", \"repeat\": 0, \"pass\": true}; nothing was written".into(),
    }
}

/// Result as shown to a person, with what the case asks.
fn unlabelled_case(result: &BenchmarkResult, case: Option<&BenchmarkCase>) -> UnlabelledCase {
    let note = case.and_then(|case| {
        let mut note = None;
        case.expected.walk(&mut |part| {
            if part.mode == Mode::Human {
                note = note
                    .or(part.reason.as_deref())
                    .or(part.value.as_ref().and_then(Value::as_str));
            }
        });
        note.map(str::to_owned)
    });
    UnlabelledCase {
        case_id: result.case_id.clone(),
        repeat: result.repeat,
        variant: result.variant.clone(),
        goal: case.map(|case| case.input.goal.clone()),
        note,
        output: result.actual_output.clone().unwrap_or_default(),
        status: result.status,
        human_label: result.human_label.clone(),
    }
}

/// Verdict of the judge alone; `None` if the case also asks a person.
fn judge_passes(result: &BenchmarkResult, case: Option<&BenchmarkCase>) -> Option<bool> {
    let score = result.llm_judge_score?;
    let Some(case) = case else {
        return result.decided();
    };
    let (mut rubrics, mut people) = (0, false);
    case.expected.walk(&mut |part| {
        rubrics += usize::from(part.mode == Mode::LlmJudge);
        people |= part.mode == Mode::Human;
    });
    let mut answers = Answers::default();
    answers.restore_checks(&case.expected, &result.scores);
    let pending = assess(&case.expected, &observed(result), &answers).pending;
    let asked = pending.iter().find(|pending| pending.rubric.is_some());
    match (rubrics, asked) {
        (1, Some(asked)) => Some(score >= asked.threshold - 1e-9),
        _ if people => None,
        _ => result.decided(),
    }
}

impl LabelSession {
    fn new(
        store: Store,
        run: BenchmarkRun,
        cases: BTreeMap<String, BenchmarkCase>,
        warnings: Vec<String>,
    ) -> Self {
        let places = run.results.iter().enumerate();
        Self {
            store,
            places: places.map(|(index, result)| (key(result), index)).collect(),
            run,
            cases,
            given: 0,
            warnings,
        }
    }

    /// Indices of results that are pending for a person, or of all with a response.
    pub fn results(&self, all: bool) -> Vec<usize> {
        let wanted = |result: &BenchmarkResult| {
            result.actual_output.is_some() && (result.status == Status::Pending || all && can_label(result))
        };
        let results = self.run.results.iter().enumerate();
        results
            .filter(|(_, result)| wanted(result))
            .map(|(index, _)| index)
            .collect()
    }

    pub fn show(&self, index: usize) -> Option<UnlabelledCase> {
        let result = self.run.results.get(index)?;
        Some(unlabelled_case(result, self.cases.get(&result.case_id)))
    }

    /// Index of the result that a label refers to.
    pub fn place(&self, label: &Label) -> Option<usize> {
        let variant = label.variant.clone().unwrap_or_default();
        let key = (label.case_id.clone(), variant, label.repeat);
        self.places.get(&key).copied()
    }

    /// Stores all labels, or none if one refers to a missing result or a result without response.
    pub async fn label_all(&mut self, labels: &[Label]) -> Result<(), EngineError> {
        let mut places = Vec::with_capacity(labels.len());
        for label in labels {
            let place = self
                .place(label)
                .ok_or_else(|| missing(&self.run.run_id, "result", label))?;
            if !self.run.results.get(place).is_some_and(can_label) {
                return Err(missing(&self.run.run_id, "response", label));
            }
            places.push((place, label.pass));
        }
        for (place, pass) in places {
            self.write(place, pass).await?;
        }
        self.refresh().await
    }

    /// Stores the label of one result and updates the summary of the run.
    pub async fn label(&mut self, index: usize, pass: bool) -> Result<(), EngineError> {
        self.write(index, pass).await?;
        self.refresh().await
    }

    async fn write(&mut self, index: usize, pass: bool) -> Result<(), EngineError> {
        let Some(result) = self.run.results.get_mut(index) else {
            return Ok(());
        };
        settle(result, self.cases.get(&result.case_id), Some(pass));
        self.store
            .bench()
            .replace_result(&self.run.run_id, &row(result)?)
            .await?;
        self.given += 1;
        Ok(())
    }

    /// Updates the stored summary to match the relabelled results.
    async fn refresh(&mut self) -> Result<(), EngineError> {
        let summary = summarize_run(&self.run.results, &self.run.config_snapshot);
        // The results of an ablation belong to several systems; a single pass rate would be meaningless.
        let single_system = !self.run.config_snapshot.contains_key(ABLATION);
        if let Some(ended) = self.run.completed_at.filter(|_| single_system) {
            let value = serde_json::to_value(&summary)?;
            self.store
                .bench()
                .complete_run(
                    &self.run.run_id,
                    ended.as_microsecond(),
                    &value,
                    summary.pass_rate,
                )
                .await?;
        }
        self.run.summary = Some(summary);
        Ok(())
    }

    /// Outcome of all labels so far.
    pub fn outcome(&self) -> LabelResponse {
        let summary = self
            .run
            .summary
            .clone()
            .unwrap_or_else(|| summarize_run(&self.run.results, &self.run.config_snapshot));
        let results = self.run.results.iter();
        let pairs: Vec<(bool, bool)> = results
            .clone()
            .filter_map(|result| {
                let case = self.cases.get(&result.case_id);
                Some((judge_passes(result, case)?, label_of(result)?))
            })
            .collect();
        LabelResponse {
            run_id: self.run.run_id.clone(),
            labelled: self.given,
            labels: results.filter(|result| result.human_label.is_some()).count(),
            pending: summary.counts.pending,
            pass_rate: summary.pass_rate,
            calibration: calibrate(&pairs),
            warnings: self.warnings.clone(),
        }
    }
}

/// Reads labels, one JSON object per line.
pub fn read_labels(path: &Path) -> Result<Vec<Label>, EngineError> {
    let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
    let mut labels = Vec::new();
    for (index, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let mut deserializer = serde_json::Deserializer::from_str(line);
        let label =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| EngineError::Invalid {
                message: format!(
                    "{}:{}: {}: {}",
                    path.display(),
                    index + 1,
                    error.path(),
                    error.inner()
                ),
                hint: "a line is {\"case_id\": \"…\", \"repeat\": 0, \"pass\": true}; nothing was written"
                    .into(),
            })?;
        labels.push(label);
    }
    Ok(labels)
}

/// Path of the suite: as given, or as recorded in the run if it is still there.
fn suite_path(run: &BenchmarkRun, suite: Option<&Path>) -> Option<PathBuf> {
    let known = run.config_snapshot.get("suite_file").and_then(Value::as_str);
    suite
        .map(Into::into)
        .or_else(|| known.map(PathBuf::from).filter(|path| path.is_file()))
}

/// Cases as they were stored with the run; empty for runs of earlier versions and imported ones.
async fn stored_cases(
    store: &Store,
    run: &BenchmarkRun,
) -> Result<BTreeMap<String, BenchmarkCase>, EngineError> {
    Ok(parse_cases(&store.bench().run_case_bodies(&run.run_id).await?))
}

/// Parses cases from the database. A case of a later version may not be readable; its label alone decides.
fn parse_cases(bodies: &[String]) -> BTreeMap<String, BenchmarkCase> {
    let cases = bodies
        .iter()
        .filter_map(|body| serde_json::from_str::<BenchmarkCase>(body).ok());
    cases.map(|case| (case.case_id.clone(), case)).collect()
}

/// Cases of the suite that are unchanged since the run.
fn cases_of(
    run: &BenchmarkRun,
    path: &Path,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, BenchmarkCase>, EngineError> {
    let loaded = load(path)?;
    if loaded.suite.suite_id != run.suite_id {
        return Err(EngineError::Invalid {
            message: format!(
                "cannot label run {}: it is a run of {}, not of {}",
                run.run_id, run.suite_id, loaded.suite.suite_id
            ),
            hint: Hint::with_command("name the suite that was run", "--suite SUITE"),
        });
    }
    let before: BTreeMap<&str, Option<&str>> = run
        .results
        .iter()
        .map(|result| (result.case_id.as_str(), result.case_hash.as_deref()))
        .collect();
    let mut cases = BTreeMap::new();
    let mut changed = 0;
    for case in loaded.suite.cases {
        let Some(hash) = before.get(case.case_id.as_str()) else {
            continue;
        };
        if *hash == Some(case_hash(&case, &loaded.files).as_str()) {
            cases.insert(case.case_id.clone(), case);
        } else {
            changed += 1;
        }
    }
    if changed > 0 {
        warnings.push(format!(
            "{changed} cases have changed since the run; labels alone decide their results"
        ));
    }
    Ok(cases)
}

fn key(result: &BenchmarkResult) -> (String, String, u32) {
    let variant = result.variant.clone().unwrap_or_default();
    (result.case_id.clone(), variant, result.repeat)
}

/// Whether there is a response to label. A judge error still leaves one.
fn can_label(result: &BenchmarkResult) -> bool {
    let judge_broke = result.status == Status::Error && result.error_owner == Some(ErrorOwner::Judge);
    result.actual_output.is_some()
        && (matches!(result.status, Status::Pass | Status::Fail | Status::Pending) || judge_broke)
}

fn label_of(result: &BenchmarkResult) -> Option<bool> {
    match result.human_label.as_deref()? {
        PASS => Some(true),
        FAIL => Some(false),
        _ => None,
    }
}

fn observed(result: &BenchmarkResult) -> Observed {
    Observed {
        output: Value::String(result.actual_output.clone().unwrap_or_default()),
        metrics: threshold_metrics(result),
    }
}

/// Applies a label to a result, or removes it, and decides its status again: without a label as the checks and the judge
/// alone decide it.
fn settle(result: &mut BenchmarkResult, case: Option<&BenchmarkCase>, pass: Option<bool>) {
    result.human_label = pass.map(|pass| if pass { PASS } else { FAIL }.into());
    let Some(case) = case else {
        let open = matches!(result.status, Status::Pending | Status::Error);
        // An earlier label may be revised.
        let by_label = result
            .reasons
            .iter()
            .any(|reason| [FOUND_RIGHT, FOUND_WRONG].contains(&reason.as_str()));
        match pass {
            Some(pass) if open || by_label => decide(result, pass),
            None if by_label => {
                (result.status, result.score) = (Status::Pending, None);
                result.reasons.clear();
            }
            _ => {}
        }
        return;
    };
    let observed = observed(result);
    let mut answers = Answers::default();
    answers.restore_checks(&case.expected, &result.scores);
    let open = assess(&case.expected, &observed, &answers);
    let places: Vec<&str> = open
        .pending
        .iter()
        .filter(|pending| pending.rubric.is_some())
        .map(|pending| pending.place.as_str())
        .collect();
    let each = judges_by_place(result, places.len());
    for (index, place) in places.iter().enumerate() {
        let said = pass.map(|pass| f64::from(u8::from(pass)));
        if let Some(score) = each.get(index).copied().or(said) {
            answers.judged.insert((*place).to_owned(), score);
        }
    }
    if let Some(pass) = pass {
        answers.labelled.insert(String::new(), pass);
        (result.error, result.error_kind, result.error_owner) = (None, None, None);
    }
    let found = assess(&case.expected, &observed, &answers);
    result.status = found.status;
    result.score = found.score;
    result.reasons = found.reasons;
}

/// Reason stored with a result that a label alone decided; such results are recognised by it.
const FOUND_RIGHT: &str = "a person found it right";
const FOUND_WRONG: &str = "a person found it wrong";

fn decide(result: &mut BenchmarkResult, pass: bool) {
    result.status = if pass { Status::Pass } else { Status::Fail };
    result.score = Some(f64::from(u8::from(pass)));
    result.reasons = vec![if pass { FOUND_RIGHT } else { FOUND_WRONG }.into()];
    (result.error, result.error_kind, result.error_owner) = (None, None, None);
}

/// Mean score of the judges per rubric; judges are called rubric by rubric, all judges each time. Empty if
/// they did not finish.
fn judges_by_place(result: &BenchmarkResult, places: usize) -> Vec<f64> {
    let Some(size) = result.judges.len().checked_div(places).filter(|size| *size > 0) else {
        return result.llm_judge_score.into_iter().collect();
    };
    if result.llm_judge_score.is_none() || !result.judges.len().is_multiple_of(places) {
        return Vec::new();
    }
    let scores: Vec<f64> = result.judges.iter().map(|opinion| opinion.score).collect();
    scores
        .chunks(size)
        .map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use satiety::bench::{BenchmarkExpected, JudgeOpinion};
    use serde_json::json;

    fn case(expected: Value) -> BenchmarkCase {
        let expected: BenchmarkExpected = serde_json::from_value(expected).unwrap();
        BenchmarkCase::new("c", "greet", expected)
    }

    fn answered(output: &str, status: Status) -> BenchmarkResult {
        let mut result = BenchmarkResult::new("c", 0, status);
        result.actual_output = Some(output.into());
        result
    }

    #[test]
    fn a_label_decides_pending_results_and_overrides_nothing() {
        let human = json!({"mode": "human"});
        let both = json!([{"mode": "human"}, {"mode": "contains", "value": "hello"}]);
        let judge = json!({"mode": "llm_judge", "value": "is polite"});
        for (expected, output, pass, status) in [
            (&human, "x", true, Status::Pass),
            (&human, "x", false, Status::Fail),
            (&both, "hello", true, Status::Pass),
            (&both, "bye", true, Status::Fail),
            (&judge, "x", true, Status::Pass),
            (&judge, "x", false, Status::Fail),
        ] {
            let mut result = answered(output, Status::Pending);
            settle(&mut result, Some(&case(expected.clone())), Some(pass));
            assert_eq!(result.status, status, "{expected} {output} {pass}");
            // Revising a label gives the same outcome as giving the other label first.
            let mut other = answered(output, Status::Pending);
            settle(&mut other, Some(&case(expected.clone())), Some(!pass));
            settle(&mut result, Some(&case(expected.clone())), Some(!pass));
            assert_eq!(result, other);
        }
    }

    #[test]
    fn judge_verdicts_stay_unchanged() {
        let case = case(json!([
            {"mode": "llm_judge", "value": "is polite", "threshold": 0.5},
            {"mode": "llm_judge", "value": "is short", "threshold": 0.5},
        ]));
        let opinion = |judge: &str, score| JudgeOpinion {
            judge: judge.into(),
            score,
            reason: String::new(),
            criteria: Vec::new(),
        };
        let mut result = answered("x", Status::Fail);
        // The first rubric passes, the second fails; their mean would pass both.
        result.judges = vec![
            opinion("a", 1.0),
            opinion("b", 1.0),
            opinion("a", 0.2),
            opinion("b", 0.2),
        ];
        result.llm_judge_score = Some(0.6);
        settle(&mut result, Some(&case), Some(true));
        assert_eq!(
            (result.status, result.human_label.as_deref()),
            (Status::Fail, Some(PASS))
        );
    }

    #[test]
    fn without_the_suite_a_label_decides_only_pending_results() {
        let mut open = answered("x", Status::Pending);
        settle(&mut open, None, Some(false));
        assert_eq!(open.status, Status::Fail);
        settle(&mut open, None, Some(true));
        assert_eq!((open.status, open.score), (Status::Pass, Some(1.0)));
        let mut failed = answered("x", Status::Fail);
        failed.reasons = vec!["is not `y`".into()];
        settle(&mut failed, None, Some(true));
        settle(&mut failed, None, Some(true));
        assert_eq!(
            (failed.status, failed.human_label.as_deref()),
            (Status::Fail, Some(PASS))
        );
    }
}
