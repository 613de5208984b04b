//! Exit codes. Scripts rely on them, so their meaning never changes.

use std::process::ExitCode;

use satiety::dialogue::Signal;
use satiety::progress::ProgressSignal;

/// Outcome of a command. The numbers are part of the interface and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done,
    /// The check failed: regression, weakening or a worse result.
    CheckFailed,
    /// Usage error or invalid input.
    BadInput,
    /// Not enough evidence for the requested decision.
    Inconclusive,
    /// Environment failure: store, network, model or file system.
    Environment,
    /// `--exit-code`: SHIP.
    Ship,
    /// `--exit-code`: STOP.
    Stop,
    /// `--exit-code`: ESCALATE.
    Escalate,
    /// Internal error.
    Bug,
    /// Interrupted with Ctrl-C.
    Interrupted,
}

/// Table shown in the reference page.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success; with `--exit-code` also CONTINUE and NUDGE"),
    (1, "check failed (regression, weakening, worse)"),
    (2, "usage error or invalid input"),
    (3, "inconclusive: not enough evidence to decide"),
    (4, "environment failure: store, network, model or file system"),
    (10, "`--exit-code` of `score`, `progress` and `watch`: SHIP"),
    (11, "`--exit-code` of `score`, `progress` and `watch`: STOP"),
    (12, "`--exit-code` of `score`, `progress` and `watch`: ESCALATE"),
    (70, "internal error (a bug in satiety; please report it)"),
    (130, "interrupted with Ctrl-C"),
];

impl Exit {
    /// Exit code of a signal, for `--exit-code`.
    pub(crate) fn of_signal(signal: Signal) -> Self {
        match signal {
            Signal::Continue => Self::Done,
            Signal::Ship => Self::Ship,
            Signal::Stop => Self::Stop,
            Signal::Escalate => Self::Escalate,
        }
    }

    /// Exit code of a signal about an agent at work, for `--exit-code`. A nudged agent goes on.
    pub(crate) fn of_progress_signal(signal: ProgressSignal) -> Self {
        match signal {
            ProgressSignal::Continue | ProgressSignal::Nudge => Self::Done,
            ProgressSignal::Ship => Self::Ship,
            ProgressSignal::Stop => Self::Stop,
            ProgressSignal::Escalate => Self::Escalate,
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::CheckFailed => 1,
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
    fn every_exit_code_is_listed_once() {
        for exit in [
            Exit::Done,
            Exit::CheckFailed,
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
