//! Reports of eviction: outcomes of proposals, accuracy of predicted exclusions, and comparisons of policies.

use std::collections::BTreeSet;

use satiety::eviction::calibration::{FeedbackReport, Prediction, RateRow};
use satiety::eviction::simulation::{Budget, PolicyReport, Simulation};
use satiety::eviction::{ItemOutcome, ResolvedBy, Timeline, TimelineRow};
use satiety::stats::wilson;

use crate::charts::{Calibration, CalibrationPoint, IntervalMark, Stack, StackBar};
use crate::document::{Block, Chart, Document, Medium, Table, count, or_dash};
use crate::row;

/// Reports how often items were excluded from eviction, and how well that was predicted.
pub fn feedback(answered: usize, timed_out: usize, open: usize, report: Option<&FeedbackReport>) -> Document {
    let mut blocks = vec![Block::text(format!(
        "{} answered, {timed_out} timed out (not used for learning), {open} open",
        count(answered, "proposal", "proposals")
    ))];
    if let Some(report) = report {
        blocks.extend(report_blocks(report));
    }
    Document::new("Eviction: which items are excluded?", blocks)
}

fn report_blocks(report: &FeedbackReport) -> Vec<Block> {
    let mut blocks = vec![Block::text(format!(
        "{} of {} candidates were excluded from eviction.",
        report.overall.kept_back, report.labels
    ))];
    match &report.prediction {
        Some(found) => {
            blocks.push(Block::text(format!("Prediction: {}", metrics(found))));
            blocks.push(Block::Chart(Chart::Calibration(reliability(found))));
        }
        None => blocks.push(Block::text(
            "All candidates had the same outcome, so prediction accuracy cannot be measured.",
        )),
    }
    let groups: [(&str, &[RateRow]); 5] = [
        ("zone", &report.rates.zone),
        ("turns since last use", &report.rates.age),
        ("kind", &report.rates.kind),
        ("scope", &report.rates.scope),
        ("score", &report.rates.score),
    ];
    for (name, rows) in groups {
        // A single group equals the overall rate, which is already reported above.
        if rows.len() > 1 {
            let shares = rows.iter().map(|row| IntervalMark {
                label: format!("{} ({})", row.group, row.proposed),
                value: row.rate,
                interval: Some((row.interval.low, row.interval.high)),
                hint: format!("{} of {} excluded", row.kept_back, row.proposed),
            });
            let title = format!("Share excluded by {name}, with 95 % intervals");
            blocks.push(Block::Chart(Chart::Shares(title, shares.collect())));
        }
        let rows = rows.iter().map(|row| {
            row![
                &row.group,
                row.proposed,
                row.kept_back,
                format!("{:.3}", row.rate),
                format!("{:.3} to {:.3}", row.interval.low, row.interval.high),
            ]
        });
        let header = [name, "proposed", "excluded", "rate", "95 % interval"];
        blocks.push(Block::Only(
            Medium::Text,
            vec![Block::Table(Table::new(&header, &[1, 2, 3], rows))],
        ));
    }
    blocks
}

/// Formats prediction metrics as one line.
pub fn metrics(found: &Prediction) -> String {
    format!(
        "AUC {:.3}, Brier {:.3}, log loss {:.3}, calibration error {:.3}",
        found.auc, found.brier, found.log_loss, found.ece
    )
}

fn reliability(prediction: &Prediction) -> Calibration {
    let points = prediction.reliability.iter().filter_map(|bin| {
        let (predicted, observed) = (bin.mean_predicted?, bin.observed?);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count is a count"
        )]
        let kept = (observed * bin.count as f64).round() as u64;
        Some(CalibrationPoint {
            predicted,
            observed,
            interval: wilson(kept, bin.count as u64, 0.95)
                .ok()
                .map(|ci| (ci.low, ci.high)),
            items: bin.count,
        })
    });
    Calibration {
        title:
            "Reliability: predicted and observed shares, with 95 % intervals; dot size is the number of items"
                .into(),
        axes: ["predicted share excluded", "observed share excluded"],
        points: points.collect(),
    }
}

/// Reports the outcome of each proposal of a scope.
pub fn timeline(scope_id: &str, timeline: &Timeline) -> Document {
    let title = format!("Eviction timeline of {scope_id}");
    if timeline.rows.is_empty() {
        return Document::new(
            title,
            vec![Block::text(format!("{scope_id} has no proposals yet."))],
        );
    }
    let rows = timeline.rows.iter().map(|row| {
        let of = |fates: &[ItemOutcome]| {
            let items = row.items.iter().filter(|item| fates.contains(&item.fate));
            items
                .map(|item| item.ctx_id.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        row![
            row.turn_number.to_string(),
            &row.proposal_id,
            row.resolved_by.map_or("open", ResolvedBy::name),
            format!("{}/{}", row.freed_tokens, row.need_tokens),
            of(&[ItemOutcome::Dropped, ItemOutcome::SecondPass]),
            of(&[ItemOutcome::KeptBack, ItemOutcome::PinnedSince]),
            of(&[ItemOutcome::Overruled]),
        ]
    });
    let header = [
        "turn",
        "proposal",
        "resolved by",
        "freed",
        "dropped",
        "excluded",
        "overruled",
    ];
    let proposals = timeline.rows.iter().rev().map(proposal).collect();
    let blocks = vec![
        Block::Chart(Chart::Stack(bars(&timeline.rows))),
        Block::Only(
            Medium::Text,
            vec![Block::Table(Table::new(&header, &[0, 3], rows))],
        ),
        Block::Only(
            Medium::Page,
            vec![Block::section("Proposals, newest first", proposals)],
        ),
    ];
    Document::new(title, blocks)
}

/// One proposal; expanded unless all of its items were dropped.
fn proposal(row: &TimelineRow) -> Block {
    let by = row.resolved_by.map_or("open", ResolvedBy::name).replace('_', " ");
    let rows = row.items.iter().map(|item| {
        row![
            &item.ctx_id,
            item.token_count,
            item.fate.words(),
            item.exclude_reason.as_deref().unwrap_or_default(),
        ]
    });
    let items = Table::new(&["item", "tokens", "outcome", "reason"], &[1], rows);
    let is_dropped = |fate: ItemOutcome| matches!(fate, ItemOutcome::Dropped | ItemOutcome::SecondPass);
    Block::Details {
        summary: format!(
            "Turn {}: {} tokens freed, {} needed ({by})",
            row.turn_number, row.freed_tokens, row.need_tokens
        )
        .into(),
        open: !row.items.iter().all(|item| is_dropped(item.fate)),
        blocks: vec![Block::Table(items)],
    }
}

fn bars(rows: &[TimelineRow]) -> Stack {
    let kind = |fate: ItemOutcome| match fate {
        ItemOutcome::Dropped | ItemOutcome::SecondPass => 0,
        ItemOutcome::KeptBack | ItemOutcome::PinnedSince => 1,
        ItemOutcome::Overruled => 2,
        ItemOutcome::Proposed => 3,
    };
    let bars = rows.iter().map(|row| StackBar {
        label: row.turn_number.to_string(),
        parts: row
            .items
            .iter()
            .map(|item| {
                let hint = format!(
                    "{}: {}, {} tokens",
                    item.ctx_id,
                    item.fate.words(),
                    item.token_count
                );
                (kind(item.fate), item.token_count, hint)
            })
            .collect(),
    });
    Stack {
        title: "Tokens of each proposal, dropped and excluded".into(),
        axis: "turn",
        kinds: ["dropped", "excluded", "exclusion overruled", "open"],
        bars: bars.collect(),
    }
}

/// Reports how policies performed on a trace.
pub fn simulation(trace: &str, budget: Budget, found: &Simulation) -> Document {
    let budget = match budget {
        Budget::Tokens(tokens) => format!("{tokens} tokens"),
        Budget::Share(share) => format!("{:.0} % of each session's tokens", share * 100.0),
    };
    let others: BTreeSet<&str> = found
        .policies
        .iter()
        .flat_map(|report| &report.against)
        .map(|other| other.policy.as_str())
        .collect();
    let differences: Vec<String> = others
        .iter()
        .map(|name| format!("minus {}", name.to_uppercase()))
        .collect();
    let mut header = vec![
        "policy",
        "hit rate",
        "of bound",
        "by tokens",
        "answers",
        "tokens kept",
        "reread / 1000 turns",
    ];
    header.extend(differences.iter().map(String::as_str));
    let rows = found.policies.iter().map(|report| {
        let mut row = row![
            &report.policy,
            format!("{:.3}", report.hit_rate),
            or_dash(report.share_of_bound, |share| format!("{share:.3}")),
            format!("{:.3}", report.token_hit_rate),
            format!("{:.3}", report.answers_preserved),
            format!("{:.0}", report.tokens_retained),
            format!("{:.0}", report.reread_tokens_per_1000_turns),
        ];
        row.extend(
            others
                .iter()
                .map(|name| against(report, name).map_or("-".into(), |other| other.hint.into())),
        );
        row
    });
    let mut blocks = vec![
        Block::text(format!(
            "{trace}: {}, {}, {}; context of {budget}",
            count(found.sessions, "session", "sessions"),
            count(found.turns, "turn", "turns"),
            count(found.uses, "use", "uses")
        )),
        Block::Table(Table::new(&header, &[1, 2, 3, 4, 5, 6], rows)),
    ];
    for name in others {
        let rows: Vec<IntervalMark> = found
            .policies
            .iter()
            .filter_map(|report| against(report, name))
            .collect();
        let title = format!("Hit rate difference to {name}, with 95 % intervals");
        blocks.push(Block::Chart(Chart::Intervals(title, rows)));
    }
    Document::new("Eviction: policy comparison", blocks)
}

fn against(report: &PolicyReport, name: &str) -> Option<IntervalMark> {
    let other = report.against.iter().find(|other| other.policy == name)?;
    let (value, interval) = (other.difference.estimate, other.difference.interval);
    Some(IntervalMark {
        label: report.policy.clone(),
        value,
        interval: Some((interval.low, interval.high)),
        hint: format!("{value:+.3} ({:+.3} to {:+.3})", interval.low, interval.high),
    })
}
