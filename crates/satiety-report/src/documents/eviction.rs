//! Reports of eviction: outcomes of proposals, accuracy of predicted exclusions, and comparisons of policies.

use std::collections::BTreeSet;

use satiety::eviction::calibration::{FeedbackReport, Fitted, FittedModel, Gain, Prediction, RateRow};
use satiety::eviction::simulation::{Budget, PolicyReport, Simulation};
use satiety::eviction::{CostDecision, EvictionCost, ItemOutcome, ResolvedBy, Timeline, TimelineRow};
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

/// Says what an eviction costs and saves, in tokens at the price of an uncached input token.
pub fn cost(cost: &EvictionCost) -> String {
    let decision = match cost.decision {
        CostDecision::Pays => "Pays for itself",
        CostDecision::Required => "Below break-even, but the context must shrink",
        CostDecision::BelowBreakEven => "Nothing is proposed: below break-even",
    };
    let cache = if cost.cache_warm {
        format!(
            "writing {} tokens to the cache again costs {:.0}",
            cost.rebilled_tokens, cost.rebilling
        )
    } else {
        "the cache has expired, so nothing is billed again".to_owned()
    };
    let from = match cost.break_even_turns {
        Some(turns) => format!("break-even at {}", count_turns(turns)),
        None => "it never pays".to_owned(),
    };
    format!(
        "{decision}. Saves {:.0} tokens over {}; {cache}; {:.1} expected re-reads cost {:.0}; net {:+.0}; {from} \
         (prices of {}, {}).",
        cost.saving,
        count_turns(cost.remaining_turns),
        cost.expected_rereads,
        cost.rereading,
        cost.net,
        cost.provider,
        cost.prices_as_of
    )
}

fn count_turns(turns: f64) -> String {
    let plural = if (0.5..1.5).contains(&turns) { "" } else { "s" };
    format!("{turns:.0} further request{plural}")
}

/// Reports a new scorer version: how well it predicts need on sessions it has not seen, and its reliability.
pub fn calibration(head: &str, fitted: Option<&Fitted>, after: &[String]) -> Document {
    let mut blocks = vec![Block::text(head.to_owned())];
    if let Some(fitted) = fitted {
        let rows = [
            ("active score", &fitted.before),
            ("rescaled", &fitted.rescaled),
            ("with features", &fitted.features),
            ("new version", &fitted.after),
        ]
        .map(|(name, found)| {
            row![
                name,
                format!("{:.4}", found.log_loss),
                format!("{:.3}", found.brier),
                format!("{:.3}", found.auc),
                format!("{:.3}", found.ece),
            ]
        });
        let header = [
            "held-out prediction",
            "log loss",
            "Brier",
            "AUC",
            "calibration error",
        ];
        blocks.push(Block::Table(Table::new(&header, &[1, 2, 3, 4], rows)));
        blocks.push(Block::text(format!(
            "Rescaled: {:+.3} {:+.3} × old log-odds. Gain in log loss by rescaling: {}; by features beyond that: {}, \
             with a risk of {:.2} % of losing on as many sessions again.",
            fitted.intercept,
            fitted.slope,
            gain(&fitted.rescaling),
            gain(&fitted.gain),
            100.0 * fitted.gain.risk
        )));
        blocks.push(Block::text(match fitted.model {
            FittedModel::Rescaled => {
                "The rescaled score ships: the risk that features lose on unseen sessions is not below 0.1 %."
            }
            FittedModel::Features => {
                "Features ship: they predict unseen sessions better than the rescaled score."
            }
        }));
        blocks.push(Block::Chart(Chart::Calibration(reliability(&fitted.after))));
    }
    blocks.extend(after.iter().map(|line| Block::text(line.clone())));
    Document::new("Eviction: new scorer version", blocks)
}

fn gain(gain: &Gain) -> String {
    let (estimate, interval) = (gain.log_loss.estimate, gain.log_loss.interval);
    format!(
        "{estimate:+.4} ({:+.4} to {:+.4}), {}",
        interval.low,
        interval.high,
        if gain.shown { "shown" } else { "not shown" }
    )
}

/// Formats prediction metrics as one line.
fn metrics(found: &Prediction) -> String {
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
        axes: ["predicted share needed", "observed share needed"],
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
pub fn simulation(
    trace: &str,
    budget: Budget,
    provider: &str,
    found: &Simulation,
    broad: Option<&Simulation>,
) -> Document {
    let mut blocks = simulation_blocks(trace, budget, provider, found);
    if let Some(broad) = broad {
        blocks.insert(
            0,
            Block::text("Uses by the strict definition: a path or an id is named again."),
        );
        blocks.push(Block::text("Uses by the broad definition: content reappears."));
        blocks.extend(simulation_blocks(trace, budget, provider, broad));
    }
    Document::new("Eviction: policy comparison", blocks)
}

fn simulation_blocks(trace: &str, budget: Budget, provider: &str, found: &Simulation) -> Vec<Block> {
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
        "re-reads",
        "billed",
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
            format!("{:.1}", report.rereads),
            format!("{:.0}", report.billed_tokens),
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
            "{trace}: {}, {}, {}; context of {budget}; re-reads and billed tokens per session, at {provider}'s cache prices",
            count(found.sessions, "session", "sessions"),
            count(found.turns, "turn", "turns"),
            count(found.uses, "use", "uses")
        )),
        Block::Table(Table::new(&header, &[1, 2, 3, 4, 5, 6, 7], rows)),
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
    blocks
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
