// Builds the tarballs, installs them as a user does, and runs what was installed.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const npm = join(import.meta.dirname, "..");
const root = mkdtempSync(join(tmpdir(), "satiety-packages-"));
const project = join(root, "project");
const platform = `${process.platform}-${process.arch}`;
after(() => rmSync(root, { recursive: true, force: true }));

// Stands for the executable, whose debug build takes long to pack, and calls it.
const STANDIN = `#!/bin/sh
case "$1" in
  arguments) shift; for argument in "$@"; do echo "<$argument>"; done; cat; exit 42;;
  wait) trap 'echo terminated; exit 3' TERM; echo ready; for _ in $(seq 300); do sleep 0.1; done;;
  die) kill -KILL $$;;
  *) exec "$SATIETY_TEST_EXECUTABLE" "$@";;
esac
`;

// The packages must be found without the environment of the other tests.
const { SATIETY_COMMAND: executable, ...environment } = process.env;
const env = { ...environment, SATIETY_TEST_EXECUTABLE: executable };

async function build(name) {
  const out = join(root, name);
  const binary = join(root, "standin");
  writeFileSync(binary, STANDIN);
  const { stdout } = await run(process.execPath, [join(npm, "build.mjs"), "--binary", binary, "--out", out]);
  return { out, files: stdout.trim().split("\n") };
}

const digests = (out) =>
  readdirSync(out).map((name) => [name, createHash("sha256").update(readFileSync(join(out, name))).digest("hex")]);

const launcher = join(project, "node_modules/.bin/satiety");

/** Starts the launcher with an empty input; returns its output and how it ended. */
async function launch(...parameters) {
  const child = spawn(launcher, parameters, { env });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (data) => (stdout += data));
  child.stderr.on("data", (data) => (stderr += data));
  child.stdin.end("input");
  const [code, signal] = await once(child, "close");
  return { code, signal, stdout, stderr };
}

let built;
before(async () => {
  built = await build("first");
  await run("mkdir", [project]);
  writeFileSync(join(project, "package.json"), '{"private": true, "type": "module"}');
  const options = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  await run("npm", ["install", ...options, ...built.files], { cwd: project, env });
});

test("the same input gives the same tarballs, with the version of the workspace", async () => {
  const manifest = readFileSync(join(npm, "../Cargo.toml"), "utf8");
  const version = /\[workspace.package\]\nversion = "(.*)"/.exec(manifest)?.[1];
  const names = ["satiety", `satiety-${platform}`, "satiety-agents"].map((name) => `${name}-${version}.tgz`);
  assert.deepEqual(readdirSync(built.out), names.sort());
  assert.deepEqual(digests((await build("second")).out), digests(built.out));
});

test("the library is packed as the compiler writes it", () => {
  const packed = join(project, "node_modules/@satiety/agents/dist");
  const compiled = join(npm, "agents/dist");
  assert.deepEqual(readdirSync(packed), readdirSync(compiled).filter((name) => /\.(js|d\.ts)$/.test(name)));
  for (const name of readdirSync(packed)) {
    assert.equal(readFileSync(join(packed, name), "utf8"), readFileSync(join(compiled, name), "utf8"), name);
  }
});

test("a missing argument is an error", async () => {
  await assert.rejects(run(process.execPath, [join(npm, "build.mjs"), "--out", root]), /error: usage: /);
});

test("the launcher passes arguments, streams and the exit code", async () => {
  const { code, stdout, stderr } = await launch("arguments", "one two", "", "--three=$HOME");
  assert.deepEqual([code, stdout, stderr], [42, "<one two>\n<>\n<--three=$HOME>\ninput", ""]);
});

test("the launcher passes signals in both directions", async () => {
  const child = spawn(launcher, ["wait"], { env });
  child.stdout.once("data", () => child.kill("SIGTERM"));
  assert.deepEqual(await once(child, "close"), [3, null]);
  const { code, signal } = await launch("die");
  assert.deepEqual([code, signal], [null, "SIGKILL"]);
});

test("npx runs the real executable", { skip: executable === undefined }, async () => {
  const { stdout } = await run("npx", ["--offline", "satiety", "demo", "progress"], { cwd: project, env });
  assert.match(stdout, /ESCALATE|STOP/);
});

test("the library finds the executable in the package", { skip: executable === undefined }, async () => {
  writeFileSync(
    join(project, "program.js"),
    `import { Progress } from "@satiety/agents";
     const call = { id: "1", type: "function", function: { name: "ls", arguments: "{}" } };
     const messages = [{ role: "assistant", tool_calls: [call] }, { role: "tool", tool_call_id: "1", content: "a" }];
     const verdict = await new Progress({ timeout: 60_000 }).observe(messages);
     console.log(verdict.signal, verdict.step);`,
  );
  const { stdout, stderr } = await run(process.execPath, ["program.js"], { cwd: project, env });
  assert.deepEqual([stdout, stderr], ["CONTINUE 1\n", ""]);
});

test("the launcher says which package is missing", async () => {
  rmSync(join(project, "node_modules/@satiety", platform), { recursive: true });
  const missing = await launch("--version");
  assert.equal(missing.code, 4);
  assert.match(missing.stderr, new RegExp(`^error: cannot find .*: the package @satiety/${platform} is not installed\nhint: `));
  const manifest = join(project, "node_modules/satiety/package.json");
  writeFileSync(manifest, readFileSync(manifest, "utf8").replaceAll(platform, "other-cpu"));
  const unsupported = await launch("--version");
  assert.equal(unsupported.code, 4);
  assert.match(unsupported.stderr, new RegExp(`^error: cannot find .* for ${platform} .available: @satiety/other-cpu.\nhint: `));
});
