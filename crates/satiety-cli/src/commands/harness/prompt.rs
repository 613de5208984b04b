//! Terminal prompts. They use the terminal itself, never standard input, a flag or the environment, so that a
//! script cannot answer them.

use std::io::{BufRead, BufReader, Write};

use zeroize::Zeroizing;

use crate::failure::Failure;

/// Characters of a hash that a person must type, to show that they have read it.
const HASH_PREFIX: usize = 8;

/// Prints text on the terminal.
pub(super) fn to_the_terminal(text: &str) -> Result<(), Failure> {
    let mut terminal = terminal()?;
    let text = anstream::adapter::strip_str(text);
    writeln!(terminal, "{text}\n").map_err(|error| no_terminal(&error))
}

/// Asks for the beginning of a hash.
pub(super) fn confirm(hash: &str) -> Result<(), Failure> {
    let beginning: String = hash.chars().take(HASH_PREFIX).collect();
    let mut terminal = terminal()?;
    write!(
        terminal,
        "type the first {HASH_PREFIX} characters of the proposal's hash to approve it: "
    )
    .and_then(|()| terminal.flush())
    .map_err(|error| no_terminal(&error))?;
    let mut typed = String::new();
    BufReader::new(terminal)
        .read_line(&mut typed)
        .map_err(|error| no_terminal(&error))?;
    if typed.trim() == beginning {
        return Ok(());
    }
    Err(Failure::bad_input(
        "hash mismatch; nothing was approved",
        "review the proposal again with `satiety harness approve`",
    ))
}

pub(super) fn passphrase(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    // Fails early with our own error if there is no terminal.
    terminal()?;
    rpassword::prompt_password(prompt)
        .map(Zeroizing::new)
        .map_err(|error| no_terminal(&error))
}

/// Asks for a new passphrase, twice.
pub(super) fn new_passphrase() -> Result<Zeroizing<String>, Failure> {
    let first = passphrase("passphrase for the new key: ")?;
    let second = passphrase("repeat the passphrase: ")?;
    if *first == *second {
        return Ok(first);
    }
    Err(Failure::bad_input(
        "the passphrases do not match; no key was created",
        "run the command again",
    ))
}

fn terminal() -> Result<fs_err::File, Failure> {
    fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .open(if cfg!(windows) { "CONIN$" } else { "/dev/tty" })
        .map_err(|error| no_terminal(&error))
}

fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::bad_input(
        format!("cannot open the terminal: {error}"),
        "run this interactively; it is deliberately not scriptable",
    )
}
