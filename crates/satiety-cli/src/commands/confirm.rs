//! Asking the person at the terminal for what no program may decide. A terminal is not proof of a person (a program can
//! open a pseudo-terminal); it keeps agents from doing by accident or by instruction what a person should know of.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};

use satiety_engine::EngineError;

use crate::failure::Failure;
use crate::settings::trust::printable;

/// What a person must type.
const WORD: &str = "confirm";

/// Shows what is to be done and asks for a word; the refusal stands where no terminal is there, or something else is typed.
pub(super) fn by_person(refusal: EngineError, lines: &[(&str, &str)]) -> Result<(), Failure> {
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
        text.push_str(&format!("  {name:<8} {}\n", printable(value)));
    }
    let asked = write!(terminal, "{text}type `{WORD}` to do it: ").and_then(|()| terminal.flush());
    let mut typed = String::new();
    let answered = asked.and_then(|()| BufReader::new(terminal).read_line(&mut typed));
    match answered {
        Ok(_) if typed.trim() == WORD => Ok(()),
        Ok(_) => Err(Failure::bad_input(
            "not confirmed; nothing was changed",
            format!("type `{WORD}` to confirm"),
        )),
        Err(_) => Err(refusal.into()),
    }
}
