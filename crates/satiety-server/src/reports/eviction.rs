//! Eviction as pages: what became of proposals, how well keep-backs were foretold, and how policies do.

use std::fmt::Write;

use satiety::eviction::calibration::{Prediction, RateRow};
use satiety::eviction::{Fate, ResolvedBy, Timeline, TimelineRow};
use satiety::stats::wilson;
use satiety_engine::eviction::{Feedback, Simulated};

use crate::charts::{Ranged, figure, intervals, shares};
use crate::html::{Html, escape, page, paragraph, section, table, verdict};

/// From here on keep-backs count as foretold.
const GOOD_AUC: f64 = 0.7;

/// How often items were kept back, and how well that was foretold.
pub fn eviction_feedback(feedback: &Feedback) -> String {
    page("Eviction: what is kept back?", &feedback_parts(feedback))
}

/// The same as parts of a page.
pub(crate) fn feedback_parts(feedback: &Feedback) -> Vec<Html> {
    let mut body = vec![paragraph(&format!(
        "{} proposals answered, {} timed out (nothing is learned from those), {} open.",
        feedback.answered, feedback.timed_out, feedback.open
    ))];
    let Some(report) = &feedback.report else {
        body.push(verdict(
            "unsure",
            "Nothing was answered yet.",
            "There is nothing to show.",
        ));
        return body;
    };
    if let Some(prediction) = &report.prediction {
        body.push(section(
            "Was it foretold?",
            &[
                verdict(
                    if prediction.auc >= GOOD_AUC {
                        "good"
                    } else {
                        "unsure"
                    },
                    &format!("AUC {:.3}.", prediction.auc),
                    &format!(
                        "Brier {:.3}, calibration error {:.3}; {} of {} candidates were kept back.",
                        prediction.brier, prediction.ece, report.overall.kept_back, report.labels
                    ),
                ),
                reliability(prediction),
            ],
        ));
    }
    let groups: [(&str, &[RateRow]); 5] = [
        ("zone", &report.rates.zone),
        ("turns since the last use", &report.rates.age),
        ("kind", &report.rates.kind),
        ("scope", &report.rates.scope),
        ("score", &report.rates.score),
    ];
    // One group alone is everything, which was said above.
    for (name, rows) in groups.into_iter().filter(|(_, rows)| rows.len() > 1) {
        let rows: Vec<Ranged> = rows
            .iter()
            .map(|row| Ranged {
                label: format!("{} ({})", row.group, row.proposed),
                value: row.rate,
                interval: Some((row.interval.low, row.interval.high)),
                hint: format!("{} of {} kept back", row.kept_back, row.proposed),
            })
            .collect();
        body.push(shares(
            &format!("Share kept back by {name}, with 95 % intervals"),
            &rows,
        ));
    }
    body
}

/// A reliability diagram: what was foretold beside what happened.
fn reliability(prediction: &Prediction) -> Html {
    const LEFT: f64 = 46.0;
    const TOP: f64 = 12.0;
    const SIDE: f64 = 320.0;
    let x = |p: f64| LEFT + p.clamp(0.0, 1.0) * SIDE;
    let y = |p: f64| TOP + (1.0 - p.clamp(0.0, 1.0)) * SIDE;
    let mut inside = String::new();
    // Writing to a string cannot fail.
    for tenth in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = write!(
            inside,
            "<line class=\"axis\" x1=\"{a:.1}\" x2=\"{a:.1}\" y1=\"{TOP}\" y2=\"{b:.1}\"/>\
             <line class=\"axis\" x1=\"{LEFT}\" x2=\"{r:.1}\" y1=\"{c:.1}\" y2=\"{c:.1}\"/>\
             <text x=\"{a:.1}\" y=\"{t:.1}\" text-anchor=\"middle\">{tenth:.2}</text>\
             <text x=\"{l:.1}\" y=\"{d:.1}\" text-anchor=\"end\">{tenth:.2}</text>",
            a = x(tenth),
            b = y(0.0),
            c = y(tenth),
            r = x(1.0),
            t = y(0.0) + 18.0,
            l = LEFT - 6.0,
            d = y(tenth) + 4.0
        );
    }
    let _ = write!(
        inside,
        "<line class=\"zero\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke-dasharray=\"4 4\"/>",
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0)
    );
    let total: usize = prediction.reliability.iter().map(|bin| bin.count).sum();
    let mut points = Vec::new();
    for bin in &prediction.reliability {
        let (Some(predicted), Some(observed)) = (bin.mean_predicted, bin.observed) else {
            continue;
        };
        points.push(format!("{:.1},{:.1}", x(predicted), y(observed)));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count is a count"
        )]
        let kept = (observed * bin.count as f64).round() as u64;
        if let Ok(interval) = wilson(kept, bin.count as u64, 0.95) {
            let _ = write!(
                inside,
                "<line class=\"band\" stroke-width=\"1.5\" x1=\"{a:.1}\" x2=\"{a:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
                y(interval.low),
                y(interval.high),
                a = x(predicted)
            );
        }
        let _ = write!(
            inside,
            "<circle class=\"mark\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{:.1}\"><title>foretold {predicted:.3}, kept back \
             {observed:.3}, {} items</title></circle>",
            x(predicted),
            y(observed),
            3.0 + 7.0 * (bin.count as f64 / total.max(1) as f64).sqrt(),
            bin.count
        );
    }
    let _ = write!(
        inside,
        "<polyline class=\"line\" points=\"{}\"/>",
        points.join(" ")
    );
    let _ = write!(
        inside,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">foretold probability of being kept back</text>\
         <text x=\"{:.1}\" y=\"{:.1}\">share that was kept back; the dashed line is perfect</text>",
        x(0.5),
        y(0.0) + 38.0,
        x(1.0) + 16.0,
        TOP + 12.0
    );
    let title = "Reliability: what was foretold beside what happened, with 95 % intervals; larger dots are more items";
    let share = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.3}"));
    let bins = prediction.reliability.iter().filter(|bin| bin.count > 0);
    let values = table(
        &["foretold", "kept back", "items"],
        &[0, 1, 2],
        bins.map(|bin| {
            vec![
                share(bin.mean_predicted),
                share(bin.observed),
                bin.count.to_string(),
            ]
        }),
    );
    figure(title, TOP + SIDE + 50.0, &inside, &values)
}

/// What became of each proposal of a scope.
pub fn eviction_timeline(scope_id: &str, timeline: &Timeline) -> String {
    page(
        &format!("Eviction: the story of {scope_id}"),
        &timeline_parts(timeline),
    )
}

/// The same as parts of a page.
pub(crate) fn timeline_parts(timeline: &Timeline) -> Vec<Html> {
    let proposals: Vec<Html> = timeline.rows.iter().rev().map(proposal).collect();
    vec![
        bars(&timeline.rows),
        section("Proposals, the latest first", &proposals),
    ]
}

/// One proposal; those that somebody had something to say about are open.
fn proposal(row: &TimelineRow) -> Html {
    let by = row.resolved_by.map_or("open", ResolvedBy::name).replace('_', " ");
    let dropped = |fate: Fate| matches!(fate, Fate::Dropped | Fate::SecondPass);
    let open = if row.items.iter().all(|item| dropped(item.fate)) {
        ""
    } else {
        " open"
    };
    let items = table(
        &["item", "tokens", "what became of it", "why"],
        &[1],
        row.items.iter().map(|item| {
            vec![
                item.ctx_id.clone(),
                item.token_count.to_string(),
                item.fate.words().to_owned(),
                item.exclude_reason.clone().unwrap_or_default(),
            ]
        }),
    );
    Html(format!(
        "<details{open}><summary>Turn {}: {} tokens freed, {} needed ({})</summary>\n{items}\n</details>",
        row.turn_number,
        row.freed_tokens,
        row.need_tokens,
        escape(&by)
    ))
}

/// One bar a proposal: tokens dropped, kept back, gone all the same.
fn bars(rows: &[TimelineRow]) -> Html {
    const LEFT: f64 = 90.0;
    const WIDTH: f64 = 640.0;
    const HEIGHT: f64 = 26.0;
    let tokens = |row: &TimelineRow| row.items.iter().map(|item| item.token_count).sum::<u64>();
    let most = rows.iter().map(tokens).max().unwrap_or(0).max(1) as f64;
    let mut inside = String::new();
    for (index, row) in rows.iter().enumerate() {
        let top = 6.0 + index as f64 * HEIGHT;
        let _ = write!(
            inside,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">turn {}</text>",
            LEFT - 8.0,
            top + 14.0,
            row.turn_number
        );
        let mut x = LEFT;
        for item in &row.items {
            let width = item.token_count as f64 / most * WIDTH;
            let class = match item.fate {
                Fate::KeptBack | Fate::PinnedSince => "up",
                Fate::Dropped | Fate::SecondPass => "mark",
                Fate::Overruled => "down",
                Fate::Proposed => "same",
            };
            let _ = write!(
                inside,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"18\"><title>{}: {}, {} \
                 tokens</title></rect>",
                (width - 1.0).max(0.5),
                escape(&item.ctx_id),
                item.fate.words(),
                item.token_count
            );
            x += width;
        }
    }
    let bottom = 6.0 + rows.len() as f64 * HEIGHT;
    let legend = [
        ("mark", "dropped"),
        ("up", "kept back"),
        ("down", "wanted, went all the same"),
        ("same", "open"),
    ];
    for (index, (class, words)) in legend.iter().enumerate() {
        let x = LEFT + [0.0, 110.0, 230.0, 440.0].get(index).copied().unwrap_or_default();
        let _ = write!(
            inside,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/><text x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
            bottom + 8.0,
            x + 18.0,
            bottom + 18.0
        );
    }
    let title = "Tokens of each proposal: what went and what was kept back";
    let items = |row: &TimelineRow, fates: &[Fate]| {
        let of = row.items.iter().filter(|item| fates.contains(&item.fate));
        of.map(|item| item.token_count).sum::<u64>().to_string()
    };
    let values = table(
        &[
            "turn",
            "dropped",
            "kept back",
            "wanted, went all the same",
            "open",
        ],
        &[0, 1, 2, 3, 4],
        rows.iter().map(|row| {
            vec![
                row.turn_number.to_string(),
                items(row, &[Fate::Dropped, Fate::SecondPass]),
                items(row, &[Fate::KeptBack, Fate::PinnedSince]),
                items(row, &[Fate::Overruled]),
                items(row, &[Fate::Proposed]),
            ]
        }),
    );
    figure(title, bottom + 30.0, &inside, &values)
}

/// How policies did on a trace.
pub fn eviction_simulation(simulated: &Simulated) -> String {
    let policies = &simulated.simulation.policies;
    let mut body = vec![
        paragraph(&format!(
            "{}: {} sessions, {} turns, {} uses. Means over sessions.",
            simulated.trace,
            simulated.simulation.sessions,
            simulated.simulation.turns,
            simulated.simulation.uses
        )),
        table(
            &[
                "policy",
                "hit rate",
                "of the bound",
                "by tokens",
                "answers preserved",
                "tokens kept",
                "reread / 1000 turns",
            ],
            &[1, 2, 3, 4, 5, 6],
            policies.iter().map(|report| {
                vec![
                    report.policy.clone(),
                    format!("{:.3}", report.hit_rate),
                    report
                        .share_of_bound
                        .map_or_else(|| "-".into(), |share| format!("{share:.3}")),
                    format!("{:.3}", report.token_hit_rate),
                    format!("{:.3}", report.answers_preserved),
                    format!("{:.0}", report.tokens_retained),
                    format!("{:.0}", report.reread_tokens_per_1000_turns),
                ]
            }),
        ),
    ];
    let names: Vec<String> = policies
        .iter()
        .flat_map(|report| &report.against)
        .map(|other| other.policy.clone())
        .collect();
    for name in names.iter().collect::<std::collections::BTreeSet<_>>() {
        let rows: Vec<Ranged> = policies
            .iter()
            .filter_map(|report| {
                let other = report.against.iter().find(|other| other.policy == *name)?;
                let interval = other.difference.interval;
                Some(Ranged {
                    label: report.policy.clone(),
                    value: other.difference.estimate,
                    interval: Some((interval.low, interval.high)),
                    hint: format!(
                        "{:+.3} ({:+.3} to {:+.3})",
                        other.difference.estimate, interval.low, interval.high
                    ),
                })
            })
            .collect();
        body.push(intervals(
            &format!("Hit rate minus that of {name}, with 95 % intervals"),
            &rows,
        ));
    }
    page("Eviction: which policy keeps what is needed?", &body)
}
