import assert from "node:assert/strict";
import { test } from "node:test";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import type { ChatResult } from "@langchain/core/outputs";
import { satietyMiddleware } from "@satiety/agents/langchain";
import { AIMessage, type BaseMessage, createAgent, HumanMessage, tool } from "langchain";
import { z } from "zod";
import {
  DONE,
  NOTE,
  type Outcome,
  REASON,
  REQUEST,
  type Script,
  stuck,
  testAdapter,
  testGuide,
  type ToolName,
  Tools,
} from "./scripted.ts";

class ScriptedModel extends BaseChatModel {
  readonly requests: BaseMessage[][] = [];
  readonly script: Script;

  constructor(script: Script) {
    super({});
    this.script = script;
  }

  override _llmType(): string {
    return "scripted";
  }

  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    this.requests.push([...messages]);
    const turn = this.requests.length;
    const action = this.script(turn);
    const message =
      typeof action === "string"
        ? new AIMessage(action)
        : new AIMessage({ content: "", tool_calls: [{ name: action.tool, args: action.input, id: `call_${turn}` }] });
    return { generations: [{ text: message.text, message }] };
  }
}

function toolList(tools: Tools) {
  const define = (name: ToolName) =>
    tool(() => tools.run(name), { name, description: name, schema: z.record(z.string(), z.unknown()) });
  return [define("search"), define("job_status"), define("read_file")];
}

type Middleware = ReturnType<typeof satietyMiddleware>;

async function run(
  script: Script,
  tools: Tools,
  middleware: Middleware,
  messages: BaseMessage[] = [new HumanMessage(REQUEST)],
): Promise<Outcome & { messages: BaseMessage[] }> {
  const model = new ScriptedModel(script);
  const agent = createAgent({ model, tools: toolList(tools), middleware: [middleware] });
  const result = await agent.invoke({ messages }, { recursionLimit: 200 });
  return {
    output: result.messages.at(-1)?.text ?? "",
    notes: model.requests.at(-1)?.filter((message) => message.text.includes(NOTE)).length ?? 0,
    messages: result.messages,
  };
}

testAdapter("langchain", async (script, tools, options) => {
  const { output, notes } = await run(script, tools, satietyMiddleware(options));
  return { output, notes };
});

testGuide("LangChain", new ScriptedModel(stuck), toolList);

test("langchain: the last message has the signal", async () => {
  const { messages } = await run(stuck, new Tools(), satietyMiddleware({ timeout: 60_000 }));
  assert.equal(messages.at(-1)?.response_metadata["satiety"], "STOP");
});

test("langchain: one middleware watches many runs of the same request", async () => {
  const middleware = satietyMiddleware({ timeout: 60_000 });
  // LangGraph writes the id of a message into the object, so that these runs have the same one.
  const request = new HumanMessage(REQUEST);
  for (let round = 0; round < 3; round += 1) {
    const tools = new Tools();
    const { output } = await run(stuck, tools, middleware, [request]);
    assert.equal(tools.calls, 4);
    assert.match(output, new RegExp(REASON));
  }
});

test("langchain: a new request of the user is answered", async () => {
  const middleware = satietyMiddleware({ timeout: 60_000 });
  const { messages } = await run(stuck, new Tools(), middleware);
  const twice: Script = (turn) => (turn <= 2 ? { tool: "search", input: { query: "release date" } } : DONE);
  const tools = new Tools();
  const next = await run(twice, tools, middleware, [...messages, new HumanMessage("Then guess.")]);
  assert.deepEqual([next.output, tools.calls], [DONE, 2]);
});
