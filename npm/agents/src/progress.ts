import { ExecutableTransport, type ExecutableOptions } from "./executable.js";
import { ServerTransport } from "./http.js";
import type { Message } from "./messages.js";
import { SatietyError, type Transport } from "./transport.js";
import { noVerdict, type Verdict, verdictFrom } from "./verdict.js";

/** Time after a failure to reach Satiety during which it is not tried again, in milliseconds. */
const RETRY_AFTER_MS = 30_000;
/** Maximum number of messages that a server takes at a time. */
const MAX_MESSAGES = 1000;

export interface Options extends ExecutableOptions {
  /** Address of a server; by default, the executable is used. */
  readonly url?: string | URL;
  /** Token for the server. */
  readonly token?: string;
  /** Another way to reach the judge; replaces all options above. */
  readonly transport?: Transport;
  /** Time limit of a call in milliseconds, after which the agent goes on [default: 10000]. */
  readonly timeout?: number;
  /**
   * Receives the first failure of Satiety itself. By default it becomes a warning of the process. Later failures are
   * not reported.
   */
  readonly onError?: (error: SatietyError) => void;
}

/**
 * Judges runs of agents, and keeps failures of Satiety away from them: the first failure is reported, and the agents
 * go on.
 */
export class Judge {
  readonly #transport: Transport;
  readonly #timeout: number;
  readonly #onError: (error: SatietyError) => void;
  #hasFailed = false;
  #retryAt = 0;

  constructor(options: Options = {}) {
    this.#transport = chooseTransport(options);
    this.#timeout = options.timeout ?? 10_000;
    this.#onError = options.onError ?? warn;
  }

  /** Appends messages to a run; `undefined` if Satiety fails. */
  async append(run: string, messages: readonly Message[]): Promise<Verdict | undefined> {
    if (Date.now() < this.#retryAt) return undefined;
    try {
      let verdict: Verdict | undefined;
      for (let first = 0; first < messages.length; first += MAX_MESSAGES) {
        const chunk = messages.slice(first, first + MAX_MESSAGES);
        const answer = await this.#withTimeout((signal) => this.#transport.append(run, chunk, signal));
        verdict = verdictFrom(answer);
      }
      return verdict;
    } catch (cause) {
      this.#report(cause instanceof SatietyError ? cause : new SatietyError(String(cause), { cause }));
      return undefined;
    }
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #withTimeout<T>(action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    // Unlike AbortSignal.timeout, keeps the process alive while it waits for the answer.
    const timer = setTimeout(() => controller.abort(new Error("time limit exceeded")), this.#timeout);
    try {
      return await action(controller.signal);
    } finally {
      clearTimeout(timer);
    }
  }

  #report(error: SatietyError): void {
    if (error.unreachable) this.#retryAt = Date.now() + RETRY_AFTER_MS;
    if (this.#hasFailed) return;
    this.#hasFailed = true;
    try {
      this.#onError(error);
    } catch {
      // The agent must not fail because of its logging.
    }
  }
}

let sharedExecutable: ExecutableTransport | undefined;

/** The transport that the options name. All users of the default executable share one process. */
function chooseTransport({ transport, url, token, command, store }: Options): Transport {
  if (transport) return transport;
  if (url !== undefined) return new ServerTransport({ url, ...(token === undefined ? {} : { token }) });
  if (command !== undefined || store !== undefined) {
    return new ExecutableTransport({
      ...(command === undefined ? {} : { command }),
      ...(store === undefined ? {} : { store }),
    });
  }
  sharedExecutable ??= new ExecutableTransport();
  return sharedExecutable;
}

function warn(error: SatietyError): void {
  const text = `cannot judge the progress of the agent, which goes on without Satiety: ${error.message}`;
  const warning = error.hint === undefined ? text : `${text} (hint: ${error.hint})`;
  if (typeof process === "object" && typeof process.emitWarning === "function") {
    process.emitWarning(warning, "SatietyWarning");
  } else {
    console.warn(warning);
  }
}

export interface ProgressOptions extends Options {
  /** Id of the run [default: a random one]. */
  readonly run?: string;
  /** Judge that several runs share; replaces all other options except `run`. */
  readonly judge?: Judge;
}

/**
 * Judges one run of an agent, message by message.
 *
 * Repeated calls, the same error or the same result again, cycles and undone edits raise the level; new results lower
 * it. The verdict never ships because of repetition.
 *
 * @example
 * const progress = new Progress();
 * const verdict = await progress.observe(newMessages);
 * if (verdict.signal === "NUDGE") messages.push({ role: "user", content: verdict.nudge });
 * if (verdict.stops) return verdict.reasons[0];
 */
export class Progress {
  /** Id of the run. */
  readonly run: string;
  readonly #judge: Judge;
  #verdict: Verdict = noVerdict("No step is complete yet.");
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: ProgressOptions = {}) {
    this.run = options.run ?? globalThis.crypto.randomUUID();
    this.#judge = options.judge ?? new Judge(options);
  }

  /**
   * Judges the steps that new messages complete, and returns the verdict after the last one. Never rejects: if Satiety
   * fails, the verdict is CONTINUE.
   *
   * @param newMessages Messages that were not observed before, in order, in the shape of OpenAI, Anthropic or LangChain.
   */
  observe(newMessages: readonly Message[] | Message): Promise<Verdict> {
    const messages: readonly Message[] = Array.isArray(newMessages) ? newMessages : [newMessages as Message];
    const observed = this.#last.then(() => this.#observe(messages));
    this.#last = observed;
    return observed;
  }

  /** Verdict after the last judged step. */
  get verdict(): Verdict {
    return this.#verdict;
  }

  /** Releases the process or connection. Not needed at the end of a program. */
  close(): Promise<void> {
    return this.#judge.close();
  }

  async #observe(messages: readonly Message[]): Promise<Verdict> {
    if (messages.length === 0) return this.#verdict;
    const verdict = await this.#judge.append(this.run, messages);
    this.#verdict = verdict ?? noVerdict("Satiety could not judge the last messages.", this.#verdict.step);
    return this.#verdict;
  }
}

/** What an adapter does about a run: nothing, unless a new step calls for it. */
export class Run {
  readonly #progress: Progress;
  #judgedSteps = 0;

  constructor(judge: Judge) {
    this.#progress = new Progress({ judge });
  }

  /**
   * Judges new messages. Returns a NUDGE, STOP or ESCALATE about a step that they complete; `undefined` if the agent
   * should go on as it is, or if Satiety fails.
   */
  async observe(newMessages: readonly Message[]): Promise<Verdict | undefined> {
    const verdict = await this.#progress.observe(newMessages);
    if (verdict.step === this.#judgedSteps) return undefined;
    this.#judgedSteps = verdict.step;
    return verdict.stops || verdict.signal === "NUDGE" ? verdict : undefined;
  }
}
