//! Asking a person. Everything goes through the terminal itself, never through standard input, a flag or the
//! environment: what a script can answer is not asked here.

use std::io::{BufRead, BufReader, Write};

use zeroize::Zeroizing;

use crate::failure::Failure;

/// Letters of a hash that a person types: enough to have looked at it.
const LETTERS: usize = 8;

/// Shows something to whoever sits at the terminal.
pub(super) fn to_the_terminal(text: &str) -> Result<(), Failure> {
    let mut terminal = terminal()?;
    let text = anstream::adapter::strip_str(text);
    writeln!(terminal, "{text}\n").map_err(|error| nobody(&error))
}

/// Asks for the beginning of a hash.
pub(super) fn confirm(hash: &str) -> Result<(), Failure> {
    let beginning: String = hash.chars().take(LETTERS).collect();
    let mut terminal = terminal()?;
    write!(
        terminal,
        "type the first {LETTERS} letters of the proposal's hash to approve it: "
    )
    .and_then(|()| terminal.flush())
    .map_err(|error| nobody(&error))?;
    let mut typed = String::new();
    BufReader::new(terminal)
        .read_line(&mut typed)
        .map_err(|error| nobody(&error))?;
    if typed.trim() == beginning {
        return Ok(());
    }
    Err(Failure::bad_input(
        "that is not the beginning of the hash; nothing was approved",
        "look at the proposal again: `satiety harness approve`",
    ))
}

/// Asks for a passphrase.
pub(super) fn passphrase(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    // Fails early and with our words where there is no terminal.
    terminal()?;
    rpassword::prompt_password(prompt)
        .map(Zeroizing::new)
        .map_err(|error| nobody(&error))
}

/// Asks for a new passphrase, twice.
pub(super) fn new_passphrase() -> Result<Zeroizing<String>, Failure> {
    let first = passphrase("a passphrase for the new key: ")?;
    let second = passphrase("the same again: ")?;
    if *first == *second {
        return Ok(first);
    }
    Err(Failure::bad_input(
        "the two are not the same; no key was made",
        "try again",
    ))
}

fn terminal() -> Result<fs_err::File, Failure> {
    fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .open(if cfg!(windows) { "CONIN$" } else { "/dev/tty" })
        .map_err(|error| nobody(&error))
}

fn nobody(error: &std::io::Error) -> Failure {
    Failure::bad_input(
        format!("nobody can be asked here: {error}"),
        "this needs a person at a terminal; it cannot be scripted, on purpose",
    )
}
