//! Reviews: conversations whose claims are findings with a severity. Every finding may be new for ever, so
//! such a loop is judged by its yield: the weight of the new findings of each round.

use std::sync::LazyLock;

use serde::Deserialize;

use super::novelty::{ClaimLedger, RoundClaims};
use super::profile::ReviewRules;
use super::report::{Review, RoundUnseen, RoundYield};

/// A severity and the words that state it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Severity {
    name: String,
    weight: f64,
    markers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Severities {
    fields: Vec<String>,
    severity: Vec<Severity>,
}

const SEVERITY_FILE: &str = include_str!("data/severities.toml");
/// A test reads the file, so that the list is never empty.
static SEVERITIES: LazyLock<Severities> = LazyLock::new(|| toml::from_str(SEVERITY_FILE).unwrap_or_default());

/// Widest 95 % interval of the unseen share that is worth reporting.
const RELIABLE_WIDTH: f64 = 0.4;

/// The discovery curve of a review so far.
#[derive(Debug, Clone, Default)]
pub(super) struct ReviewLedger {
    claims: usize,
    findings: usize,
    /// Rounds with at least one finding that states a severity.
    yields: Vec<RoundYield>,
}

impl ReviewLedger {
    /// Adds the claims of a round. Returns whether what remains is below the bar: the claims are mostly
    /// findings with a severity, and the yield of the latest rounds stayed below the bar of the profile.
    pub(super) fn observe(
        &mut self,
        round: u32,
        ledger: &ClaimLedger,
        claims: &RoundClaims,
        rules: &ReviewRules,
    ) -> bool {
        self.claims += claims.findings.len();
        let mut this = RoundYield {
            round,
            findings: 0,
            new_findings: 0,
            weighted_yield: 0.0,
            worst: None,
        };
        let mut worst = 0.0;
        for finding in &claims.findings {
            let Some(severity) = severity_of(&ledger.recorded[finding.index].text) else {
                continue;
            };
            this.findings += 1;
            if finding.is_new() {
                this.new_findings += 1;
                this.weighted_yield += severity.weight;
                if severity.weight > worst {
                    worst = severity.weight;
                    this.worst = Some(severity.name.clone());
                }
            }
        }
        if this.findings == 0 {
            return false;
        }
        self.findings += this.findings;
        self.yields.push(this);
        self.is_review(rules) && self.is_below_bar(rules)
    }

    fn is_review(&self, rules: &ReviewRules) -> bool {
        self.findings >= rules.minimum_findings
            && self.findings as f64 >= rules.minimum_share * self.claims as f64
    }

    fn is_below_bar(&self, rules: &ReviewRules) -> bool {
        let rounds = rules.rounds as usize;
        let latest = self.yields.iter().rev().take(rounds);
        self.yields.len() >= rounds && latest.into_iter().all(|round| round.weighted_yield < rules.bar)
    }

    /// The review for the report; `None` for other conversations.
    pub(super) fn report(&self, rules: &ReviewRules, unseen: &RoundUnseen) -> Option<Review> {
        if !self.is_review(rules) {
            return None;
        }
        let reliable = unseen
            .unseen_interval
            .is_some_and(|interval| interval.high - interval.low <= RELIABLE_WIDTH);
        Some(Review {
            yield_by_round: self.yields.clone(),
            bar: rules.bar,
            below_bar: self.is_below_bar(rules),
            unseen_share: unseen.unseen_share.filter(|_| reliable),
        })
    }
}

/// The severity that a claim states: in brackets or before a mark at its beginning, or after a field name.
fn severity_of(text: &str) -> Option<&'static Severity> {
    // "P1 bug: …", but not "High memory usage of the importer: …".
    const HEAD_WORDS: usize = 2;
    let lower = text.to_lowercase();
    let claim = lower.trim_start_matches(|edge: char| edge.is_whitespace() || "*_`#-".contains(edge));
    let marks = [']', ')', ':', '(', '—', '–', '|'];
    let (is_bracketed, claim) = match claim.strip_prefix(['[', '(']) {
        Some(inner) => (true, inner),
        None => (false, claim),
    };
    let head = claim
        .find(marks)
        .or_else(|| claim.find(" - "))
        .map_or("", |end| &claim[..end]);
    if is_bracketed || head.split_whitespace().count() <= HEAD_WORDS {
        let found = words(head).find_map(with_marker);
        if found.is_some() {
            return found;
        }
    }
    SEVERITIES.fields.iter().find_map(|field| {
        let (_, after) = lower.split_once(field.as_str())?;
        let is_field = after
            .trim_start_matches(['*', '"', '`', ' '])
            .starts_with([':', '=']);
        is_field
            .then(|| words(after).next().and_then(with_marker))
            .flatten()
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn with_marker(word: &str) -> Option<&'static Severity> {
    SEVERITIES
        .severity
        .iter()
        .find(|severity| severity.markers.iter().any(|marker| marker == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_found_where_reviews_state_them() {
        assert!(!SEVERITIES.severity.is_empty() && !SEVERITIES.fields.is_empty());
        for (text, expected) in [
            ("[P1] The lock is held across the await", Some("high")),
            ("**[critical]** Tokens are logged", Some("critical")),
            ("Critical: tokens are logged", Some("critical")),
            ("nit: rename the variable", Some("nit")),
            ("nit (non-blocking): rename the variable", Some("nit")),
            ("Minor - the comment is stale", Some("low")),
            ("(high) Retries are unbounded", Some("high")),
            ("P2 bug: the counter wraps", Some("medium")),
            ("Retries are unbounded. Severity: high", Some("high")),
            ("Retries are unbounded (severity = medium)", Some("medium")),
            ("High CPU usage comes from the parser", None),
            ("High memory usage of the importer: it reads all lines", None),
            ("The severity of the outage was never measured", None),
            ("[docs] The page is stale", None),
            ("", None),
        ] {
            assert_eq!(
                severity_of(text).map(|found| found.name.as_str()),
                expected,
                "{text}"
            );
        }
    }
}
