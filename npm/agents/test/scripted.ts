/** Agents as scripts: what a model answers in each turn, and the tools that it calls. */

import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { mock, test } from "node:test";
import type { Options, SatietyError } from "@satiety/agents";

/** Turns after which an agent that nothing stops gives up. */
const TURNS = 20;
/** Calls of an agent that reaches its goal. */
const WORK = 8;

export const DONE = "All of it is done.";
export const GAVE_UP = "Nothing stopped this agent.";
export const REASON = "by Satiety after step";
export const NOTE = "Note from Satiety";
export const REQUEST = "When is the release?";

/** A call with its arguments, or the final answer. */
export type Action = { readonly tool: ToolName; readonly input: Record<string, unknown> } | string;
/** What a model answers in a turn, from 1. */
export type Script = (turn: number) => Action;

/** One call again and again. */
export const stuck: Script = (turn) => (turn <= TURNS ? { tool: "search", input: { query: "release date" } } : GAVE_UP);

const WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma tau upsilon";

/** Other arguments, the same result. */
export const stagnant: Script = (turn) =>
  turn <= TURNS ? { tool: "search", input: { query: `${WORDS.split(" ")[turn - 1]} release` } } : GAVE_UP;

/** One call again and again, with other results. */
export const polling: Script = (turn) => (turn <= WORK ? { tool: "job_status", input: { job: 7 } } : DONE);

/** Other arguments, other results. */
export const productive: Script = (turn) =>
  turn <= WORK ? { tool: "read_file", input: { path: `src/part_${turn}.py` } } : DONE;

/** Agents that are stopped, with the number of calls they may make. */
export const STOPPED = { stuck: [stuck, 4], stagnant: [stagnant, 5] } as const;
/** Agents that reach their end. */
export const FINISHED = { polling, productive } as const;

export type ToolName = "search" | "job_status" | "read_file";

/** Tools that count how often they are called. */
export class Tools {
  calls = 0;

  run(tool: ToolName): string {
    this.calls += 1;
    switch (tool) {
      case "search":
        return "No documents match this query.";
      case "job_status":
        return `${this.calls} of ${WORK} parts are ready.`;
      case "read_file":
        return `def part_${this.calls}(): return ${this.calls}`;
    }
  }
}

/** How a run of a scripted agent ended. */
export interface Outcome {
  /** Text that the user of the framework sees. */
  readonly output: string;
  /** Sentences of Satiety in the requests to the model; a sentence that stays in the context counts once. */
  readonly notes: number;
}

/** Runs an agent of a framework with a scripted model. */
export type RunAgent = (script: Script, tools: Tools, options: Options) => Promise<Outcome>;

/** Runs an agent, and checks that Satiety itself did not fail. */
export async function runChecked(run: RunAgent, script: Script, tools: Tools): Promise<Outcome> {
  const errors: SatietyError[] = [];
  // Under load, the executable may take a while to start.
  const outcome = await run(script, tools, { timeout: 60_000, onError: (error) => errors.push(error) });
  assert.deepEqual(errors, []);
  return outcome;
}

/** Tests that every adapter passes. */
export function testAdapter(name: string, run: RunAgent): void {
  for (const [script, [play, mostCalls]] of Object.entries(STOPPED)) {
    test(`${name}: a ${script} agent is nudged once and ended`, async () => {
      const tools = new Tools();
      const { output, notes } = await runChecked(run, play, tools);
      assert.ok(tools.calls <= mostCalls, `${tools.calls} calls`);
      assert.match(output, new RegExp(`^Stopped ${REASON} \\d`));
      assert.equal(notes, 1);
    });
  }
  for (const [script, play] of Object.entries(FINISHED)) {
    test(`${name}: a ${script} agent reaches its end`, async () => {
      const tools = new Tools();
      const { output, notes } = await runChecked(run, play, tools);
      assert.deepEqual([output, notes, tools.calls], [DONE, 0, WORK]);
    });
  }
  test(`${name}: runs at the same time do not disturb one another`, async () => {
    const outcomes = await Promise.all([1, 2, 3, 4].map(() => runChecked(run, productive, new Tools())));
    assert.deepEqual(outcomes, Array(4).fill({ output: DONE, notes: 0 }));
  });
  test(`${name}: an agent goes on when Satiety cannot be reached`, async () => {
    for (const broken of [{ command: "/nonexistent/satiety" }, { url: "http://127.0.0.1:9" }]) {
      const errors: SatietyError[] = [];
      const tools = new Tools();
      const { output, notes } = await run(stuck, tools, { ...broken, onError: (error) => errors.push(error) });
      assert.deepEqual([output, notes, tools.calls, errors.length], [GAVE_UP, 0, TURNS, 1]);
      assert.match(errors[0]?.message ?? "", /^cannot (start|reach) /);
    }
  });
}

/** Runs the example of a section of the guide with a model and tools of a test, and returns what it prints. */
export async function runGuide(section: string, model?: unknown, tools?: unknown): Promise<string> {
  const guide = readFileSync(join(import.meta.dirname, "../../../docs/guides/typescript.md"), "utf8");
  const example = guide.split(`\n## ${section}\n`)[1]?.split("```ts\n")[1]?.split("```")[0] ?? assert.fail(section);
  const isImport = (line: string) => line.startsWith("import ");
  const lines = example.split("\n");
  // In the package, so that its name and those of the frameworks are resolved.
  const path = join(import.meta.dirname, `../dist/guide-${section.replaceAll(" ", "-")}.mjs`);
  writeFileSync(
    path,
    [
      ...lines.filter(isImport),
      "export default async function (model, tools, console) {",
      ...lines.filter((line) => !isImport(line)),
      "}",
    ].join("\n"),
  );
  try {
    const { default: run } = (await import(path)) as { default(...parameters: unknown[]): Promise<void> };
    const log = mock.fn();
    await run(model, tools, { log });
    return log.mock.calls.map((call) => call.arguments.join(" ")).join("\n");
  } finally {
    rmSync(path);
  }
}

/** Tests the example of a section of the guide with an agent that is stuck. */
export function testGuide(section: string, model: unknown, makeTools: (tools: Tools) => unknown): void {
  test(`the example of the guide ends a loop: ${section}`, async () => {
    const tools = new Tools();
    assert.match(await runGuide(section, model, makeTools(tools)), new RegExp(`^Stopped ${REASON} 4\\. `));
    assert.ok(tools.calls <= 4);
  });
}
