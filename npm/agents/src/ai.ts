/**
 * Vercel AI SDK: a stop condition and step preparation that end or nudge an agent that makes no progress.
 *
 * Needs `ai`.
 */

import type { PrepareStepFunction, StepResult, StopCondition } from "ai";
import { assistantMessage, type Message, toolMessage } from "./messages.js";
import { Judge, type Options, Run } from "./progress.js";
import { ending, nudging, type Verdict } from "./verdict.js";

/** Step of a run with any tools, as in the stop conditions of the SDK itself. */
type Step = StepResult<any, any>;

interface WatchedRun {
  readonly run: Run;
  observedSteps: number;
  /** Judgment of the latest step. Several conditions and `prepareStep` may ask for it. */
  judgment: Promise<Verdict | undefined>;
}

/**
 * Watches calls of `generateText` and `streamText`, and agents.
 *
 * @example
 * const satiety = new Satiety();
 * const result = await generateText({
 *   model, tools, prompt,
 *   stopWhen: [satiety.stopWhen, isStepCount(100)],
 *   prepareStep: satiety.prepareStep,
 * });
 * console.log((await satiety.ending(result.steps)) ?? result.text);
 */
export class Satiety {
  readonly #judge: Judge;
  // The first step identifies a run: the SDK keeps the objects, but passes copies of the list.
  readonly #runs = new WeakMap<Step, WatchedRun>();

  constructor(options: Options = {}) {
    this.#judge = new Judge(options);
  }

  /** Stop condition: true after STOP and ESCALATE. */
  readonly stopWhen: StopCondition<any, any> = async ({ steps }) => (await this.#judgeSteps(steps))?.stops ?? false;

  /** Adds the sentence of a NUDGE to the messages of the next step, as a message of the user. */
  readonly prepareStep: PrepareStepFunction<any, any> = async ({ steps, messages }) => {
    const verdict = await this.#judgeSteps(steps);
    if (verdict?.signal !== "NUDGE") return undefined;
    return { messages: [...messages, { role: "user", content: nudging(verdict) }] };
  };

  /** The reason why Satiety ended a run; `undefined` if it did not. */
  async ending(steps: readonly Step[]): Promise<string | undefined> {
    const verdict = await this.#judgeSteps(steps);
    return verdict?.stops ? ending(verdict) : undefined;
  }

  #judgeSteps(steps: readonly Step[]): Promise<Verdict | undefined> {
    const [first] = steps;
    if (first === undefined) return Promise.resolve(undefined);
    let watched = this.#runs.get(first);
    if (watched === undefined) {
      watched = { run: new Run(this.#judge), observedSteps: 0, judgment: Promise.resolve(undefined) };
      this.#runs.set(first, watched);
    }
    if (steps.length > watched.observedSteps) {
      const messages = steps.slice(watched.observedSteps).flatMap(stepMessages);
      watched.observedSteps = steps.length;
      watched.judgment = watched.run.observe(messages);
    }
    return watched.judgment;
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
