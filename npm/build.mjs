// Builds the tarballs of the npm packages:
//
// node npm/build.mjs --binary [PLATFORM=]PATH... --out DIR [--version VERSION]
//
// Each binary becomes a package such as @satiety/linux-x64, on which the package `satiety` depends. PLATFORM is the
// name of Node.js for a platform and an architecture [default: this machine]. The version is that of the Cargo
// workspace. The same input gives the same bytes.

import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import ts from "typescript";

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(here);
const LICENSES = ["LICENSE-APACHE", "LICENSE-MIT"];

function main() {
  const { values } = parseArgs({
    options: {
      binary: { type: "string", multiple: true, default: [] },
      out: { type: "string" },
      version: { type: "string", default: workspaceVersion() },
    },
  });
  if (values.out === undefined || values.binary.length === 0) {
    throw new Error("usage: node npm/build.mjs --binary [PLATFORM=]PATH... --out DIR [--version VERSION]");
  }
  const { version } = values;
  const out = resolve(values.out);
  const binaries = new Map(values.binary.map(parseBinary));
  const stage = mkdtempSync(join(tmpdir(), "satiety-npm-"));
  try {
    const packages = [
      ...[...binaries].map(([platform, path]) => stagePlatform(stage, platform, path, version)),
      stagePackage(stage, "satiety", {
        version,
        optionalDependencies: Object.fromEntries([...binaries.keys()].map((platform) => [`@satiety/${platform}`, version])),
      }),
      compile(stagePackage(stage, "agents", { version, peerDependencies: { satiety: `^${version}` } })),
    ];
    mkdirSync(out, { recursive: true });
    for (const directory of packages) console.log(join(out, pack(directory, out)));
  } finally {
    rmSync(stage, { recursive: true });
  }
}

function workspaceVersion() {
  const manifest = readFileSync(join(root, "Cargo.toml"), "utf8");
  const version = /^\[workspace\.package\]$[^[]*^version = "(.+)"$/m.exec(manifest)?.[1];
  if (version === undefined) throw new Error("cannot find the version in Cargo.toml");
  return version;
}

function parseBinary(argument) {
  const [, platform = `${process.platform}-${process.arch}`, path] = /^(?:([a-z0-9]+-[a-z0-9]+)=)?(.+)$/.exec(argument);
  return [platform, path];
}

function stagePlatform(stage, platform, binary, version) {
  const { license, repository } = readJson("satiety/package.json");
  const [os, cpu] = platform.split("-");
  const directory = join(stage, platform);
  const executable = join(directory, "bin", os === "win32" ? "satiety.exe" : "satiety");
  mkdirSync(dirname(executable), { recursive: true });
  cpSync(binary, executable);
  chmodSync(executable, 0o755);
  const name = `@satiety/${platform}`;
  writeManifest(directory, {
    name,
    version,
    description: `Executable of the package satiety for ${platform}`,
    license,
    repository,
    os: [os],
    cpu: [cpu],
    ...(os === "linux" ? { libc: ["glibc"] } : {}),
    files: ["bin", "NOTICE", "LICENSE-*"],
    preferUnplugged: true,
  });
  writeFileSync(join(directory, "README.md"), `# ${name}\n\nExecutable of the package \`satiety\` for ${platform}. Install \`satiety\`.\n`);
  copyFiles(root, directory, LICENSES);
  copyFiles(join(root, "crates/satiety-models/assets"), directory, ["NOTICE"]);
  return directory;
}

/** Copies a package of this directory. Entries of `changes` that are objects are merged. */
function stagePackage(stage, name, changes) {
  const directory = join(stage, name);
  const manifest = readJson(`${name}/package.json`);
  for (const [key, value] of Object.entries(changes)) {
    manifest[key] = typeof value === "object" ? { ...manifest[key], ...value } : value;
  }
  mkdirSync(directory);
  const sources = name === "agents" ? [] : ["bin", "lib"];
  copyFiles(join(here, name), directory, ["README.md", ...sources]);
  copyFiles(root, directory, LICENSES);
  writeManifest(directory, manifest);
  return directory;
}

/** Compiles the library into a staged package, file by file. The tests check the types. */
function compile(directory) {
  const { options } = ts.convertCompilerOptionsFromJson(readJson("agents/tsconfig.json").compilerOptions, "agents");
  const output = join(directory, "dist");
  mkdirSync(output);
  for (const fileName of readdirSync(join(here, "agents/src"))) {
    const source = readFileSync(join(here, "agents/src", fileName), "utf8");
    // Without the package around it, the compiler would take a file for a CommonJS module.
    const settings = { fileName, compilerOptions: { ...options, module: ts.ModuleKind.ESNext } };
    const base = join(output, fileName.replace(/\.ts$/, ""));
    writeFileSync(`${base}.js`, ts.transpileModule(source, settings).outputText);
    writeFileSync(`${base}.d.ts`, ts.transpileDeclaration(source, settings).outputText);
  }
  return directory;
}

function readJson(path) {
  return JSON.parse(readFileSync(join(here, path), "utf8"));
}

function writeManifest(directory, manifest) {
  writeFileSync(join(directory, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`);
}

function copyFiles(from, to, names) {
  for (const name of names) cpSync(join(from, name), join(to, name), { recursive: true, dereference: true });
}

function pack(directory, out) {
  const options = ["--ignore-scripts", "--json", "--loglevel=error", "--pack-destination", out];
  const [{ filename }] = JSON.parse(execFileSync("npm", ["pack", ...options], { cwd: directory, encoding: "utf8" }));
  return filename;
}

try {
  main();
} catch (error) {
  console.error(`error: ${error.message}`);
  process.exitCode = 1;
}
