//! Confirmation on the terminal of actions that no program may decide alone. A terminal does not prove a
//! person (a program can open a pseudo-terminal); it keeps agents from acting by accident or by injected
//! instructions.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};

use satiety_engine::EngineError;

use crate::failure::Failure;
use crate::settings::trust::printable;

/// Word that confirms the action.
const WORD: &str = "confirm";

/// Shows the action and asks for the word; returns the refusal without a terminal or for any other input.
pub(super) fn confirm_on_terminal(refusal: EngineError, lines: &[(&str, &str)]) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(refusal.into());
    }
    let Ok(mut terminal) = fs_err::OpenOptions::new()
        .read(true)
        .write(true)
        .open(if cfg!(windows) { "CONIN$" } else { "/dev/tty" })
    else {
        return Err(refusal.into());
    };
    let mut text = format!("{refusal}:\n");
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:<8} {}", printable(value));
    }
    let asked = write!(terminal, "{text}type `{WORD}` to confirm: ").and_then(|()| terminal.flush());
    let mut typed = String::new();
    let answered = asked.and_then(|()| BufReader::new(terminal).read_line(&mut typed));
    match answered {
        Ok(_) if typed.trim() == WORD => Ok(()),
        Ok(_) => Err(Failure::bad_input(
            "not confirmed; nothing was changed",
            format!("run it again and type `{WORD}`"),
        )),
        Err(_) => Err(refusal.into()),
    }
}
