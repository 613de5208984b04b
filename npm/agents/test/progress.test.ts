import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { promisify } from "node:util";
import {
  ExecutableTransport,
  Judge,
  type Options,
  Progress,
  type SatietyError,
  ServerTransport,
  type Transport,
  type Verdict,
} from "@satiety/agents";

import { generate } from "../../generate-types.mjs";
import { runGuide } from "./scripted.ts";

const run = promisify(execFile);
const root = mkdtempSync(join(tmpdir(), "satiety-test-"));
const cleanups: (() => unknown)[] = [() => rmSync(root, { recursive: true, force: true })];
after(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

function call(number: number, query: string, content: string): object[] {
  const toolCall = { id: `call_${number}`, type: "function", function: { name: "search", arguments: `{"query": "${query}"}` } };
  return [
    { role: "assistant", content: "", tool_calls: [toolCall] },
    { role: "tool", tool_call_id: `call_${number}`, content },
  ];
}

async function observeLoop(progress: Progress): Promise<Verdict[]> {
  const verdicts: Verdict[] = [];
  for (let number = 1; number <= 4; number += 1) {
    verdicts.push(await progress.observe(call(number, "release date", "No results.")));
  }
  return verdicts;
}

/** Options whose failures are collected. */
function collecting(options: Options): Options & { errors: SatietyError[] } {
  const errors: SatietyError[] = [];
  return { timeout: 60_000, ...options, errors, onError: (error) => errors.push(error) };
}

/** Starts a server with a store of its own; returns its address. */
async function startServer(): Promise<string> {
  const command = process.env["SATIETY_COMMAND"] ?? "satiety";
  const child = spawn(command, ["serve", "--listen", "127.0.0.1:0", "--db", `sqlite:${root}/server.db`]);
  cleanups.push(async () => {
    child.kill();
    await once(child, "exit");
  });
  for await (const line of createInterface({ input: child.stdout })) {
    const address = /http:\/\/[\d.:]+/.exec(line)?.[0];
    if (address !== undefined) return address;
  }
  throw new Error("the server did not start");
}

for (const name of ["executable", "server"] as const) {
  test(`${name}: a loop is nudged and stopped`, async () => {
    const options = collecting(name === "server" ? { url: await startServer() } : {});
    const progress = new Progress(options);
    assert.deepEqual(progress.verdict.reasons, ["No step is complete yet."]);
    const verdicts = await observeLoop(progress);
    assert.deepEqual(options.errors, []);
    assert.deepEqual(verdicts.map((verdict) => verdict.signal), ["CONTINUE", "CONTINUE", "NUDGE", "STOP"]);
    assert.deepEqual(verdicts.map((verdict) => verdict.step), [1, 2, 3, 4]);
    assert.deepEqual(verdicts.map((verdict) => verdict.stops), [false, false, false, true]);
    assert.match(verdicts[2]?.nudge ?? "", /^You ran `search/);
    assert.match(verdicts[3]?.reasons[0] ?? "", /^Nothing new: /);
    assert.equal(typeof progress.verdict.confidence, name === "server" ? "number" : "undefined");
    assert.equal(await progress.observe([]), progress.verdict);
  });
}

test("the example of the guide ends a loop", async () => {
  const [nudge, reason, ...more] = (await runGuide("Your own loop")).split("\n");
  assert.match(nudge ?? "", /^You ran `pytest tests\/x.py` about 2 times with the same error/);
  assert.match(reason ?? "", /^(Stuck|Nothing new): /);
  assert.deepEqual(more, []);
});

test("messages are judged in the order of the calls", async () => {
  const options = collecting({});
  const progress = new Progress(options);
  const verdicts = await Promise.all([1, 2, 3, 4].map((number) => progress.observe(call(number, "date", "None."))));
  assert.deepEqual(verdicts.map((verdict) => verdict.step), [1, 2, 3, 4]);
  assert.deepEqual(options.errors, []);
});

test("runs that share a judge share one process, which leaves nothing behind", async () => {
  const directories = () => readdirSync(tmpdir()).filter((name) => name.startsWith(`satiety-agents-${process.pid}-`));
  const before = directories();
  const transport = new ExecutableTransport();
  const judge = new Judge(collecting({ transport }));
  const runs = [1, 2, 3].map(() => new Progress({ judge }));
  for (const progress of runs) assert.equal((await observeLoop(progress)).at(-1)?.signal, "STOP");
  assert.equal(directories().length, before.length + 1);
  await judge.close();
  assert.deepEqual(directories(), before);
});

test("a store of the user keeps the runs", async () => {
  const store = `sqlite:${root}/mine.db`;
  const progress = new Progress({ ...collecting({ store }), run: "mine" });
  await observeLoop(progress);
  await progress.close();
  const resumed = new Progress({ ...collecting({ store }), run: "mine" });
  assert.equal((await resumed.observe(call(5, "release date", "No results."))).step, 5);
  await resumed.close();
});

test("a program ends by itself, without its temporary directory", async () => {
  const script = join(import.meta.dirname, "../dist/test-program.mjs");
  cleanups.push(() => rmSync(script));
  writeFileSync(
    script,
    `import { readdirSync } from "node:fs";
     import { tmpdir } from "node:os";
     import { Progress } from "@satiety/agents";
     const verdict = await new Progress({ timeout: 60_000 }).observe({ role: "assistant", content: "Hello." });
     const mine = readdirSync(tmpdir()).filter((name) => name.startsWith("satiety-agents-" + process.pid));
     console.log(JSON.stringify([verdict.signal, mine]));`,
  );
  const { stdout, stderr } = await run(process.execPath, [script], { timeout: 120_000 });
  const [signal, directories] = JSON.parse(stdout) as [string, string[]];
  assert.deepEqual([signal, directories.length, stderr], ["CONTINUE", 1, ""]);
  assert.ok(!existsSync(join(tmpdir(), directories[0] ?? "")));
});

test("without a handler, the first failure is a warning of the process", async () => {
  const warning = once(process, "warning") as Promise<[Error]>;
  const progress = new Progress({ command: "/nonexistent/satiety" });
  assert.equal((await observeLoop(progress)).at(-1)?.signal, "CONTINUE");
  const [{ name, message }] = await warning;
  assert.equal(name, "SatietyWarning");
  assert.match(message, /goes on without Satiety: cannot start `\/nonexistent\/satiety`.*hint: install/);
});

test("messages that are rejected are reported, and later ones are judged", async () => {
  const options = collecting({});
  const progress = new Progress(options);
  assert.equal((await progress.observe([5 as unknown as object])).signal, "CONTINUE");
  assert.match(options.errors[0]?.message ?? "", /expected a map/);
  assert.equal((await observeLoop(progress)).at(-1)?.signal, "STOP");
  assert.equal(options.errors.length, 1);
});

test("an executable that hangs, ends or talks nonsense does not stop the agent", async () => {
  const programs = {
    hang: "setInterval(() => {}, 1000)",
    end: "console.error('error: no more space'); process.exit(4)",
    nonsense: "process.stdin.on('data', () => console.log('hello\\n{}\\n[]\\nnull\\n{\"id\":1}'))",
  };
  for (const [name, program] of Object.entries(programs)) {
    const command = join(root, name);
    writeFileSync(command, `#!${process.execPath}\n${program}`, { mode: 0o755 });
    const options = collecting({ command, timeout: 2_000 });
    const started = Date.now();
    const verdicts = await observeLoop(new Progress(options));
    assert.ok(Date.now() - started < 10_000, `${name}: only the first call waits`);
    assert.deepEqual(verdicts.map((verdict) => verdict.signal), Array(4).fill("CONTINUE"), name);
    assert.equal(options.errors.length, 1, name);
    if (name === "end") assert.match(options.errors[0]?.message ?? "", /no more space/);
  }
});

test("a process that is killed is started again", async () => {
  const transport = new ExecutableTransport({ store: `sqlite:${root}/killed.db` });
  const append = (number: number) => transport.append("run", call(number, "date", "None."), new AbortController().signal);
  await append(1);
  const aborted = new AbortController();
  const pending = transport.append("run", call(2, "date", "None."), aborted.signal);
  aborted.abort();
  await assert.rejects(pending, /did not answer within the time limit/);
  assert.ok((await append(3)).steps >= 2, "the store keeps the steps");
  await transport.close();
});

test("a server that refuses, hangs or is not Satiety does not stop the agent", async () => {
  const server = createServer((request, response) => {
    if (request.url?.startsWith("/hang")) return;
    response.writeHead(request.url?.startsWith("/html") ? 200 : 401, { "content-type": "application/json" });
    response.end(request.url?.startsWith("/html") ? "<html>" : JSON.stringify({ detail: "a token is required", hint: "pass one" }));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => server.close(), () => server.closeAllConnections());
  const { port } = server.address() as { port: number };
  for (const [path, message] of [["hang", /cannot reach/], ["html", /cannot reach/], ["", /a token is required/]] as const) {
    const options = collecting({ url: `http://127.0.0.1:${port}/${path}`, timeout: 1_000 });
    const verdicts = await observeLoop(new Progress(options));
    assert.deepEqual(verdicts.map((verdict) => verdict.signal), Array(4).fill("CONTINUE"));
    assert.equal(options.errors.length, 1);
    assert.match(options.errors[0]?.message ?? "", message);
  }
});

test("long histories are sent in parts, with the token", async () => {
  const sizes: number[] = [];
  const transport: Transport = {
    async append(_run, messages) {
      sizes.push(messages.length);
      return { signal: "CONTINUE", reason: "New.", expected_waste: 0, steps: sizes.length };
    },
    async close() {},
  };
  const message = { role: "user", content: "Hello." };
  const verdict = await new Progress({ transport }).observe(Array(2500).fill(message));
  assert.deepEqual([sizes, verdict.step], [[1000, 1000, 500], 3]);

  let authorization: string | undefined;
  const server = createServer((request, response) => {
    authorization = request.headers.authorization;
    response.writeHead(201).end(JSON.stringify({ signal: "CONTINUE", reason: "New.", expected_waste: 0, steps: 1 }));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanups.push(() => server.close());
  const { port } = server.address() as { port: number };
  const remote = new ServerTransport({ url: `http://127.0.0.1:${port}/`, token: "secret" });
  await remote.append("run", [message], new AbortController().signal);
  assert.equal(authorization, "Bearer secret");
});

test("the types are those of the OpenAPI document", () => {
  const read = (path: string) => readFileSync(join(import.meta.dirname, path), "utf8");
  const expected = generate(JSON.parse(read("../../../docs/reference/openapi.json")));
  assert.ok(read("../src/openapi.ts") === expected, "run `node npm/generate-types.mjs`");
});
