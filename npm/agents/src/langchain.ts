/**
 * LangChain: a middleware that ends or nudges an agent that makes no progress.
 *
 * Needs `langchain` and `zod`.
 */

import { AIMessage, type AgentMiddleware, type BaseMessage, createMiddleware, HumanMessage, ToolMessage } from "langchain";
import { z } from "zod";
import { assistantMessage, type Message, toolMessage } from "./messages.js";
import { Judge, type Options, Run } from "./progress.js";
import { ending, nudging } from "./verdict.js";

/** Name of the messages that the middleware adds. */
const NAME = "satiety";
/** Maximum number of runs that are remembered. */
const MAX_RUNS = 256;

interface WatchedRun {
  readonly run: Run;
  readonly observed: Set<string>;
}

type StateSchema = z.ZodObject<{ _satietyRun: z.ZodOptional<z.ZodString> }>;

// Identifies an invocation. The state is the only place that its hooks share.
const stateSchema: StateSchema = z.object({ _satietyRun: z.string().optional() });

/**
 * Creates a middleware that ends an agent that repeats itself, after one sentence that tells it so.
 *
 * Before each model call, the messages since the request of the user are judged. NUDGE adds one message to the
 * conversation. STOP and ESCALATE end the run with a message that gives the reason; its `response_metadata.satiety` is
 * the signal.
 *
 * @example
 * const agent = createAgent({ model, tools, middleware: [satietyMiddleware()] });
 */
export function satietyMiddleware(options: Options = {}): AgentMiddleware<StateSchema, undefined, unknown, readonly []> {
  const judge = new Judge(options);
  const runs = new Map<string, WatchedRun>();
  const watch = (id: string): WatchedRun => {
    const watched = runs.get(id) ?? { run: new Run(judge), observed: new Set() };
    runs.delete(id);
    runs.set(id, watched);
    const [oldest] = runs.keys();
    if (runs.size > MAX_RUNS && oldest !== undefined) runs.delete(oldest);
    return watched;
  };
  return createMiddleware({
    name: "Satiety",
    stateSchema,
    beforeAgent: () => ({ _satietyRun: globalThis.crypto.randomUUID() }),
    beforeModel: {
      canJumpTo: ["end"],
      async hook(state) {
        const messages: readonly BaseMessage[] = state.messages;
        if (state._satietyRun === undefined || !ToolMessage.isInstance(messages.at(-1))) return undefined;
        const { run, observed } = watch(state._satietyRun);
        const isNew = (message: BaseMessage) => message.id === undefined || !observed.has(message.id);
        const newMessages = sinceRequest(messages).filter(isNew);
        for (const { id } of newMessages) if (id !== undefined) observed.add(id);
        const verdict = await run.observe(newMessages.flatMap(plainMessage));
        if (verdict === undefined) return undefined;
        if (!verdict.stops) return { messages: [new HumanMessage({ content: nudging(verdict), name: NAME })] };
        const content = ending(verdict);
        const end = new AIMessage({ content, name: NAME, response_metadata: { satiety: verdict.signal } });
        return { jumpTo: "end", messages: [end] };
      },
    },
  });
}

/** Messages after the last request of the user, with which an agent begins afresh. */
function sinceRequest(messages: readonly BaseMessage[]): readonly BaseMessage[] {
  const isRequest = (message: BaseMessage) => HumanMessage.isInstance(message) && message.name !== NAME;
  return messages.slice(messages.findLastIndex(isRequest) + 1);
}

function plainMessage(message: BaseMessage): Message[] {
  if (ToolMessage.isInstance(message)) {
    return [toolMessage(message.tool_call_id, message.text, message.status === "error" ? true : undefined)];
  }
  if (!AIMessage.isInstance(message)) return [];
  const calls = (message.tool_calls ?? []).map((call) => ({ id: call.id ?? "", tool: call.name, arguments: call.args }));
  return [assistantMessage(message.text, calls)];
}
