import type { AppendedMessages, ProgressSignal } from "./openapi.js";

/** Recommendation after a step. STOP and ESCALATE ask the agent not to go on by itself. */
export type Signal = ProgressSignal;

/** Recommendation after the messages observed so far. */
export interface Verdict {
  readonly signal: Signal;
  /** Why, most important first; never empty. */
  readonly reasons: readonly [string, ...string[]];
  /** Sentence to add to the agent's context, for NUDGE, STOP and ESCALATE. */
  readonly nudge?: string;
  /** Probability that the signal is right, from 0 to 1; only a server reports it, and not for discussions. */
  readonly confidence?: number;
  /** Expected number of further steps without a new result. */
  readonly expectedWaste: number;
  /** Number of judged steps; 0 before the first. */
  readonly step: number;
  /** Whether the agent should not go on by itself: STOP or ESCALATE. */
  readonly stops: boolean;
}

/** What a transport returns: the answer of a server, of which the executable reports only some fields. */
export type Answer = Pick<AppendedMessages, "signal" | "reason" | "expected_waste" | "steps"> &
  Partial<Pick<AppendedMessages, "nudge" | "confidence" | "verdicts">>;

export function verdictFrom(answer: Answer): Verdict {
  const evidence = answer.verdicts?.at(-1)?.evidence ?? [];
  return {
    signal: answer.signal,
    reasons: [answer.reason, ...evidence.slice(1).map((finding) => finding.kind.replaceAll("_", " "))],
    ...(answer.nudge == null ? {} : { nudge: answer.nudge }),
    ...(answer.confidence == null ? {} : { confidence: answer.confidence }),
    expectedWaste: answer.expected_waste,
    step: answer.steps,
    stops: answer.signal === "STOP" || answer.signal === "ESCALATE",
  };
}

/** CONTINUE, for a run of which nothing is known beyond `reason`. */
export function noVerdict(reason: string, step = 0): Verdict {
  return { signal: "CONTINUE", reasons: [reason], expectedWaste: 0, step, stops: false };
}

/** Text that ends a run, for the person who reads its result. */
export function ending(verdict: Verdict): string {
  const action = verdict.signal === "ESCALATE" ? "Escalated" : "Stopped";
  return `${action} by Satiety after step ${verdict.step}. ${verdict.reasons[0]}`;
}

/** Sentence for the agent. */
export function nudging(verdict: Verdict): string {
  return `Note from Satiety: ${verdict.nudge ?? verdict.reasons[0]}`;
}
