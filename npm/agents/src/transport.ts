import type { Message } from "./messages.js";
import type { Answer } from "./verdict.js";

/** Way to reach the judge. Implementations reject with {@link SatietyError}. */
export interface Transport {
  /**
   * Appends messages to a run and returns the verdict after its last complete step.
   *
   * @param run Id of the run: at most 128 letters, digits and `_.:-`.
   * @param signal Aborts the call after the time limit.
   */
  append(run: string, messages: readonly Message[], signal: AbortSignal): Promise<Answer>;
  /** Releases processes, connections and files. The transport can be used again afterwards. */
  close(): Promise<void>;
}

/** Failure of Satiety itself. */
export class SatietyError extends Error {
  override readonly name = "SatietyError";
  /** What to do about it. */
  readonly hint: string | undefined;
  /** Whether Satiety did not answer, rather than reject the messages. */
  readonly unreachable: boolean;

  constructor(message: string, options: { hint?: string | undefined; unreachable?: boolean; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.hint = options.hint;
    this.unreachable = options.unreachable ?? false;
  }
}
