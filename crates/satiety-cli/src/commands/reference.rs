//! `satiety reference`: the pages of `docs/reference` and the man pages, from the definitions the program itself uses.

use std::fmt::Write;
use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{EXIT_CODES, Exit};
use crate::failure::Failure;
use crate::settings::catalogue::{KEYS, ValueType, default_file};

pub(super) fn run(folder: &Path) -> Result<Exit, Failure> {
    let write = |name: &str, text: &str| {
        fs_err::write(folder.join(name), text).map_err(|error| Failure::environment(error.to_string(), None))
    };
    let pages = folder.join("man");
    fs_err::create_dir_all(&pages).map_err(|error| Failure::environment(error.to_string(), None))?;
    write("commands.md", &commands())?;
    write("settings.md", &settings())?;
    write("exit-codes.md", &exit_codes())?;
    write("openapi.json", &openapi()?)?;
    clap_mangen::generate_to(Cli::command().disable_help_flag(false), &pages)
        .map_err(|error| Failure::environment(format!("cannot write man pages: {error}"), None))?;
    Ok(Exit::Done)
}

/// The document of the HTTP API, so that a change of it is a difference that somebody sees.
fn openapi() -> Result<String, Failure> {
    let document = satiety_server::openapi::document();
    let mut text = serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::environment(format!("cannot write the document: {error}"), None))?;
    text.push('\n');
    Ok(text)
}

const GENERATED: &str = "<!-- Written by `cargo xtask gen`; do not edit. -->\n\n";

fn commands() -> String {
    let mut text = format!(
        "# Commands\n\n{GENERATED}Every command also takes the global options, which are listed once, under `satiety`.\n\n"
    );
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut text, &command, command.clone());
    text
}

/// Adds the help of a command, printed as `shown`, and that of its subcommands without the global options.
fn describe(text: &mut String, command: &clap::Command, mut shown: clap::Command) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let help = shown.render_long_help().to_string();
    let _ = write!(text, "## `{name}`\n\n```text\n{}\n```\n\n", help.trim_end());
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        let shown = subcommand.clone().mut_args(|argument| {
            let hidden = argument.is_global_set() || argument.is_hide_set();
            argument.hide(hidden)
        });
        describe(text, subcommand, shown);
    }
}

fn settings() -> String {
    let mut text = format!(
        "# Settings\n\n{GENERATED}Strength, from weak to strong: built-in default, `satiety.toml`, environment, flag.\n\n\
         | setting | values | default | environment | flag | what for |\n|---|---|---|---|---|---|\n"
    );
    for key in KEYS {
        let values = match key.takes {
            ValueType::Text => "text".to_owned(),
            ValueType::OneOf(words) => words.join(", "),
            ValueType::Boolean => "true, false".to_owned(),
        };
        let flag = key.flag.map_or_else(String::new, |flag| format!("`{flag}`"));
        let _ = writeln!(
            text,
            "| `{}` | {values} | {} | `{}` | {flag} | {} |",
            key.name,
            key.default,
            key.variable(),
            key.about
        );
    }
    let _ = write!(
        text,
        "\nThe default file, as `satiety config show --default` prints it:\n\n```toml\n{}```\n",
        default_file()
    );
    text
}

fn exit_codes() -> String {
    let mut text = format!("# Exit codes\n\n{GENERATED}| code | meaning |\n|---|---|\n");
    for (code, meaning) in EXIT_CODES {
        let _ = writeln!(text, "| {code} | {meaning} |");
    }
    text
}
