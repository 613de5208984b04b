import type { ChildProcessWithoutNullStreams } from "node:child_process";
import type { Message } from "./messages.js";
import { SatietyError, type Transport } from "./transport.js";
import type { Answer } from "./verdict.js";

export interface ExecutableOptions {
  /**
   * Path of the executable. By default the environment variable `SATIETY_COMMAND`, then the executable of the npm
   * package `satiety`, then the first `satiety` on the `PATH`.
   */
  readonly command?: string | undefined;
  /**
   * Store of the runs: `sqlite:PATH` or `postgres://…`. By default a temporary directory that is deleted when the
   * process ends, so that your own store is not touched.
   */
  readonly store?: string | undefined;
}

interface Pending {
  resolve(result: ToolResult): void;
  reject(error: Error): void;
}

/** Answer of the Model Context Protocol to `tools/call`. */
interface ToolResult {
  readonly isError?: boolean;
  readonly content?: readonly { readonly text?: string }[];
  readonly structuredContent?: Answer;
}

/**
 * Reaches the executable: one `satiety mcp` process, which is started by the first message and answers on its
 * standard output. It does not keep the host's process alive, and ends with it.
 */
export class ExecutableTransport implements Transport {
  readonly #options: ExecutableOptions;
  #session: Promise<Session> | undefined;
  #directory: string | undefined;

  constructor(options: ExecutableOptions = {}) {
    this.#options = options;
  }

  async append(run: string, messages: readonly Message[], signal: AbortSignal): Promise<Answer> {
    const starting = (this.#session ??= this.#start(signal));
    let result: ToolResult;
    try {
      const session = await starting;
      const parameters = { name: "append_messages", arguments: { run_id: run, messages } };
      result = await session.request("tools/call", parameters, signal);
    } catch (error) {
      if (!(error instanceof SatietyError) || error.unreachable) this.#discard(starting);
      throw error;
    }
    if (result.isError === true || result.structuredContent === undefined) {
      throw rejection(result.content?.[0]?.text ?? "the executable sent no verdict");
    }
    return result.structuredContent;
  }

  async close(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    await (await session?.catch(() => undefined))?.end();
    const { removeDirectory } = await import("./temporary.js");
    if (this.#directory !== undefined) removeDirectory(this.#directory);
    this.#directory = undefined;
  }

  /** Lets the next call replace a process that could not be started, has ended, or hangs. */
  #discard(session: Promise<Session>): void {
    if (this.#session === session) this.#session = undefined;
    session.then(
      (started) => started.kill(),
      () => {},
    );
  }

  async #start(signal: AbortSignal): Promise<Session> {
    const { spawn } = await import("node:child_process");
    const command = this.#options.command ?? (await findCommand());
    const store = this.#options.store ?? (await this.#temporaryStore());
    const child = spawn(command, ["mcp", "--tools", "append_messages", "--db", store], { windowsHide: true });
    const session = new Session(child, command);
    try {
      await session.request(
        "initialize",
        {
          protocolVersion: "2025-06-18",
          capabilities: {},
          clientInfo: { name: "@satiety/agents", version: "1" },
        },
        signal,
      );
    } catch (cause) {
      session.kill();
      const { message, hint } = cause as SatietyError;
      throw new SatietyError(message, { hint, unreachable: true, cause });
    }
    session.notify("notifications/initialized");
    return session;
  }

  async #temporaryStore(): Promise<string> {
    const { createDirectory } = await import("./temporary.js");
    this.#directory ??= createDirectory();
    return `sqlite:${this.#directory}/runs.db`;
  }
}

/** JSON-RPC over the standard streams of a process, one message per line. */
class Session {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #command: string;
  readonly #pending = new Map<number, Pending>();
  readonly #ended: Promise<void>;
  #lastId = 0;
  #line = "";
  #errors = "";
  #failure: SatietyError | undefined;

  constructor(child: ChildProcessWithoutNullStreams, command: string) {
    this.#child = child;
    this.#command = command;
    // A pending request keeps the host's process alive; an idle child does not.
    for (const handle of [child, child.stdin, child.stdout, child.stderr]) (handle as { unref?(): void }).unref?.();
    child.stdout.setEncoding("utf8").on("data", (text: string) => this.#receive(text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors = (this.#errors + text).slice(-2000);
    });
    child.stdin.on("error", () => {});
    child.on("error", (cause) => this.#fail(`cannot start \`${command}\`: ${cause.message}`, cause));
    this.#ended = new Promise((resolve) => {
      child.on("error", () => resolve());
      child.on("close", (code, signal) => {
        const reason = this.#errors.trim().replace(/^error: /, "") || `it ended with ${signal ?? `exit code ${code}`}`;
        this.#fail(`cannot use \`${command}\`: ${reason}`);
        resolve();
      });
    });
  }

  request(method: string, params: object, signal: AbortSignal): Promise<ToolResult> {
    if (this.#failure) return Promise.reject(this.#failure);
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      const expire = () =>
        settle(() =>
          reject(new SatietyError(`\`${this.#command}\` did not answer within the time limit`, { unreachable: true })),
        );
      const settle = (action: () => void) => {
        signal.removeEventListener("abort", expire);
        this.#pending.delete(id);
        if (this.#pending.size === 0) this.#child.unref();
        action();
      };
      this.#pending.set(id, {
        resolve: (result) => settle(() => resolve(result)),
        reject: (error) => settle(() => reject(error)),
      });
      this.#child.ref();
      this.#send({ id, method, params });
      signal.addEventListener("abort", expire);
      if (signal.aborted) expire();
    });
  }

  notify(method: string): void {
    this.#send({ method });
  }

  kill(): void {
    this.#child.kill();
  }

  /** Closes the input, on which the process ends. */
  async end(): Promise<void> {
    this.#child.ref();
    this.#child.stdin.end();
    await this.#ended;
  }

  #send(message: object): void {
    this.#child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  #receive(text: string): void {
    const lines = (this.#line + text).split("\n");
    this.#line = lines.pop() ?? "";
    for (const line of lines) {
      let answer: { id?: number; result?: ToolResult; error?: { message?: string } } | null;
      try {
        answer = JSON.parse(line);
      } catch {
        continue;
      }
      const pending = this.#pending.get(answer?.id ?? 0);
      if (answer?.result) pending?.resolve(answer.result);
      else pending?.reject(rejection(answer?.error?.message ?? "the executable sent no result"));
    }
  }

  #fail(message: string, cause?: unknown): void {
    this.#failure ??= new SatietyError(message, {
      hint: "install the npm package `satiety`, or set SATIETY_COMMAND to the path of the executable",
      unreachable: true,
      cause,
    });
    for (const pending of [...this.#pending.values()]) pending.reject(this.#failure);
  }
}

/** Error from the text of a tool: a line `error:`, perhaps followed by `hint:`. */
function rejection(text: string): SatietyError {
  const [message = text] = text.replace(/^error: /, "").split("\n");
  return new SatietyError(message, { hint: /^hint: (.*)$/m.exec(text)?.[1] });
}

async function findCommand(): Promise<string> {
  if (process.env["SATIETY_COMMAND"]) return process.env["SATIETY_COMMAND"];
  try {
    // A variable, because the package is optional and has no types.
    const name: string = "satiety";
    const { findExecutable } = (await import(name)) as { findExecutable(): string };
    return findExecutable();
  } catch {
    return "satiety";
  }
}
