// Drives the plug-in for opencode with our program: `node hooks_opencode.mjs PLUGIN BINARY DIRECTORY`.
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const [plugin, program, directory] = process.argv.slice(2);
const { SatietyPlugin } = await import(pathToFileURL(plugin).href);
const aborted = [];
const client = { session: { abort: async ({ path }) => { aborted.push(path.id); } } };

const hooks = await SatietyPlugin({ client, directory }, { program });
await hooks["chat.message"]({ sessionID: "s1" }, { parts: [{ type: "text", text: "fix it" }] });
const outputs = [];
for (let step = 0; step < 5; step += 1) {
  const output = { title: "", output: "E   ImportError: no module named x", metadata: {} };
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s1", callID: `c${step}`, args: { command: "pytest" } }, output);
  outputs.push(output.output);
}
assert.equal(outputs[0], "E   ImportError: no module named x");
assert.match(outputs[2], /\[satiety\] You ran `pytest`/);
assert.deepEqual(aborted, ["s1"]);
const compacting = { context: [] };
await hooks["experimental.session.compacting"]({ sessionID: "s1" }, compacting);
assert.match(compacting.context[0], /pytest/);

// Without the program, nothing happens.
const without = await SatietyPlugin({ client, directory }, { program: `${directory}/no-such-program` });
const output = { title: "", output: "a", metadata: {} };
await without["tool.execute.after"]({ tool: "bash", sessionID: "s2", callID: "c", args: {} }, output);
assert.equal(output.output, "a");
console.log("ok");
