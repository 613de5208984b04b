//! Context items: size, age, references and optional content. Callers that cannot share content provide
//! [`Signals`] instead. The value of an item is computed by [`super::score`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::EvictionError;

/// Item of a context that can be evicted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextItem {
    /// Id of the item, unique in its scope.
    pub ctx_id: String,
    /// Zone of the context: `system`, `chronicle`, `memory`, `workspace`, or a custom zone.
    pub zone: String,
    /// Kind of item: `message`, `tool_result`, `file`, `fact`, or a custom kind.
    #[serde(default = "default_kind")]
    pub kind: String,
    /// Text of the item; absent if only `signals` are provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// One-line summary for display; derived from `content` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// Size of the item in tokens.
    pub token_count: u64,
    /// Turn in which the item was added.
    #[serde(default)]
    pub created_turn: u64,
    /// Turn in which the item was last used; `created_turn` if it was never used.
    #[serde(default)]
    pub last_referenced_turn: u64,
    /// Number of uses after the item was added.
    #[serde(default)]
    pub reference_count: u64,
    /// Recent use: each use adds 1, and the value halves every eight turns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub heat: f64,
    /// Place in the context, rising from its beginning; items without one are appended in the order in which
    /// they are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// Whether the item must never be evicted.
    #[serde(default)]
    pub pinned: bool,
    /// Ids of the items that this item depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// Cost of losing the item, above 0: 1 if it can be read again, more if it cannot be recovered.
    #[serde(default = "default_loss")]
    pub loss: f64,
    /// Signals in addition to the counters, each from 0 to 1.
    #[serde(default, skip_serializing_if = "Signals::is_empty")]
    pub signals: Signals,
}

/// Signals about an item in addition to its counters, each from 0 to 1; absent means unknown, not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Signals {
    /// Share of the goal's words that occur in the item, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal_overlap: Option<f64>,
    /// Semantic similarity of the item to the goal, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semantic: Option<f64>,
    /// Share of the item's content that another item repeats, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<f64>,
    /// Relevance according to a scorer model, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<f64>,
}

impl Signals {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn default_kind() -> String {
    "message".to_owned()
}

fn default_loss() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(heat: &f64) -> bool {
    *heat <= 0.0
}

/// Half-life of the heat of a use, in turns.
const HALF_LIFE: f64 = 8.0;

/// Maximum number of tokens of one item: far above any context, and too small for sums to overflow.
const MAX_TOKENS: u64 = 1 << 40;
/// Maximum length of the display line, in characters.
const MAX_SNIPPET_CHARS: usize = 96;

impl ContextItem {
    /// Creates an item with default values for all other fields.
    pub fn new(ctx_id: impl Into<String>, zone: impl Into<String>, token_count: u64) -> Self {
        Self {
            ctx_id: ctx_id.into(),
            zone: zone.into(),
            kind: default_kind(),
            token_count,
            loss: 1.0,
            ..Self::default()
        }
    }

    /// Records a use of the item in `turn`. A past turn counts as a use but does not make the item more
    /// recent.
    pub fn touch(&mut self, turn: u64) {
        let since = turn.saturating_sub(self.last_referenced_turn) as f64;
        self.heat = self.heat * (-since / HALF_LIFE).exp2() + 1.0;
        self.last_referenced_turn = self.last_referenced_turn.max(turn);
        self.reference_count = self.reference_count.saturating_add(1);
    }

    /// Returns the heat `age` turns after the last use.
    pub(super) fn heat_after(&self, age: u64) -> f64 {
        self.heat * (-(age as f64) / HALF_LIFE).exp2()
    }

    /// Checks that the item can be scored; an error names the invalid field.
    pub fn check(&self) -> Result<(), EvictionError> {
        let wrong = |field: &'static str, reason: String| EvictionError::Item {
            ctx_id: self.ctx_id.clone(),
            field,
            reason,
        };
        if self.ctx_id.is_empty() {
            return Err(wrong("ctx_id", "must not be empty".into()));
        }
        if self.zone.is_empty() {
            return Err(wrong("zone", "must not be empty".into()));
        }
        if self.token_count > MAX_TOKENS {
            return Err(wrong("token_count", format!("must be at most {MAX_TOKENS}")));
        }
        if !(self.loss.is_finite() && self.loss > 0.0) {
            return Err(wrong("loss", format!("must be above 0, got {}", self.loss)));
        }
        if !(self.heat.is_finite() && self.heat >= 0.0) {
            return Err(wrong("heat", format!("must be 0 or more, got {}", self.heat)));
        }
        if self.last_referenced_turn < self.created_turn {
            return Err(wrong(
                "last_referenced_turn",
                format!("must be at least created_turn ({})", self.created_turn),
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
                return Err(wrong(field, format!("must be between 0 and 1, got {value}")));
            }
        }
        Ok(())
    }

    /// Returns a summary of the item: one line of at most 96 characters.
    pub fn line(&self) -> String {
        let text = self
            .snippet
            .as_deref()
            .or(self.content.as_deref())
            .unwrap_or_default();
        let mut line = String::new();
        for (count, word) in text.split_whitespace().enumerate() {
            if line.chars().count() + word.chars().count() >= MAX_SNIPPET_CHARS {
                // Truncate a first word that is too long by itself.
                if count == 0 {
                    line.extend(word.chars().take(MAX_SNIPPET_CHARS - 1));
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
    fn an_invalid_item_is_rejected_by_field() {
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
