//! Page that shows two agents' runs step by step, aligned by what the agents did: steps that both took stand side by side.

use std::collections::HashMap;

use satiety::trajectory::Step;
use satiety_engine::progress::StoredRun;
use satiety_report::document::{badge, link, or_dash};
use satiety_report::html::{Html, blocks, escape, joined};
use satiety_report::{Block, Table, row};

use super::progress::{action, run_path};
use super::shell::{count, frame, lead, run_tone, trail};

/// Maximum number of steps of each run that are aligned: the table of the alignment has the square of it.
const MAX_STEPS: usize = 400;

/// Indices of steps side by side; `None` where only the other run has the step.
type Pair = (Option<usize>, Option<usize>);

pub(super) fn page(left: &StoredRun, right: &StoredRun) -> String {
    let pairs = align(&actions(left), &actions(right));
    let common = pairs
        .iter()
        .filter(|pair| matches!(pair, (Some(_), Some(_))))
        .count();
    let mut body = vec![
        trail(&[("/progress", "Agent runs")]),
        lead("Steps with the same action stand side by side. A step opens with its evidence."),
        blocks(&[Block::Table(summary(left, right))]),
        table(left, right, &pairs),
    ];
    let words = format!("{} in both runs.", count(common, "step is", "steps are"));
    body.insert(3, blocks(&[Block::text(words)]));
    for run in [left, right] {
        let more = run.actions.len().saturating_sub(MAX_STEPS);
        if more > 0 {
            body.push(blocks(&[Block::note(format!(
                "{more} later steps of {} are not compared",
                run.conversation_id
            ))]));
        }
    }
    frame("/progress", "Two agent runs", &body)
}

fn actions(run: &StoredRun) -> Vec<String> {
    run.actions.iter().take(MAX_STEPS).map(action).collect()
}

fn summary(left: &StoredRun, right: &StoredRun) -> Table {
    // A sum of nothing is unknown, not zero.
    let tokens = |run: &StoredRun| {
        let tokens = run.actions.iter().filter_map(|step| step.usage.tokens);
        tokens.reduce(u64::saturating_add)
    };
    let cost = |run: &StoredRun| {
        let costs = run.actions.iter().filter_map(|step| step.usage.cost);
        costs.filter(|cost| cost.is_finite()).reduce(|a, b| a + b)
    };
    let rows = [left, right].map(|run| {
        let step = |step: Option<usize>| step.map_or_else(|| "–".to_owned(), |step| step.to_string());
        row![
            link(run_path(&run.conversation_id), &run.conversation_id),
            badge(run_tone(run.report.signal.as_str()), run.report.signal.as_str()),
            run.actions.len(),
            step(run.report.first_nudge_step),
            step(run.report.first_stop_step),
            tokens(run).map_or_else(|| "-".to_owned(), |tokens| tokens.to_string()),
            or_dash(cost(run), |cost| format!("${cost:.4}")),
        ]
    });
    let header = [
        "run",
        "signal",
        "steps",
        "first nudge",
        "first stop",
        "tokens",
        "cost",
    ];
    Table::new(&header, &[2, 3, 4, 5, 6], rows)
}

fn table(left: &StoredRun, right: &StoredRun, pairs: &[Pair]) -> Html {
    let cell = |run: &StoredRun, index: Option<usize>| {
        let Some((index, step)) = index.and_then(|index| Some((index, run.actions.get(index)?))) else {
            return "<td class=\"of\">–</td>".to_owned();
        };
        format!(
            "<td data-label=\"{}\"><a href=\"{}/steps/{}\">{}</a> {}</td>",
            escape(&run.conversation_id),
            escape(&run_path(&run.conversation_id)),
            index + 1,
            index + 1,
            escape(&shortened(step))
        )
    };
    let lines: Vec<Html> = pairs
        .iter()
        .map(|(a, b)| Html(format!("<tr>{}{}</tr>", cell(left, *a), cell(right, *b))))
        .collect();
    Html(format!(
        "<section class=\"list\"><h2>Step by step</h2><div class=\"wide\" tabindex=\"0\"><table class=\"rows stack\"><thead><tr>\
         <th scope=\"col\">{}</th><th scope=\"col\">{}</th></tr></thead>\n<tbody>{}</tbody></table></div></section>",
        escape(&left.conversation_id),
        escape(&right.conversation_id),
        joined(&lines)
    ))
}

fn shortened(step: &Step) -> String {
    action(step).chars().take(140).collect()
}

/// Longest common subsequence of two lists of actions, with the other steps of both between.
fn align(left: &[String], right: &[String]) -> Vec<Pair> {
    // Comparing numbers is cheaper than comparing texts.
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut ids: Vec<usize> = Vec::with_capacity(left.len() + right.len());
    for text in left.iter().chain(right) {
        let next = known.len();
        ids.push(*known.entry(text).or_insert(next));
    }
    let (a, b) = ids.split_at(left.len());
    let width = b.len() + 1;
    let mut lengths = vec![0_u32; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            lengths[i * width + j] = if a[i] == b[j] {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            pairs.push((Some(i), Some(j)));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])
        {
            pairs.push((Some(i), None));
            i += 1;
        } else {
            pairs.push((None, Some(j)));
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_steps_stand_side_by_side() {
        let texts = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            align(&texts("read test edit"), &texts("read edit test edit")),
            [
                (Some(0), Some(0)),
                (None, Some(1)),
                (Some(1), Some(2)),
                (Some(2), Some(3))
            ]
        );
        assert_eq!(
            align(&texts("a"), &texts("b")),
            [(Some(0), None), (None, Some(0))]
        );
    }
}
