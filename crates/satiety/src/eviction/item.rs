//! What stands in a context: items with their size, age and references. Content is optional; whoever may not hand it over
//! gives features instead. Nothing here says what an item is worth: that is [`super::score`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;

/// One thing in a context that could be dropped.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextItem {
    /// Its id in its scope.
    pub ctx_id: String,
    /// Where it stands: `system`, `chronicle`, `memory`, `workspace`, or a zone of the caller's own.
    pub zone: String,
    /// What it is: `message`, `tool_result`, `file`, `fact`, or a kind of the caller's own.
    #[serde(default = "message")]
    pub kind: String,
    /// The words; absent where only features are handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// One line for people; made from the content where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Its size.
    pub token_count: u64,
    /// The turn in which it came.
    #[serde(default)]
    pub created_turn: u64,
    /// The turn in which it was last used; the turn it came in where nobody has used it.
    #[serde(default)]
    pub last_referenced_turn: u64,
    /// How often it was used after it came.
    #[serde(default)]
    pub reference_count: u64,
    /// How often it was used lately: 1 for each use, halved every eight turns since.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub heat: f64,
    /// Never to be dropped.
    #[serde(default)]
    pub pinned: bool,
    /// Items that it needs to be understood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// What losing it costs, 1 being what reading it again costs; more where it cannot be had again.
    #[serde(default = "one")]
    pub loss: f64,
    /// What is known about it besides.
    #[serde(default, skip_serializing_if = "Signals::is_empty")]
    pub signals: Signals,
}

/// What is known about an item besides its counters, each from 0 to 1; absent is unknown, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signals {
    /// The share of the goal's words that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_overlap: Option<f64>,
    /// How near its meaning is to the goal, by a sentence model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<f64>,
    /// How much of it another item says as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<f64>,
    /// What a scorer model thinks of its relevance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
}

impl Signals {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn message() -> String {
    "message".to_owned()
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(heat: &f64) -> bool {
    *heat <= 0.0
}

/// Turns after which a use counts half.
const HALF_LIFE: f64 = 8.0;

/// Most tokens of one item: far above any context, far below where sums could overflow.
const MOST_TOKENS: u64 = 1 << 40;
/// Longest line for people.
const SNIPPET: usize = 96;

impl ContextItem {
    /// An item of a zone with the rest at its defaults.
    pub fn new(ctx_id: impl Into<String>, zone: impl Into<String>, token_count: u64) -> Self {
        Self {
            ctx_id: ctx_id.into(),
            zone: zone.into(),
            kind: message(),
            token_count,
            loss: 1.0,
            ..Self::default()
        }
    }

    /// Notes that it was used in a turn. A use in the past counts, too, and does not make it younger.
    pub fn touch(&mut self, turn: u64) {
        let since = turn.saturating_sub(self.last_referenced_turn) as f64;
        self.heat = self.heat * (-since / HALF_LIFE).exp2() + 1.0;
        self.last_referenced_turn = self.last_referenced_turn.max(turn);
        self.reference_count = self.reference_count.saturating_add(1);
    }

    /// Its heat `age` turns after its last use.
    pub(super) fn heat_after(&self, age: u64) -> f64 {
        self.heat * (-(age as f64) / HALF_LIFE).exp2()
    }

    /// Refuses what cannot be scored, with the field.
    pub fn check(&self) -> Result<(), EvictionError> {
        let wrong = |field: &'static str, reason: String| EvictionError::Item {
            ctx_id: self.ctx_id.clone(),
            field,
            reason,
        };
        if self.ctx_id.is_empty() {
            return Err(wrong("ctx_id", "it is empty".into()));
        }
        if self.zone.is_empty() {
            return Err(wrong("zone", "it is empty".into()));
        }
        if self.token_count > MOST_TOKENS {
            return Err(wrong("token_count", format!("more than {MOST_TOKENS}")));
        }
        if !(self.loss.is_finite() && self.loss > 0.0) {
            return Err(wrong("loss", format!("{} is not above 0", self.loss)));
        }
        if !(self.heat.is_finite() && self.heat >= 0.0) {
            return Err(wrong("heat", format!("{} is not 0 or more", self.heat)));
        }
        if self.last_referenced_turn < self.created_turn {
            return Err(wrong(
                "last_referenced_turn",
                format!("before turn {} in which it came", self.created_turn),
            ));
        }
        let signals = [
            ("signals.goal_overlap", self.signals.goal_overlap),
            ("signals.semantic", self.signals.semantic),
            ("signals.redundancy", self.signals.redundancy),
            ("signals.model", self.signals.model),
        ];
        for (field, value) in signals {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                return Err(wrong(field, format!("{value} is not between 0 and 1")));
            }
        }
        Ok(())
    }

    /// One line of at most 96 characters that shows what it is.
    pub fn line(&self) -> String {
        let text = self
            .snippet
            .as_deref()
            .or(self.content.as_deref())
            .unwrap_or_default();
        let mut line = String::new();
        for (count, word) in text.split_whitespace().enumerate() {
            if line.chars().count() + word.chars().count() >= SNIPPET {
                // A first word that is too long alone is cut.
                if count == 0 {
                    line.extend(word.chars().take(SNIPPET - 1));
                }
                line.push('…');
                break;
            }
            if count > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Damage = fn(&mut ContextItem);

    #[test]
    fn an_item_that_cannot_be_scored_is_refused_by_field() {
        let good = ContextItem::new("a", "memory", 5);
        assert_eq!(good.check(), Ok(()));
        let cases: [(&str, Damage); 7] = [
            ("ctx_id", |item| item.ctx_id.clear()),
            ("zone", |item| item.zone.clear()),
            ("token_count", |item| item.token_count = u64::MAX),
            ("loss", |item| item.loss = f64::NAN),
            ("loss", |item| item.loss = 0.0),
            ("last_referenced_turn", |item| item.created_turn = 9),
            ("signals.model", |item| item.signals.model = Some(1.5)),
        ];
        for (expected, damage) in cases {
            let mut item = good.clone();
            damage(&mut item);
            let Err(EvictionError::Item { field, .. }) = item.check() else {
                panic!("{expected} was accepted");
            };
            assert_eq!(field, expected);
        }
    }

    #[test]
    fn the_line_is_one_short_line() {
        let mut item = ContextItem::new("a", "memory", 5);
        assert_eq!(item.line(), "");
        item.content = Some("two\n  words".into());
        assert_eq!(item.line(), "two words");
        item.content = Some("word ".repeat(100));
        assert!(item.line().ends_with('…') && item.line().chars().count() <= 96);
        item.content = Some("x".repeat(500));
        assert_eq!(item.line().chars().count(), 96);
        item.snippet = Some("short".into());
        assert_eq!(item.line(), "short");
    }
}
