/**
 * OpenAI Agents SDK: ends or nudges an agent that makes no progress.
 *
 * Needs `@openai/agents`.
 */

import type {
  Agent,
  CallModelInputFilter,
  FunctionToolResult,
  RunContext,
  ToolsToFinalOutputResult,
  ToolUseBehavior,
} from "@openai/agents";
import { asText, assistantMessage, toolMessage } from "./messages.js";
import { Judge, type Options, Run } from "./progress.js";
import { ending, nudging } from "./verdict.js";

/** Maximum number of sentences that wait for a model call. */
const MAX_NUDGES = 256;

type AnyAgent = Agent<any, any>;

/**
 * Watches the runs of agents.
 *
 * @example
 * const satiety = new Satiety();
 * const agent = satiety.watch(new Agent({ name: "worker", model, tools }));
 * const runner = new Runner({ callModelInputFilter: satiety.inputFilter });
 * console.log((await runner.run(agent, "When is the release?")).finalOutput);
 */
export class Satiety {
  readonly #judge: Judge;
  readonly #runs = new WeakMap<RunContext<any>, Run>();
  /** Arguments of calls whose results have not been judged. */
  readonly #calls = new WeakMap<RunContext<any>, Map<string, unknown>>();
  /** Sentences by the call that they are about, because the filter does not know the run. */
  readonly #nudges = new Map<string, string>();
  readonly #watched = new WeakSet<AnyAgent>();

  constructor(options: Options = {}) {
    this.#judge = new Judge(options);
  }

  /**
   * Ends runs of an agent that repeats itself: after STOP or ESCALATE, the final output is the reason. Changes the
   * agent's `toolUseBehavior`, and asks the one that it has first.
   */
  watch<T extends AnyAgent>(agent: T): T {
    if (this.#watched.has(agent)) return agent;
    this.#watched.add(agent);
    const own: ToolUseBehavior = agent.toolUseBehavior;
    agent.on("agent_tool_start", (context, _tool, { toolCall }) => {
      if (toolCall.type !== "function_call") return;
      const calls = this.#calls.get(context) ?? new Map<string, unknown>();
      this.#calls.set(context, calls.set(toolCall.callId, toolCall.arguments));
    });
    agent.toolUseBehavior = async (context, results) => {
      const reason = await this.#observe(context, results);
      const decision = await decide(own, context, results);
      if (reason === undefined || decision.isFinalOutput || decision.isInterrupted) return decision;
      return { isFinalOutput: true, isInterrupted: undefined, finalOutput: reason };
    };
    return agent;
  }

  /** Adds the sentence of a NUDGE to the input of the next model call. */
  readonly inputFilter: CallModelInputFilter = ({ modelData }) => {
    const last = modelData.input.findLast((item) => item.type === "function_call_result");
    const nudge = last === undefined ? undefined : this.#nudges.get(last.callId);
    if (last === undefined || nudge === undefined) return modelData;
    this.#nudges.delete(last.callId);
    return { ...modelData, input: [...modelData.input, { role: "user", content: nudge }] };
  };

  /** Judges a step; the text that ends the run, if it should end. */
  async #observe(context: RunContext<any>, results: readonly FunctionToolResult[]): Promise<string | undefined> {
    const calls = this.#calls.get(context);
    const outputs = results.flatMap((result) =>
      result.type === "function_output" && "callId" in result.runItem.rawItem
        ? [{ id: result.runItem.rawItem.callId, tool: result.tool.name, output: result.output }]
        : [],
    );
    const messages = [
      assistantMessage("", outputs.map(({ id, tool }) => ({ id, tool, arguments: calls?.get(id) }))),
      ...outputs.map(({ id, output }) => toolMessage(id, output)),
    ];
    for (const { id } of outputs) calls?.delete(id);
    let run = this.#runs.get(context);
    if (run === undefined) {
      run = new Run(this.#judge);
      this.#runs.set(context, run);
    }
    const verdict = await run.observe(messages);
    if (verdict?.stops) return ending(verdict);
    const last = outputs.at(-1);
    if (verdict && last) this.#nudges.set(last.id, nudging(verdict));
    // Without the filter, sentences would pile up.
    const [oldest] = this.#nudges.keys();
    if (this.#nudges.size > MAX_NUDGES && oldest !== undefined) this.#nudges.delete(oldest);
    return undefined;
  }
}

const GO_ON: ToolsToFinalOutputResult = { isFinalOutput: false, isInterrupted: undefined };

/** Decision of the behavior that an agent had, as the SDK would make it. */
async function decide(
  own: ToolUseBehavior,
  context: RunContext,
  results: FunctionToolResult[],
): Promise<ToolsToFinalOutputResult> {
  if (typeof own === "function") return own(context, results);
  if (own === "run_llm_again") return GO_ON;
  const final =
    own === "stop_on_first_tool" ? results[0] : results.find(({ tool }) => own.stopAtToolNames.includes(tool.name));
  if (final?.type !== "function_output") return GO_ON;
  return { isFinalOutput: true, isInterrupted: undefined, finalOutput: asText(final.output) };
}
