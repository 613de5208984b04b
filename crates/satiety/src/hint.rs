//! Suggested actions of errors.

use std::borrow::Cow;
use std::fmt;

/// Suggested action after an error, with the command or flag that does it on a command line.
///
/// [`Display`](fmt::Display) is the form for a command line. Other surfaces show [`action`](Self::action) alone.
///
/// ```
/// use satiety::Hint;
///
/// let hint = Hint::with_command("list the runs to see their ids", "satiety bench list --runs");
/// assert_eq!(hint.action(), "list the runs to see their ids");
/// assert_eq!(hint.to_string(), "list the runs to see their ids: `satiety bench list --runs`");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint {
    action: Cow<'static, str>,
    command: Option<Cow<'static, str>>,
}

impl Hint {
    /// Creates a hint for an action that has no command.
    pub fn new(action: impl Into<Cow<'static, str>>) -> Self {
        Self {
            action: action.into(),
            command: None,
        }
    }

    /// Creates a hint for an action that `command` (a command, or flags of the current one) performs.
    pub fn with_command(action: impl Into<Cow<'static, str>>, command: impl Into<Cow<'static, str>>) -> Self {
        Self {
            action: action.into(),
            command: Some(command.into()),
        }
    }

    /// The action in words that hold on every surface.
    pub fn action(&self) -> &str {
        &self.action
    }
}

impl From<&'static str> for Hint {
    fn from(action: &'static str) -> Self {
        Self::new(action)
    }
}

impl From<String> for Hint {
    fn from(action: String) -> Self {
        Self::new(action)
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.action)?;
        match &self.command {
            Some(command) => write!(f, ": `{command}`"),
            None => Ok(()),
        }
    }
}
