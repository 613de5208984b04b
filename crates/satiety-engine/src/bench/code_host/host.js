// Runs JavaScript programs: a line of JSON in, a line of JSON out. With settings of a provider as an argument
// it answers requests to that provider, otherwise it runs lists of checks, transforms and calls.
'use strict';
const fs = require('node:fs');
const nodeModule = require('node:module');
const path = require('node:path');
const { fileURLToPath, pathToFileURL } = require('node:url');

// Standard output belongs to the protocol, so programs print to standard error.
const send = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
const shim = Object.assign(Object.create(process), { mainModule: { require } });
const settings = JSON.parse(process.argv[1] ?? '{}');
try {
  if (settings.root) process.chdir(settings.root);
} catch {
  // Inline programs need no files.
}

// TypeScript files import each other without an ending.
nodeModule.registerHooks?.({
  resolve(name, context, next) {
    try {
      return next(name, context);
    } catch (error) {
      if (!name.startsWith('.') || !context.parentURL?.startsWith('file:')) throw error;
      const base = path.resolve(path.dirname(fileURLToPath(context.parentURL)), name);
      const stem = base.replace(/\.[cm]?js$/, '');
      const found = ['.ts', '.mts', '.cts', '.js', '/index.ts', '/index.js'].map((end) => stem + end).find((file) => fs.existsSync(file));
      if (!found) throw error;
      return next(pathToFileURL(found).href, context);
    }
  },
});

/** Position of the last semicolon that ends a statement, or -1. */
function lastSeparator(program) {
  let quote = null;
  let depth = 0;
  let last = -1;
  for (let at = 0; at < program.length; at += 1) {
    const letter = program[at];
    if (quote) {
      if (letter === '\\') at += 1;
      else if (letter === quote) quote = null;
    } else if (letter === '"' || letter === "'" || letter === '`') quote = letter;
    else if ('([{'.includes(letter)) depth += 1;
    else if (')]}'.includes(letter)) depth -= 1;
    else if (letter === ';' && depth === 0) last = at;
  }
  return last;
}

/** A check of several lines is a function body; one line is an expression, after declarations if any. */
function checkBody(code) {
  const program = code.trimEnd();
  if (program.includes('\n')) return program;
  const line = program.trim().replace(/;+$/, '');
  if (!/^(const|let|var)\s/.test(line)) return `return ${line}`;
  const end = lastSeparator(line) + 1;
  return end === 0 ? line : `${line.slice(0, end)} return ${line.slice(end)}`;
}

const compiled = new Map();
function compile(code, kind) {
  const key = `${kind}:${code}`;
  let found = compiled.get(key);
  if (!found) {
    const body = kind === 'check' ? checkBody(code) : code.includes('\n') ? code : `return ${code}`;
    found = new Function(kind === 'call' ? 'vars' : 'output', 'context', 'process', body);
    compiled.set(key, found);
  }
  return found;
}

async function load(file, name) {
  const loaded = await import(pathToFileURL(path.resolve(file)).href);
  const exported = loaded.default ?? loaded;
  const found = name ? loaded[name] ?? exported[name] : exported.default ?? exported;
  if (found === undefined) throw new Error(`${file} exports no ${name}`);
  return found;
}

async function run({ kind, code, file, function: name, arguments: given }) {
  let program;
  try {
    program = file ? await load(file, name) : compile(code, kind);
    if (typeof program !== 'function' && kind !== 'call') {
      throw new Error(`${file} exports no function ${name ?? 'by default'}`);
    }
  } catch (error) {
    return { invalid: String(error) };
  }
  try {
    const returned = typeof program === 'function' ? await program(...given, shim) : program;
    return JSON.parse(JSON.stringify({ returned: returned ?? null }));
  } catch (error) {
    return { thrown: String(error) };
  }
}

let opened;
async function openProvider() {
  const exported = await load(settings.file, settings.function);
  if (typeof exported !== 'function') return exported;
  if (typeof exported.prototype?.callApi === 'function') return new exported(settings.options);
  return { callApi: exported };
}

async function answer({ goal, config_overrides: overrides = {} }) {
  try {
    opened ??= openProvider();
    const context = { vars: overrides.vars ?? {}, prompt: { raw: goal, label: goal } };
    const returned = await (await opened).callApi(goal, context, settings.options);
    return typeof returned === 'object' && returned !== null ? returned : { output: returned ?? '' };
  } catch (error) {
    return { error: String(error) };
  }
}

require('node:readline')
  .createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const { input } = JSON.parse(line);
    let reply;
    if (settings.file) reply = await answer(input);
    else {
      reply = { output: [] };
      for (const job of input.config_overrides.jobs) reply.output.push(await run(job));
    }
    send(`${JSON.stringify(reply)}\n`);
  });
