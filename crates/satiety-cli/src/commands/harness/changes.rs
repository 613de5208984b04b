//! Rendering of harness changes: proposals, approvals, steps, the log, keys.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::harness::{Change, Entry, ExpansionProposals, Phase, Rigor, RigorDiff};
use satiety_engine::harness::{
    AppliedExpansion, ApprovalDecision, AuditRow, HarnessCheck, History, Keys, LockState, LockedHarness,
    ProposeExpansionResponse, SignedTransition, VerifyResponse,
};
use satiety_report::Finding;
use satiety_report::document::count;
use schemars::JsonSchema;
use serde::Serialize;

use super::format::{phase, short};
use super::signing::escape;
use crate::failure::Failure;
use crate::printer::Render;
use crate::table::table;

/// Maximum number of changes shown of each kind.
const MAX_CHANGES: usize = 20;

/// What to do about a refused change.
const RESTORE: &str =
    "restore the files, or have an approver of the base sign the change: `satiety harness transition`";

impl Render for HarnessCheck {
    fn findings(&self) -> Option<Vec<Finding>> {
        Some(self.findings.clone())
    }

    fn human(&self) -> String {
        let mut text = rigor(&self.diff, self.allowed);
        for place in &self.unsigned_retirements {
            let _ = write!(text, "\n  {} {place}", "needs a signature:".red().bold());
        }
        for id in &self.transitions {
            let _ = write!(text, "\n  {} {id}", "allowed by".green());
        }
        for (id, why) in &self.refused_transitions {
            let _ = write!(text, "\n  {} {id}: {}", "ignored:".yellow(), escape(why));
        }
        if self.lock == LockState::Stale {
            text.push_str(
                "\n\nharness.lock is unchanged from the base: run `satiety harness lock` and commit it",
            );
        }
        if !self.allowed {
            let _ = write!(text, "\n\n{} {RESTORE}", "next:".cyan().bold());
        }
        text
    }

    fn markdown(&self) -> String {
        let mut text = format!(
            "### Harness: {}\n\n| change | location | reason |\n|---|---|---|",
            if self.allowed {
                "at least as rigorous"
            } else {
                "weaker"
            }
        );
        let cell = |text: &str| escape(text).replace('|', "\\|");
        for change in &self.diff.changes {
            let _ = write!(
                text,
                "\n| {} | `{}` | {} |",
                rigor_word(change.rigor),
                cell(&change.place),
                cell(&change.reason)
            );
        }
        for place in &self.unsigned_retirements {
            let _ = write!(text, "\n| weaker | `{}` | needs a signature |", cell(place));
        }
        if !self.allowed {
            let _ = write!(text, "\n\n**Next:** {RESTORE}");
        }
        text
    }
}

impl Render for LockedHarness {
    fn human(&self) -> String {
        let covers = &self.covers;
        let state = match (self.current, self.written) {
            (_, true) => "written".green().bold().to_string(),
            (true, false) => "current".green().bold().to_string(),
            (false, false) => "stale".red().bold().to_string(),
        };
        let mut text = format!(
            "{}  {state}\nhash       {}\nversion    {}\ncovers     {}, {}, {}, {}, {}",
            self.file,
            self.hash,
            short(&self.version),
            count(covers.suites, "suite", "suites"),
            count(covers.cases, "case", "cases"),
            count(covers.baselines, "baseline", "baselines"),
            count(covers.targets, "target", "targets"),
            count(covers.approvers, "approver key", "approver keys")
        );
        changes(&mut text, &self.changes);
        if self.written {
            let _ = write!(
                text,
                "\n\n{} commit it with the suites; in CI run `satiety harness check git:BASE DIRECTORY`",
                "next:".cyan().bold()
            );
        } else if !self.current {
            let _ = write!(text, "\n\n{} satiety harness lock", "next:".cyan().bold());
        }
        text
    }
}

impl Render for SignedTransition {
    fn human(&self) -> String {
        format!(
            "{} signed by {}, valid until {}\n{}\n\n{} commit the file with the change",
            self.id,
            escape(&self.statement.approver),
            self.statement.expires_at,
            self.file,
            "next:".cyan().bold()
        )
    }
}

impl Render for ProposeExpansionResponse {
    fn human(&self) -> String {
        let mut text = match (&self.expansion_id, &self.proposal_hash) {
            (Some(expansion), Some(hash)) => format!("proposed  for {expansion}, hash {}", short(hash)),
            _ => "dry run, not stored".to_owned(),
        };
        changes(&mut text, &self.diff.changes);
        for idea in &self.ideas {
            let _ = write!(text, "\n  idea only, not part of the proposal: {idea}");
        }
        for refused in &self.refused {
            let _ = write!(text, "\n  {} {refused}", "refused".yellow());
        }
        if self.expansion_id.is_some() {
            let _ = write!(
                text,
                "\n\n{} review and sign it: `satiety harness approve --key FILE`",
                "next:".cyan().bold()
            );
        }
        text
    }

    fn markdown(&self) -> String {
        match yaml(&self.expansion_proposals) {
            Ok(yaml) => format!("```yaml\n{}\n```", yaml.trim_end()),
            Err(_) => format!("```text\n{}\n```", anstream::adapter::strip_str(&self.human())),
        }
    }
}

impl Render for ApprovalDecision {
    fn human(&self) -> String {
        match self.phase {
            Phase::Rejected => format!(
                "{} was rejected by {}: {}",
                self.expansion_id, self.by, self.detail
            ),
            _ => format!(
                "{} was approved by {} (proposal {})\n\n{} apply it: `satiety harness apply`",
                self.expansion_id,
                self.by,
                short(&self.detail),
                "next:".cyan().bold()
            ),
        }
    }
}

impl Render for AppliedExpansion {
    fn human(&self) -> String {
        let failed = self.outcomes.iter().filter(|outcome| !outcome.passed).count();
        let mut text = format!(
            "{}  {}  version {}\nnew cases {}, of which the system fails {failed}",
            self.expansion_id,
            phase(self.phase),
            short(&self.version),
            self.outcomes.len()
        );
        if let Some(ended) = &self.ended {
            let _ = write!(text, "\nrolled back by {}: {}", ended.by, ended.why);
        }
        if self.interrupted {
            let _ = write!(
                text,
                "\n\n{} continue with `satiety harness apply`",
                "interrupted:".yellow().bold()
            );
        } else if let Some(anchor) = &self.anchor {
            let _ = write!(
                text,
                "\nanchor    {}:{}\n          also in .harness/anchor.json; commit it with the suites",
                anchor.seq, anchor.hash
            );
        }
        text
    }
}

impl Render for History {
    fn human(&self) -> String {
        if self.entries.is_empty() {
            return "no events yet; record a cycle with `satiety harness record`".into();
        }
        let rows = self.entries.iter().map(|entry| {
            vec![
                entry.seq.to_string(),
                entry.at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
                entry.kind.clone(),
                describe_event(entry),
            ]
        });
        table(&["", "time", "event", ""], &[0], rows)
    }
}

/// One-line description of an event.
fn describe_event(entry: &Entry) -> String {
    let body = &entry.body;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let detail = &body["detail"];
    match entry.kind.as_str() {
        "cycle" => format!(
            "{} {:.2} {}{}",
            text(&body["level"]),
            body["score"].as_f64().unwrap_or_default(),
            text(&body["cycle_id"]),
            if body["unverified"] == true {
                ", unverified"
            } else {
                ""
            }
        ),
        "adopted" => format!(
            "version {}, {}",
            short(&text(&body["version"])),
            text(&body["why"])
        ),
        "keys" => format!("approvers, by {}", text(&body["by"])),
        "history_begun" => format!("by {}: {}", text(&body["by"]), text(&body["why"])),
        "triggered" => format!("{} {}", text(&body["expansion_id"]), text(&detail["reason"])),
        "approved" => format!(
            "{} by {}",
            text(&body["expansion_id"]),
            text(&detail["approval"]["statement"]["approver"])
        ),
        "rejected" | "rollback_requested" => format!("by {}: {}", text(&detail["by"]), text(&detail["why"])),
        "rollback" => text(&detail["why"]),
        "enabled" => format!(
            "{}/{} {}",
            text(&detail["case"]["suite"]),
            text(&detail["case"]["case_id"]),
            if detail["passed"] == true {
                "passes"
            } else {
                "fails"
            }
        ),
        "baseline_verified" => text(&detail["detail"]),
        "archived" | "committed" => format!("version {}", short(&text(&detail["version"]))),
        "proposed" => format!(
            "{} leads to {}",
            short(&text(&detail["proposal_hash"])),
            short(&text(&detail["to_version"]))
        ),
        _ => text(&body["expansion_id"]),
    }
}

impl Render for VerifyResponse {
    fn human(&self) -> String {
        let mut text = if self.problems.is_empty() {
            format!(
                "{}, no tampering detected",
                count(self.entries, "entry", "entries")
            )
        } else {
            format!("{} entries, {}", self.entries, "tampering detected".red().bold())
        };
        for problem in &self.problems {
            let _ = write!(text, "\n  {problem}");
        }
        match &self.anchor {
            Some(anchor) => {
                let _ = write!(text, "\ncompared with known entry {}", anchor.seq);
            }
            None => {
                text.push_str("\nno anchor: a truncated or completely rewritten log would not be detected");
            }
        }
        if let Some(last) = &self.last {
            let _ = write!(text, "\nanchor    {}:{}", last.seq, last.hash);
        }
        text
    }
}

impl Render for Keys {
    fn human(&self) -> String {
        let mut text = match &self.file {
            Some(file) => format!("approvers in {file}:"),
            None => "no satiety.toml at or above the harness".into(),
        };
        if self.approvers.is_empty() {
            text.push_str("\n  none; create a key with `satiety harness keygen --name NAME`");
        }
        for key in &self.approvers {
            let _ = write!(text, "\n  {}  {}", key.name, key.public_key);
        }
        let known = match (self.known, &self.difference) {
            (Some(true), _) => "the log has the same keys".to_owned(),
            (_, Some(difference)) => format!(
                "{} {difference}; approvals are blocked until the change is signed with a previously trusted key",
                "changed:".red().bold()
            ),
            _ => "the log has no keys yet; these are trusted from the first cycle or approval on".to_owned(),
        };
        let _ = write!(text, "\n{known}");
        text
    }
}

/// Result of generating a key.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct GeneratedKey {
    /// Name of the approver.
    pub(super) name: String,
    /// Public key, for `harness.approvers` in `satiety.toml`.
    pub(super) public_key: String,
    /// File with the encrypted private key.
    pub(super) file: String,
}

impl Render for GeneratedKey {
    fn human(&self) -> String {
        format!(
            "wrote the key to {}; back it up and keep it away from agents\n\nadd this to the repository's satiety.toml:\n\n[[harness.approvers]]\nname = {}\npublic_key = {}",
            self.file,
            toml_edit::value(&self.name),
            toml_edit::value(&self.public_key)
        )
    }
}

/// Auditor verdicts.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct Audits {
    /// Verdicts, newest first.
    pub(super) audits: Vec<AuditRow>,
}

impl Render for Audits {
    fn human(&self) -> String {
        if self.audits.is_empty() {
            return "no auditor verdicts yet; add one with `satiety harness audit add`".into();
        }
        let rows = self.audits.iter().map(|audit| {
            vec![
                audit.cycle_id.clone(),
                audit.auditor.clone(),
                if audit.accepts { "accepts" } else { "rejects" }.to_owned(),
                audit.note.clone(),
            ]
        });
        table(&["cycle", "auditor", "verdict", "note"], &[], rows)
    }
}

/// Proposals in the specification's YAML format.
#[cfg(feature = "yaml")]
pub(super) fn yaml(content: &ExpansionProposals) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct ProposalFile<'a> {
        expansion_proposals: &'a ExpansionProposals,
    }
    serde_saphyr::to_string(&ProposalFile {
        expansion_proposals: content,
    })
    .map_err(|error| Failure::environment(format!("cannot write YAML: {error}"), None))
}

#[cfg(not(feature = "yaml"))]
pub(super) fn yaml(_: &ExpansionProposals) -> Result<String, Failure> {
    Err(Failure::environment(
        "this build does not support YAML (cargo feature `yaml`)",
        None,
    ))
}

fn rigor(diff: &RigorDiff, allowed: bool) -> String {
    if diff.from == diff.to && diff.changes.is_empty() && allowed {
        return format!("{}  the harness is unchanged", "as rigorous".green().bold());
    }
    let mut text = if allowed {
        format!(
            "{}  {} -> {}",
            "at least as rigorous".green().bold(),
            short(&diff.from),
            short(&diff.to)
        )
    } else {
        format!(
            "{}  {} -> {}",
            "weaker".red().bold(),
            short(&diff.from),
            short(&diff.to)
        )
    };
    changes(&mut text, &diff.changes);
    text
}

pub(super) fn changes(text: &mut String, all: &[Change]) {
    for sort in [Rigor::Weaker, Rigor::Incomparable, Rigor::Harder, Rigor::Neutral] {
        let mut of_sort: Vec<&Change> = all.iter().filter(|change| change.rigor == sort).collect();
        // A few thresholds must not be lost among many cases.
        of_sort.sort_by_key(|change| change.place.starts_with("suites."));
        for change in of_sort.iter().take(MAX_CHANGES) {
            let word = format!("{:<12}", rigor_word(sort));
            let word = match sort {
                Rigor::Weaker | Rigor::Incomparable => word.red().to_string(),
                Rigor::Harder => word.green().to_string(),
                Rigor::Neutral => word,
            };
            let (place, reason) = (escape(&change.place), escape(&change.reason));
            let _ = write!(text, "\n  {word} {place}: {reason}");
        }
        if of_sort.len() > MAX_CHANGES {
            let _ = write!(
                text,
                "\n  … and {} more that are {}",
                of_sort.len() - MAX_CHANGES,
                rigor_word(sort)
            );
        }
    }
}

fn rigor_word(rigor: Rigor) -> &'static str {
    match rigor {
        Rigor::Weaker => "weaker",
        Rigor::Incomparable => "incomparable",
        Rigor::Neutral => "neutral",
        Rigor::Harder => "harder",
    }
}
