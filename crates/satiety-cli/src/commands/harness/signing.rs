//! Text that an approver reviews before signing: one field per line, old and new values, without terminal
//! escapes.

use std::fmt::Write;

use satiety::harness::{Change, Rigor};
use satiety_engine::harness::{CaseSides, Pending, PendingTransition};
use satiety_report::terminal::is_hidden;
use serde_json::Value;

/// Maximum number of characters shown of a field; the rest is counted.
const MAX_SHOWN: usize = 4000;

/// Warning about what a terminal can prove.
const PROOF: &str = "Any program with the key file and its passphrase can sign: a terminal proves neither presence nor identity.\n\
Keep the key where no agent can read it. The signature covers exactly what is shown here, once.";

/// Text for a transition between two locks.
pub(super) fn transition(pending: &PendingTransition) -> String {
    let mut text = String::new();
    field(&mut text, "transition", &pending.id);
    field(&mut text, "from lock", &pending.from);
    field(&mut text, "to lock", &pending.to);
    field(&mut text, "reason", &pending.reason);
    field(&mut text, "approvers", &pending.approvers.join(", "));
    list(&mut text, &pending.diff.changes);
    cases(&mut text, &pending.cases);
    let _ = write!(text, "\n{PROOF}");
    text
}

/// Text for a proposal that awaits approval.
pub(super) fn proposal(pending: &Pending) -> String {
    let proposal = &pending.proposal;
    let mut text = String::new();
    field(&mut text, "expansion", &pending.expansion_id);
    field(&mut text, "opened because", &pending.trigger_reason);
    field(&mut text, "proposal", &proposal.proposal_id);
    field(&mut text, "proposed by", &proposal.author.words());
    field(&mut text, "stated as", author_kind(&proposal.author));
    field(&mut text, "hash", &pending.proposal_hash);
    field(&mut text, "from version", &proposal.diff.from);
    field(&mut text, "to version", &proposal.diff.to);
    field(&mut text, "approvers", &pending.approvers.join(", "));
    for increase in &proposal.content.threshold_increases {
        let _ = writeln!(text, "\nthreshold {}", escape(&increase.name()));
        field(&mut text, "  old", &increase.current.to_string());
        field(&mut text, "  new", &increase.proposed.to_string());
        field(&mut text, "  reason", &increase.rationale);
    }
    for retired in &proposal.content.retirements {
        let _ = writeln!(
            text,
            "\nretires {}/{}",
            escape(&retired.suite),
            escape(&retired.case_id)
        );
        field(&mut text, "  reason", &retired.reason);
        field(&mut text, "  audited by", &retired.audited_by);
        field(&mut text, "  replaced by", &retired.replacement.case_id);
    }
    list(&mut text, &proposal.diff.changes);
    cases(&mut text, &pending.cases);
    let _ = write!(text, "\n{PROOF}");
    text
}

fn author_kind(author: &satiety::harness::Author) -> &'static str {
    use satiety::harness::Author;
    match author {
        Author::Rules => "computed by rules",
        Author::Model(_) => "a model",
        Author::Person(_) => "a person, by the name given with --by, which is not verified",
        Author::Agent(_) => "an agent, by a self-chosen name",
    }
}

fn list(text: &mut String, changes: &[Change]) {
    for (rigor, heading) in [
        (Rigor::Weaker, "WEAKER"),
        (Rigor::Incomparable, "NOT COMPARABLE"),
        (Rigor::Neutral, "equally strict"),
        (Rigor::Harder, "stricter"),
    ] {
        let of_kind: Vec<&Change> = changes.iter().filter(|change| change.rigor == rigor).collect();
        if of_kind.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{heading} ({})", of_kind.len());
        // Every weakening is shown: a long list must not hide one.
        for change in of_kind {
            let mark = if change.needs_approval {
                " [needs approval]"
            } else {
                ""
            };
            let _ = writeln!(
                text,
                "  {}: {}{mark}",
                escape(&change.place),
                escape(&change.reason)
            );
        }
    }
}

fn cases(text: &mut String, sides: &[CaseSides]) {
    for side in sides {
        let (old, new) = (side.old.as_ref(), side.new.as_ref());
        let what = match (old, new) {
            (Some(_), Some(_)) => "changed",
            (Some(_), None) => "REMOVED",
            _ => "new",
        };
        let _ = writeln!(
            text,
            "\ncase {}/{} {what}",
            escape(&side.suite),
            escape(&side.case_id)
        );
        let names = [
            "input",
            "expected",
            "files",
            "repeats",
            "deterministic",
            "timeout_ms",
            "skip",
        ];
        for name in names {
            let of = |value: Option<&Value>| value.map_or(Value::Null, |value| value[name].clone());
            let (before, now) = (of(old), of(new));
            let is_empty =
                |value: &Value| value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            if is_empty(&before) && is_empty(&now) {
                continue;
            }
            if before == now {
                field(text, &format!("  {name}"), &before.to_string());
                continue;
            }
            if old.is_some() {
                field(text, &format!("  {name} old"), &before.to_string());
            }
            if new.is_some() {
                field(text, &format!("  {name} new"), &now.to_string());
            }
        }
    }
}

fn field(text: &mut String, name: &str, value: &str) {
    let count = value.chars().count();
    let mut shown = escape(&value.chars().take(MAX_SHOWN).collect::<String>());
    if count > MAX_SHOWN {
        let _ = write!(shown, " … [{} more characters not shown]", count - MAX_SHOWN);
    }
    let _ = writeln!(text, "{name:<18} {shown}");
}

/// Escapes everything that could move the cursor, change colors, break lines or reorder text: control
/// characters, line and paragraph separators, bidirectional marks and invisible characters become `\u{…}`.
pub(super) fn escape(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut shown, letter| {
            if is_hidden(letter) {
                shown.extend(letter.escape_unicode());
            } else {
                shown.push(letter);
            }
            shown
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        for hostile in [
            "a\u{1b}[2Jb",
            "a\rb",
            "a\nb",
            "a\u{9b}31mb",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{2028}b",
            "a\u{8}b",
            "a\u{e0041}b",
        ] {
            let shown = escape(hostile);
            assert!(shown.starts_with("a\\u{") && shown.ends_with('b'), "{shown:?}");
            assert!(shown.is_ascii(), "{shown:?}");
        }
        assert_eq!(escape("plain – ünïcode ✓"), "plain – ünïcode ✓");
    }

    #[test]
    fn a_truncated_field_reports_the_omitted_length() {
        let mut text = String::new();
        field(&mut text, "reason", &"x".repeat(MAX_SHOWN + 7));
        assert!(text.contains("[7 more characters not shown]"));
        assert_eq!(text.lines().count(), 1);
    }
}
