import assert from "node:assert/strict";
import { test } from "node:test";
import { Satiety } from "@satiety/agents/ai";
import {
  generateText,
  isStepCount,
  jsonSchema,
  simulateStreamingMiddleware,
  streamText,
  tool,
  ToolLoopAgent,
  wrapLanguageModel,
} from "ai";
import type { MockLanguageModelV4 } from "ai/test";
import { scriptedModel } from "./ai-model.ts";
import {
  NOTE,
  type Outcome,
  REQUEST,
  type Script,
  STOPPED,
  stuck,
  testAdapter,
  testGuide,
  type ToolName,
  Tools,
} from "./scripted.ts";

function toolSet(tools: Tools) {
  const define = (name: ToolName) =>
    tool({
      inputSchema: jsonSchema<Record<string, unknown>>({ type: "object" }),
      execute: () => tools.run(name),
    });
  return { search: define("search"), job_status: define("job_status"), read_file: define("read_file") };
}

/** Sentences in the last request, since messages of `prepareStep` stay in the context. */
function notes(model: MockLanguageModelV4): number {
  return JSON.stringify(model.doGenerateCalls.at(-1)?.prompt).split(NOTE).length - 1;
}

async function run(script: Script, tools: Tools, satiety: Satiety): Promise<Outcome> {
  const model = scriptedModel(script);
  const result = await generateText({
    model,
    tools: toolSet(tools),
    prompt: REQUEST,
    stopWhen: [satiety.stopWhen, isStepCount(100)],
    prepareStep: satiety.prepareStep,
  });
  return { output: (await satiety.ending(result.steps)) ?? result.text, notes: notes(model) };
}

testAdapter("ai", (script, tools, options) => run(script, tools, new Satiety(options)));

testAdapter("ai, streaming", async (script, tools, options) => {
  const satiety = new Satiety(options);
  const model = scriptedModel(script);
  const result = streamText({
    model: wrapLanguageModel({ model, middleware: simulateStreamingMiddleware() }),
    tools: toolSet(tools),
    prompt: REQUEST,
    stopWhen: [isStepCount(100), satiety.stopWhen],
    prepareStep: satiety.prepareStep,
  });
  await result.consumeStream();
  return { output: (await satiety.ending(await result.steps)) ?? (await result.text), notes: notes(model) };
});

testGuide("Vercel AI SDK", scriptedModel(stuck), toolSet);

test("ai: one object watches many runs, and an agent", async () => {
  const satiety = new Satiety({ timeout: 60_000 });
  for (let round = 0; round < 3; round += 1) {
    const tools = new Tools();
    await run(stuck, tools, satiety);
    assert.equal(tools.calls, 4, "a new run begins without the history of the last one");
  }
  const tools = new Tools();
  const model = scriptedModel(stuck);
  const agent = new ToolLoopAgent({ model, tools: toolSet(tools), stopWhen: satiety.stopWhen });
  await agent.generate({ prompt: REQUEST });
  assert.equal(tools.calls, STOPPED.stuck[1]);
});

test("ai: a tool that fails with the same error ends the run", async () => {
  const satiety = new Satiety({ timeout: 60_000 });
  const search = tool({
    inputSchema: jsonSchema({ type: "object" }),
    execute(): string {
      throw new Error("connection refused");
    },
  });
  const result = await generateText({
    model: scriptedModel(stuck),
    tools: { search },
    prompt: REQUEST,
    stopWhen: satiety.stopWhen,
  });
  assert.ok(result.steps.length <= 4);
  assert.match((await satiety.ending(result.steps)) ?? "", /by Satiety/);
});
