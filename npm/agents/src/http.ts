import type { AppendedMessages, MessagesBody, Problem } from "./openapi.js";
import type { Message } from "./messages.js";
import { SatietyError, type Transport } from "./transport.js";

export interface ServerOptions {
  /** Address of a server that `satiety serve` started, such as `http://localhost:8787`. */
  readonly url: string | URL;
  /** Token with the scope `write`, if the server requires one. */
  readonly token?: string;
}

/** Reaches a server with `fetch`. Works in every JavaScript runtime. */
export class ServerTransport implements Transport {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor({ url, token }: ServerOptions) {
    this.#url = String(url).replace(/\/+$/, "");
    this.#headers = {
      "content-type": "application/json",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    };
  }

  async append(run: string, messages: readonly Message[], signal: AbortSignal): Promise<AppendedMessages> {
    const body: MessagesBody = { messages: messages as MessagesBody["messages"] };
    let response: Response;
    try {
      response = await fetch(`${this.#url}/v1/conversations/${encodeURIComponent(run)}/messages`, {
        method: "POST",
        headers: this.#headers,
        body: JSON.stringify(body),
        signal,
      });
      if (response.ok) return (await response.json()) as AppendedMessages;
    } catch (cause) {
      throw new SatietyError(`cannot reach the Satiety server at ${this.#url}: ${describe(cause)}`, {
        hint: "start it with `satiety serve`, or correct the option `url`",
        unreachable: true,
        cause,
      });
    }
    const problem = (await response.json().catch(() => ({}))) as Partial<Problem>;
    throw new SatietyError(problem.detail ?? `the Satiety server answered with status ${response.status}`, {
      hint: problem.hint ?? undefined,
      unreachable: response.status >= 500,
    });
  }

  async close(): Promise<void> {}
}

/** Message of an error of `fetch`, whose cause says more than "fetch failed". */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error && error.cause.message ? error.cause.message : error.message;
}
