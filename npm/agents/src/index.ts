/**
 * Ends or nudges agents that make no progress.
 *
 * `@satiety/agents/ai`, `/langchain`, `/mastra` and `/openai` have adapters for frameworks; this module is for a loop of
 * your own.
 */

export { ExecutableTransport, type ExecutableOptions } from "./executable.ts";
export { ServerTransport, type ServerOptions } from "./http.ts";
export type { Message } from "./messages.ts";
export { Judge, Progress, type Options, type ProgressOptions } from "./progress.ts";
export { SatietyError, type Transport } from "./transport.ts";
export { ending, nudging, type Answer, type Signal, type Verdict } from "./verdict.ts";
