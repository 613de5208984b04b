// Runs our hook with the hook runner of Gemini CLI: `node hooks_gemini.mjs BINARY DIRECTORY`.
import assert from "node:assert/strict";
import { HookRunner } from "@google/gemini-cli-core/dist/src/hooks/hookRunner.js";
import { createHookOutput, HookEventName, HookType } from "@google/gemini-cli-core/dist/src/hooks/types.js";

const [binary, cwd] = process.argv.slice(2);
const runner = new HookRunner({
  isTrustedFolder: () => true,
  sanitizationConfig: { allowedEnvironmentVariables: [], blockedEnvironmentVariables: [], enableEnvironmentVariableRedaction: false },
  storage: { getPlansDir: () => cwd },
});

async function fire(eventName, fields, name = eventName) {
  const input = {
    session_id: "gemini-1", transcript_path: `${cwd}/transcript.json`, cwd, hook_event_name: eventName,
    timestamp: new Date().toISOString(), ...fields,
  };
  const hook = { type: HookType.Command, command: `'${binary}' hook ${name} --for gemini`, timeout: 20000 };
  const result = await runner.executeHook(hook, eventName, input);
  assert.equal(result.success, true, JSON.stringify(result));
  assert.equal(result.stderr, "");
  assert.notEqual(result.outputFormat, "text", result.stdout);
  return createHookOutput(eventName, result.output ?? {});
}

const call = {
  tool_name: "run_shell_command", tool_input: { command: "pytest tests/x.py" },
  tool_response: { llmContent: "E   ImportError: no module named x\nExit Code: 1", returnDisplay: "" },
};
const outputs = [];
for (let step = 0; step < 5; step += 1) outputs.push(await fire(HookEventName.AfterTool, call));
assert.match(outputs[2].getAdditionalContext(), /pytest tests\/x.py/);
assert.equal(outputs[2].shouldStopExecution(), false);
assert.equal(outputs[3].shouldStopExecution(), true);
assert.match(outputs[3].getEffectiveReason(), /Stuck/);

await fire(HookEventName.BeforeAgent, { prompt: "go on" });
const todos = { todos: [{ description: "fix the import", status: "pending" }] };
await fire(HookEventName.AfterTool, { tool_name: "write_todos", tool_input: todos, tool_response: { llmContent: "ok" } });
const ended = { prompt: "go on", prompt_response: "I am done.", stop_hook_active: false };
const stopped = await fire(HookEventName.AfterAgent, ended);
assert.equal(stopped.isBlockingDecision(), true);
assert.match(stopped.getEffectiveReason(), /fix the import/);
const again = await fire(HookEventName.AfterAgent, { ...ended, stop_hook_active: true });
assert.equal(again.isBlockingDecision(), false);

await fire(HookEventName.PreCompress, { trigger: "auto" });
const restored = await fire(HookEventName.BeforeAgent, { prompt: "and now?" });
assert.match(restored.getAdditionalContext(), /fix the import/);
await fire(HookEventName.SessionStart, { source: "startup" });
await fire(HookEventName.SessionEnd, { reason: "exit" });
// Events that we do not know, and payloads that are not what they say.
await fire(HookEventName.BeforeModel, { llm_request: { messages: [] } });
await fire(HookEventName.AfterTool, { tool_name: null, tool_input: [], tool_response: 1 });
console.log("ok");
