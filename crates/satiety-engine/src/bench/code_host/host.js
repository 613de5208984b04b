// Runs JavaScript checks: a line of JSON in, a line of JSON out.
'use strict';
const path = require('node:path');
const { pathToFileURL } = require('node:url');

// Standard output belongs to the protocol, so checks print to standard error.
const send = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
const shim = Object.assign(Object.create(process), { mainModule: { require } });

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

/** A program of several lines is a function body; one line is an expression, after declarations if any. */
function functionBody(code) {
  const program = code.trimEnd();
  if (program.includes('\n')) return program;
  const line = program.trim().replace(/;+$/, '');
  if (!/^(const|let|var)\s/.test(line)) return `return ${line}`;
  const end = lastSeparator(line) + 1;
  return end === 0 ? line : `${line.slice(0, end)} return ${line.slice(end)}`;
}

const compile = (code) => new Function('output', 'context', 'process', functionBody(code));

async function load(file, name) {
  const loaded = await import(pathToFileURL(path.resolve(file)).href);
  const exported = loaded.default ?? loaded;
  const found = name ? loaded[name] ?? exported[name] : exported.default ?? exported;
  if (typeof found !== 'function') throw new Error(`${file} exports no function ${name ?? 'by default'}`);
  return found;
}

async function check({ code, file, function: name, transforms = [], output, context }) {
  let run;
  let changes;
  try {
    run = file ? await load(file, name) : compile(code);
    changes = transforms.map(compile);
  } catch (error) {
    return { invalid: String(error) };
  }
  try {
    let value = output;
    for (const change of changes) value = await change(value, context, shim);
    const returned = await run(value, context, shim);
    return JSON.parse(JSON.stringify({ returned: returned ?? null }));
  } catch (error) {
    return { thrown: String(error) };
  }
}

require('node:readline')
  .createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const output = await check(JSON.parse(line).input.config_overrides);
    send(`${JSON.stringify({ output })}\n`);
  });
