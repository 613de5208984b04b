import assert from "node:assert/strict";
import { test } from "node:test";
import { Agent } from "@mastra/core/agent";
import type { MastraModelConfig } from "@mastra/core/llm";
import { Mastra } from "@mastra/core/mastra";
import { createTool } from "@mastra/core/tools";
import { SatietyProcessor } from "@satiety/agents/mastra";
import { simulateStreamingMiddleware, wrapLanguageModel } from "ai";
import { z } from "zod";
import { scriptedModel } from "./ai-model.ts";
import { NOTE, REQUEST, type Script, stuck, testAdapter, testGuide, type ToolName, Tools } from "./scripted.ts";

function streamingModel(model: ReturnType<typeof scriptedModel>): MastraModelConfig {
  // The types of this version are those of an older release of the AI SDK.
  return wrapLanguageModel({ model, middleware: simulateStreamingMiddleware() }) as MastraModelConfig;
}

function toolSet(tools: Tools, fail = false) {
  const define = (name: ToolName) =>
    createTool({
      id: name,
      description: name,
      inputSchema: z.record(z.string(), z.unknown()),
      async execute() {
        const result = tools.run(name);
        if (fail) throw new Error("connection refused");
        return result;
      },
    });
  return { search: define("search"), job_status: define("job_status"), read_file: define("read_file") };
}

function workerWith(script: Script, tools: Tools, processor: SatietyProcessor, fail = false) {
  const model = scriptedModel(script);
  const worker = new Agent({
    id: "worker",
    name: "worker",
    instructions: "Answer the question.",
    model: streamingModel(model),
    tools: toolSet(tools, fail),
    inputProcessors: [processor],
  });
  const agent = new Mastra({ agents: { worker }, logger: false }).getAgent("worker");
  const notes = () => model.doGenerateCalls.filter((call) => JSON.stringify(call.prompt).includes(NOTE)).length;
  return { agent, notes };
}

testAdapter("mastra", async (script, tools, options) => {
  const { agent, notes } = workerWith(script, tools, new SatietyProcessor(options));
  const result = await agent.generate(REQUEST, { maxSteps: 50 });
  return { output: result.tripwire?.reason ?? result.text, notes: notes() };
});

testAdapter("mastra, streaming", async (script, tools, options) => {
  const { agent, notes } = workerWith(script, tools, new SatietyProcessor(options));
  const result = await agent.stream(REQUEST, { maxSteps: 50 });
  await result.consumeStream();
  return { output: result.tripwire?.reason ?? (await result.text), notes: notes() };
});

testGuide("Mastra", streamingModel(scriptedModel(stuck)), toolSet);

test("mastra: the result has the signal, and a processor watches many runs", async () => {
  const processor = new SatietyProcessor({ timeout: 60_000 });
  for (let round = 0; round < 2; round += 1) {
    const tools = new Tools();
    const { agent } = workerWith(stuck, tools, processor);
    const { tripwire } = await agent.generate(REQUEST, { maxSteps: 50 });
    assert.deepEqual([tripwire?.metadata, tools.calls], [{ signal: "STOP" }, 4]);
  }
});

test("mastra: a tool that fails with the same error ends the run", async () => {
  const tools = new Tools();
  const { agent } = workerWith(stuck, tools, new SatietyProcessor({ timeout: 60_000 }), true);
  const { tripwire } = await agent.generate(REQUEST, { maxSteps: 50 });
  assert.match(tripwire?.reason ?? "", /by Satiety/);
  assert.ok(tools.calls <= 4);
});
