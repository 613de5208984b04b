"use strict";

const { optionalDependencies = {} } = require("../package.json");

/** Returns the path of the executable for this platform; throws an error with a hint if it is not installed. */
function findExecutable() {
  const name = `@satiety/${process.platform}-${process.arch}`;
  const file = process.platform === "win32" ? "satiety.exe" : "satiety";
  try {
    return require.resolve(`${name}/bin/${file}`);
  } catch (cause) {
    const packages = Object.keys(optionalDependencies);
    const message = packages.includes(name)
      ? `cannot find the executable of satiety: the package ${name} is not installed\n` +
        "hint: install again without `--omit=optional` or `--no-optional`, on the platform on which it runs"
      : `cannot find an executable of satiety for ${process.platform}-${process.arch}` +
        ` (available: ${packages.join(", ")})\n` +
        "hint: build it from source: `cargo install --git https://github.com/satiety/satiety satiety-cli`";
    throw new Error(message, { cause });
  }
}

module.exports.findExecutable = findExecutable;
