/**
 * Ends or nudges agents that make no progress.
 *
 * `@satiety/agents/ai`, `/langchain`, `/mastra` and `/openai` have adapters for frameworks; this module is for a loop of
 * your own.
 */

export { ExecutableTransport, type ExecutableOptions } from "./executable.js";
export { ServerTransport, type ServerOptions } from "./http.js";
export type { Message } from "./messages.js";
export { Judge, Progress, type Options, type ProgressOptions } from "./progress.js";
export { SatietyError, type Transport } from "./transport.js";
export { ending, nudging, type Answer, type Signal, type Verdict } from "./verdict.js";
