import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Agent,
  type Model,
  type ModelRequest,
  type ModelResponse,
  type protocol,
  Runner,
  setTracingDisabled,
  type StreamEvent,
  tool,
  type ToolUseBehavior,
  Usage,
} from "@openai/agents";
import { Satiety } from "@satiety/agents/openai";
import { z } from "zod";
import { NOTE, type Outcome, REQUEST, type Script, stuck, testAdapter, testGuide, type ToolName, Tools } from "./scripted.ts";

setTracingDisabled(true);

type OutputItem = protocol.AssistantMessageItem | protocol.FunctionCallItem;

class ScriptedModel implements Model {
  readonly requests: string[] = [];
  readonly script: Script;

  constructor(script: Script) {
    this.script = script;
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse & { output: OutputItem[] }> {
    this.requests.push(JSON.stringify(request.input));
    const turn = this.requests.length;
    const action = this.script(turn);
    const item: OutputItem =
      typeof action === "string"
        ? {
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: action }],
          }
        : {
            type: "function_call",
            callId: `call_${turn}`,
            name: action.tool,
            arguments: JSON.stringify(action.input),
            status: "completed",
          };
    return { usage: new Usage(), output: [item] };
  }

  async *getStreamedResponse(request: ModelRequest): AsyncIterable<StreamEvent> {
    const { output } = await this.getResponse(request);
    const usage = { inputTokens: 0, outputTokens: 0, totalTokens: 0 };
    yield { type: "response_done", response: { id: "response", usage, output } };
  }
}

function toolList(tools: Tools) {
  const define = (name: ToolName, parameters: z.ZodObject) =>
    tool({ name, description: name, parameters, execute: () => tools.run(name) });
  return [
    define("search", z.object({ query: z.string() })),
    define("job_status", z.object({ job: z.number() })),
    define("read_file", z.object({ path: z.string() })),
  ];
}

interface Setting {
  readonly stream?: boolean;
  readonly toolUseBehavior?: ToolUseBehavior;
}

async function run(script: Script, tools: Tools, satiety: Satiety, setting: Setting = {}): Promise<Outcome> {
  const model = new ScriptedModel(script);
  const { stream = false, ...behavior } = setting;
  const agent = satiety.watch(new Agent({ name: "worker", model, tools: toolList(tools), ...behavior }));
  const runner = new Runner({ callModelInputFilter: satiety.inputFilter });
  const notes = () => model.requests.filter((request) => request.includes(NOTE)).length;
  if (!stream) {
    const { finalOutput } = await runner.run(agent, REQUEST, { maxTurns: 50 });
    return { output: String(finalOutput), notes: notes() };
  }
  const streamed = await runner.run(agent, REQUEST, { maxTurns: 50, stream: true });
  await streamed.completed;
  return { output: String(streamed.finalOutput), notes: notes() };
}

testAdapter("openai", (script, tools, options) => run(script, tools, new Satiety(options)));
testAdapter("openai, streaming", (script, tools, options) =>
  run(script, tools, new Satiety(options), { stream: true }),
);

testGuide("OpenAI Agents SDK", new ScriptedModel(stuck), toolList);

test("openai: the behavior of the agent is kept", async () => {
  const satiety = new Satiety({ timeout: 60_000 });
  const behaviors: ToolUseBehavior[] = [
    "stop_on_first_tool",
    { stopAtToolNames: ["search"] },
    () => ({ isFinalOutput: true, isInterrupted: undefined, finalOutput: "No documents match this query." }),
  ];
  for (const toolUseBehavior of behaviors) {
    const tools = new Tools();
    const { output } = await run(stuck, tools, satiety, { toolUseBehavior });
    assert.deepEqual([output, tools.calls], ["No documents match this query.", 1]);
  }
});

test("openai: a sentence names the call, and an agent can be watched twice", async () => {
  const satiety = new Satiety({ timeout: 60_000 });
  const model = new ScriptedModel(stuck);
  const tools = new Tools();
  const agent = satiety.watch(satiety.watch(new Agent({ name: "worker", model, tools: toolList(tools) })));
  const runner = new Runner({ callModelInputFilter: satiety.inputFilter });
  for (let round = 1; round <= 2; round += 1) {
    await runner.run(agent, REQUEST);
    assert.equal(tools.calls, 4 * round);
  }
  assert.match(model.requests.find((request) => request.includes(NOTE)) ?? "", /You ran `search\(.{0,9}query.{0,9}release date/);
});
