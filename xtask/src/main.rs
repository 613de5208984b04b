//! `cargo xtask`: development commands of the project.

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [--skip STEP]...   run all checks and tests; `test --list` lists the steps
  docs                    build the documentation as a site in target/book
  style                   find phrases that STYLE.md replaces
  dist [--verify]         build everything that a release needs into target/artifacts (and compare a second build)
  wheel                   build the Python package for users, with the command, and print its path
  quantize [--check]      build the weights of the built-in sentence model from the public ones (or compare)
  gen [--check]           write the generated reference pages and man pages (or check that they are up to date)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("test") => xtask::test::run(&arguments[1..]),
        Some("quantize") => xtask::quantize::run(&arguments[1..]),
        Some("docs") => xtask::book::build().map(|index| say(&format!("{}\n", index.display()))),
        Some("style") => xtask::style::check(&xtask::test::root()),
        Some("dist") => xtask::dist::run(&arguments[1..]).map(|answer| say(&answer)),
        Some("wheel") => xtask::wheel::build_release(&[]).map(|wheel| say(&format!("{}\n", wheel.display()))),
        Some("gen") => xtask::generate::run(&arguments[1..]),
        Some("help" | "--help" | "-h") | None => {
            say(HELP);
            return ExitCode::SUCCESS;
        }
        Some(other) => Err(anyhow::anyhow!("unknown command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "a command's answer")]
fn say(text: &str) {
    print!("{text}");
}

#[expect(clippy::print_stderr, reason = "a command's error")]
fn complain(text: &str) {
    eprintln!("error: {text}");
}
