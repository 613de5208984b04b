//! Exit codes: what a script can rely on.

use std::process::ExitCode;

use satiety::dialogue::Signal;

/// How a command ended. The numbers are part of the interface and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and the answer is fine.
    Done,
    /// Done, and the gate says no.
    GateSaysNo,
    /// Wrong usage or bad input.
    BadInput,
    /// Not enough evidence to decide, and a decision was asked for.
    Inconclusive,
    /// The environment failed: store, network, model, file system.
    Environment,
    /// `--exit-code`: SHIP.
    Ship,
    /// `--exit-code`: STOP.
    Stop,
    /// `--exit-code`: ESCALATE.
    Escalate,
    /// A bug in satiety itself.
    Bug,
    /// Ctrl-C.
    Interrupted,
}

/// The table that `--help` and the reference page show.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "done, and the answer is fine"),
    (
        1,
        "done, and the gate says no (a regression, a weakening, something worse)",
    ),
    (2, "wrong usage or bad input"),
    (3, "inconclusive: not enough evidence to decide"),
    (4, "the environment failed: store, network, model or file system"),
    (10, "`score --exit-code`: SHIP"),
    (11, "`score --exit-code`: STOP"),
    (12, "`score --exit-code`: ESCALATE"),
    (70, "a bug in satiety itself; please report it"),
    (130, "interrupted with Ctrl-C"),
];

impl Exit {
    /// The code of a signal, for `--exit-code`.
    pub(crate) fn of_signal(signal: Signal) -> Self {
        match signal {
            Signal::Continue => Self::Done,
            Signal::Ship => Self::Ship,
            Signal::Stop => Self::Stop,
            Signal::Escalate => Self::Escalate,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::GateSaysNo => 1,
            Self::BadInput => 2,
            Self::Inconclusive => 3,
            Self::Environment => 4,
            Self::Ship => 10,
            Self::Stop => 11,
            Self::Escalate => 12,
            Self::Bug => 70,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_in_the_table_once() {
        for exit in [
            Exit::Done,
            Exit::GateSaysNo,
            Exit::BadInput,
            Exit::Inconclusive,
            Exit::Environment,
            Exit::Ship,
            Exit::Stop,
            Exit::Escalate,
            Exit::Bug,
            Exit::Interrupted,
        ] {
            assert_eq!(
                EXIT_CODES.iter().filter(|(code, _)| *code == exit.code()).count(),
                1,
                "{exit:?}"
            );
        }
    }
}
