/**
 * Mastra: an input processor that ends or nudges an agent that makes no progress.
 *
 * Needs `@mastra/core`.
 */

import type { ProcessInputStepArgs, ProcessLLMRequestArgs, ProcessLLMRequestResult, Processor } from "@mastra/core/processors";
import { assistantMessage, type Message, toolMessage } from "./messages.js";
import { Judge, type Options, Run } from "./progress.js";
import { ending, nudging } from "./verdict.js";

type Step = ProcessInputStepArgs["steps"][number];

interface WatchedRun {
  readonly run: Run;
  observedSteps: number;
  /** Sentence for the next model call. */
  nudge?: string | undefined;
}

/**
 * Judges an agent before each model call. NUDGE adds one sentence to the prompt of the call, without storing it in the
 * memory. STOP and ESCALATE end the run: `tripwire.reason` of its result is the reason, and
 * `tripwire.metadata.signal` the signal.
 *
 * @example
 * const agent = new Agent({ id, name, instructions, model, tools, inputProcessors: [new SatietyProcessor()] });
 */
export class SatietyProcessor implements Processor<"satiety"> {
  readonly id = "satiety";
  readonly #judge: Judge;
  // Mastra passes the same object to all calls for one request.
  readonly #runs = new WeakMap<object, WatchedRun>();

  constructor(options: Options = {}) {
    this.#judge = new Judge(options);
  }

  async processInputStep({ steps, state, abort }: ProcessInputStepArgs): Promise<undefined> {
    const watched = this.#watch(state);
    const newSteps = steps.slice(watched.observedSteps);
    watched.observedSteps = steps.length;
    watched.nudge = undefined;
    const verdict = await watched.run.observe(newSteps.flatMap(stepMessages));
    if (verdict?.stops) abort(ending(verdict), { metadata: { signal: verdict.signal } });
    if (verdict) watched.nudge = nudging(verdict);
  }

  processLLMRequest({ prompt, state }: ProcessLLMRequestArgs): ProcessLLMRequestResult {
    const { nudge } = this.#watch(state);
    if (nudge === undefined) return undefined;
    return { prompt: [...prompt, { role: "user", content: [{ type: "text", text: nudge }] }] };
  }

  #watch(state: object): WatchedRun {
    let watched = this.#runs.get(state);
    if (watched === undefined) {
      watched = { run: new Run(this.#judge), observedSteps: 0 };
      this.#runs.set(state, watched);
    }
    return watched;
  }
}

function stepMessages(step: Step): Message[] {
  const calls = step.toolCalls.map((call) => ({ id: call.toolCallId, tool: call.toolName, arguments: call.input }));
  const results = step.content.flatMap((part) => {
    if (part.type === "tool-result") return [toolMessage(part.toolCallId, part.output)];
    if (part.type === "tool-error") return [toolMessage(part.toolCallId, part.error, true)];
    return [];
  });
  return [assistantMessage(step.text, calls), ...results];
}
