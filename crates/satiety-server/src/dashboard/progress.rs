//! Pages of agents' runs: the list, and one run with its verdict, timeline and steps.

use std::ops::Range;

use jiff::Timestamp;
use satiety::progress::{
    Evidence, EvidenceKind, LogKind, OpenEnd, OpenEndKind, ProgressProfile, ProgressSignal, StepVerdict,
    Waste, telling_line,
};
use satiety::trajectory::{Call, CallResult, Step};
use satiety_engine::lists::SortedPage;
use satiety_engine::progress::{ContextEvent, RunSummary, StoredRun};
use satiety_report::document::{badge, link};
use satiety_report::html::{Html, blocks, escape, joined, line, paragraph};
use satiety_report::series::{Lines, Series};
use satiety_report::{Block, Chart, Table, Text, Tone, row};
use serde_json::{Value, json};

use super::shell::{ago, command, count, frame, lead, moment, run_tone, segment};
use super::table::{Address, Column, Filter, List, ListRow, number_column, text_column};
use super::timeline::{Timeline, event_list};

/// Maximum number of steps on a page.
const MAX_STEPS: usize = 500;
/// Maximum number of characters of an action or outcome in the table.
const SHORT: usize = 110;
/// Maximum number of characters of texts, arguments and results shown for one step, and for all steps of a page. The page
/// of a step shows more.
const STEP_TEXT: usize = 4000;
const PAGE_TEXT: usize = 120_000;
/// Number of characters that every step may show, however many steps there are.
const MIN_STEP_TEXT: usize = 240;
/// Maximum number of characters of a label.
const LABEL: usize = 80;
/// Maximum number of edits listed for one step.
const MAX_EDITS: usize = 5;
/// Rows of a table, or entries of a list, that may be long.
const MAX_ROWS: usize = 100;
/// Seconds after the last message during which the page waits for further ones.
const LIVE: i64 = 10 * 60;

const COLUMNS: [Column; 8] = [
    text_column("run"),
    text_column("signal"),
    text_column("kind"),
    number_column("steps"),
    number_column("wasted").sortable("wasted", true),
    number_column("first nudge"),
    number_column("first stop"),
    text_column("updated").sortable("time", true),
];

/// List of stored runs.
pub(super) fn list_page(address: &Address, found: &SortedPage<RunSummary>, now: Timestamp) -> String {
    if found.rows.is_empty() && address.is_bare() {
        return frame("/progress", "Agent runs", &[no_runs()]);
    }
    let rows = found.rows.iter().map(|run| {
        let step = |step: Option<i64>| match step {
            Some(step) => {
                // A longer run is shown in parts.
                let is_long = usize::try_from(run.steps).is_ok_and(|steps| steps > MAX_STEPS);
                let from = if is_long {
                    format!("?from={step}")
                } else {
                    String::new()
                };
                let path = run_path(&run.conversation_id);
                link(format!("{path}{from}#step-{step}"), step.to_string())
            }
            None => "-".into(),
        };
        let cells = row![
            link(run_path(&run.conversation_id), &run.conversation_id),
            badge(run_tone(&run.signal), &run.signal),
            &run.kind,
            run.steps,
            run.wasted_steps,
            step(run.first_nudge_step),
            step(run.first_stop_step),
            ago(run.updated_at, now),
        ];
        ListRow {
            cells,
            value: Some(run.conversation_id.clone()),
        }
    });
    let list = List {
        address,
        one: "run",
        label: "runs",
        columns: &COLUMNS,
        default_sort: "-time",
        filters: vec![
            Filter::Search("Search runs"),
            Filter::words(
                "signal",
                "Signal",
                &["CONTINUE", "NUDGE", "SHIP", "STOP", "ESCALATE"],
            ),
        ],
        rows: rows.collect(),
        next: found.next.as_ref().map(|place| json!(place).to_string()),
        action: Some(("/compare/progress", "run", "Compare two selected runs")),
    };
    let lead = lead(
        "Agents at work with the latest recommendation. Wasted steps brought nothing new; the columns “first nudge” \
         and “first stop” name the step.",
    );
    frame("/progress", "Agent runs", &[lead, list.render()])
}

/// Empty state: how to report a run.
fn no_runs() -> Html {
    let report = "curl http://127.0.0.1:8787/v1/conversations/run-1/messages \\\n  \
        -H 'Content-Type: application/json' \\\n  \
        -d '{\"messages\": [{\"calls\": [{\"tool\": \"bash\", \"arguments\": {\"command\": \"pytest\"}, \
        \"result\": {\"content\": \"2 failed\", \"exit_code\": 1}}]}]}'";
    let parts = [
        paragraph("No agent runs yet. Report the messages of an agent after each step:"),
        command(report),
        paragraph("Or let the agent report its steps with the MCP tool `report_step`."),
    ];
    Html(format!("<div class=\"empty\">\n{}\n</div>", joined(&parts)))
}

pub(super) fn run_path(id: &str) -> String {
    format!("/progress/{}", segment(id))
}

/// Page of one run; `from` is the first step shown, the last steps if `None`.
/// `messages` is the number of stored messages, from which live updates continue.
pub(super) fn detail_page(
    run: &StoredRun,
    messages: i64,
    events: &[ContextEvent],
    from: Option<usize>,
    labels: Html,
    now: Timestamp,
) -> String {
    let report = &run.report;
    let shown = StepRange::new(run, from);
    let signal = report.signal.as_str();
    let mut body = vec![blocks(&[Block::verdict(
        run_tone(signal),
        format!("{signal}."),
        &report.reason,
        &[],
    )])];
    body.push(next_step(report.signal, report.steps.last()));
    if now.as_second() - run.updated_at.as_second() < LIVE {
        body.push(Html(format!(
            "<div data-live=\"/v1/progress/{}/events\" data-events=\"steps\" data-rounds=\"{}\"></div>",
            escape(&segment(&run.conversation_id)),
            messages
        )));
    }
    if report.kind == LogKind::Deliberation {
        body.push(paragraph(
            "No step calls a tool. This page compares the steps with each other; the list of runs shows the signal of the discussion.",
        ));
    }
    body.push(blocks(&[facts(run, &shown, now)]));
    if report.steps.is_empty() {
        body.push(paragraph("No step is complete yet."));
        return frame("/progress", &run.conversation_id, &body);
    }
    body.extend(shown.links());
    let timeline = Timeline {
        verdicts: shown.verdicts,
        limits: ProgressProfile::built_in().decision,
        first_nudge: report.first_nudge_step,
        first_stop: report.first_stop_step,
        events,
    };
    body.push(timeline.figure());
    body.extend(event_list(events, shown.total, |step| shown.link(step)).map(|list| blocks(&[list])));
    body.extend(usage(run, &shown).map(|chart| blocks(&[chart])));
    body.push(step_table(&shown));
    if !report.tools.is_empty() {
        let rows = report.tools.iter().map(|tool| {
            row![
                shorten(&tool.tool, LABEL),
                tool.calls,
                tool.failures,
                tool.repeats
            ]
        });
        let table = Table::new(&["tool", "calls", "failures", "repeats"], &[1, 2, 3], rows).limit(MAX_ROWS);
        body.push(blocks(&[Block::section("Tools", vec![Block::Table(table)])]));
    }
    if !report.open_ends.is_empty() {
        let items = report.open_ends.iter().take(MAX_ROWS);
        let mut items: Vec<Text> = items.map(|one| open_end(one, &shown)).collect();
        let hidden = report.open_ends.len() - items.len();
        items.extend((hidden > 0).then(|| format!("… and {hidden} more.").into()));
        body.push(blocks(&[Block::section("Open ends", vec![Block::List(items)])]));
    }
    body.push(labels);
    frame("/progress", &run.conversation_id, &body)
}

/// What to do after the last step, with the sentence for the agent.
fn next_step(signal: ProgressSignal, last: Option<&StepVerdict>) -> Html {
    let advice = match signal {
        ProgressSignal::Continue => "Next: let the agent go on.",
        ProgressSignal::Nudge => "Next: add this sentence to the agent's context and let it go on.",
        ProgressSignal::Ship => "Next: review the result; the agent has nothing left open.",
        ProgressSignal::Stop => "Next: stop the agent. If it has to go on, add this sentence to its context.",
        ProgressSignal::Escalate => {
            "Next: bring in a person or another approach. If the agent has to go on, add this sentence to its context."
        }
    };
    let nudge = last.and_then(|verdict| verdict.nudge.as_deref());
    let parts = [paragraph(advice), nudge.map_or_else(Html::default, command)];
    Html(joined(&parts))
}

fn facts(run: &StoredRun, shown: &StepRange<'_>, now: Timestamp) -> Block {
    let report = &run.report;
    let step = |step: Option<usize>| step.map(|step| shown.link(step));
    let tokens = total(run.actions.iter().map(tokens));
    let cost = total(run.actions.iter().map(cost));
    Block::fields([
        ("kind", Some(report.kind.as_str().into())),
        (
            "wasted steps",
            Some(format!("{} of {}", report.wasted_steps, report.steps.len()).into()),
        ),
        ("first nudge", step(report.first_nudge_step)),
        ("first stop", step(report.first_stop_step)),
        (
            "expected waste",
            (report.expected_waste.steps > 0.0).then(|| expected(report.expected_waste).into()),
        ),
        ("confidence", Some(format!("{:.2}", report.confidence).into())),
        ("tokens", tokens.map(|tokens| format!("{tokens:.0}").into())),
        ("cost", cost.map(|cost| format!("{cost:.4}").into())),
        ("started", Some(ago(run.created_at, now))),
        ("updated", Some(ago(run.updated_at, now))),
        ("profile", Some((&report.profile).into())),
    ])
}

/// Sum of the known values; `None` if no value is known.
fn total(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let sum = values.flatten().reduce(|sum, value| sum + value)?;
    sum.is_finite().then_some(sum)
}

fn tokens(step: &Step) -> Option<f64> {
    step.usage.tokens.map(|tokens| tokens as f64)
}

fn cost(step: &Step) -> Option<f64> {
    step.usage.cost.filter(|cost| cost.is_finite())
}

fn expected(waste: Waste) -> String {
    let mut words = format!("{:.1} steps", waste.steps);
    let tokens = waste.tokens.map(|tokens| format!(", {tokens:.0} tokens"));
    words.extend(tokens);
    words.extend(waste.cost.map(|cost| format!(", cost {cost:.4}")));
    words
}

/// The steps on a page.
struct StepRange<'a> {
    path: String,
    total: usize,
    /// Index of the first step shown.
    start: usize,
    verdicts: &'a [StepVerdict],
    actions: &'a [Step],
}

impl<'a> StepRange<'a> {
    fn new(run: &'a StoredRun, from: Option<usize>) -> Self {
        let total = run.report.steps.len();
        let start = match from {
            Some(from) => from.saturating_sub(1).min(total.saturating_sub(1)),
            None => total.saturating_sub(MAX_STEPS),
        };
        let range: Range<usize> = start..total.min(start.saturating_add(MAX_STEPS));
        Self {
            path: run_path(&run.conversation_id),
            total,
            start,
            verdicts: run.report.steps.get(range.clone()).unwrap_or_default(),
            actions: run.actions.get(range).unwrap_or_default(),
        }
    }

    fn end(&self) -> usize {
        self.start + self.verdicts.len()
    }

    /// Address of a step: on this page, or on the page that starts with it.
    fn address(&self, step: usize) -> String {
        if (self.start + 1..=self.end()).contains(&step) {
            format!("#step-{step}")
        } else {
            format!("{}?from={step}#step-{step}", self.path)
        }
    }

    fn link(&self, step: usize) -> Text {
        link(self.address(step), format!("step {step}"))
    }

    /// Which steps are shown, with links to the others; `None` if all are.
    fn links(&self) -> Option<Html> {
        if self.verdicts.len() == self.total {
            return None;
        }
        let page = |from: usize, words: &str| link(format!("{}?from={from}", self.path), words);
        let mut text = Text::from(format!(
            "Steps {} to {} of {}.",
            self.start + 1,
            self.end(),
            self.total
        ));
        if self.start > 0 {
            let from = self.start.saturating_sub(MAX_STEPS) + 1;
            text = text.then(" ").then(page(from, "Earlier steps"));
        }
        if self.end() < self.total {
            text = text.then(" ").then(page(self.end() + 1, "Later steps"));
        }
        Some(blocks(&[Block::Text(text)]))
    }
}

/// Cost or tokens accumulating over the steps, with the spending of earlier pages included; tokens if costs are unknown.
fn usage(run: &StoredRun, shown: &StepRange<'_>) -> Option<Block> {
    type Spending = fn(&Step) -> Option<f64>;
    let known: [(&str, &str, Spending); 2] = [
        ("cost", "Cost by step, accumulated", cost),
        ("tokens", "Tokens by step, accumulated", tokens),
    ];
    let (name, title, value) = known
        .into_iter()
        .find(|(_, _, value)| shown.actions.iter().any(|step| value(step).is_some()))?;
    let before = run.actions.iter().take(shown.start).filter_map(value).sum();
    let totals: Vec<Option<f64>> = shown
        .actions
        .iter()
        .scan(before, |total: &mut f64, step| {
            *total += value(step).unwrap_or(0.0);
            Some(Some(*total))
        })
        .collect();
    let most = totals.iter().flatten().copied().fold(0.0, f64::max);
    Some(Block::Chart(Chart::Lines(Lines {
        title: title.into(),
        axis: "step",
        places: shown
            .verdicts
            .iter()
            .map(|verdict| verdict.step.to_string())
            .collect(),
        series: vec![Series::new(name, totals)],
        thresholds: Vec::new(),
        range: (most > 0.0 && most.is_finite()).then_some((0.0, most)),
    })))
}

/// All steps shown, each with its details folded.
fn step_table(shown: &StepRange<'_>) -> Html {
    let several = shown.actions.iter().any(|step| step.agent.is_some());
    let mut header = vec!["step", "signal", "action", "outcome", "finding"];
    if several {
        header.insert(2, "agent");
    }
    let header: Vec<String> = header
        .iter()
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .collect();
    let most = (PAGE_TEXT / shown.verdicts.len().max(1)).clamp(MIN_STEP_TEXT, STEP_TEXT);
    let rows = shown.verdicts.iter().zip(shown.actions).map(|(verdict, step)| {
        let agent = several.then(|| {
            let name = step.agent.as_deref().unwrap_or("-");
            format!("<td data-label=\"agent\">{}</td>", escape(&shorten(name, 40)))
        });
        format!(
            "<tr id=\"step-{number}\"><th scope=\"row\"><a href=\"{path}/steps/{number}\">{number}</a></th><td data-label=\"signal\">{signal}</td>{agent}\
             <td class=\"action\"><details><summary>{action}</summary>\n{details}\n</details></td>\
             <td class=\"words\" data-label=\"outcome\">{outcome}</td><td class=\"words\" data-label=\"finding\">{findings}</td></tr>",
            number = verdict.step,
            path = escape(&shown.path),
            signal = line(&badge(run_tone(verdict.signal.as_str()), verdict.signal.as_str())),
            agent = agent.unwrap_or_default(),
            action = escape(&action(step)),
            details = step_details(step, verdict, most),
            outcome = escape(&outcome(step)),
            findings = findings(verdict, shown),
        )
    });
    let rows: Vec<String> = rows.collect();
    Html(format!(
        "<section>\n<h2>Steps</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"steps stack\">\n\
         <thead><tr>{}</tr></thead>\n<tbody>\n{}\n</tbody>\n</table></div>\n</section>",
        header.concat(),
        rows.join("\n")
    ))
}

/// The action of a step in a few words: its first call, or what the agent wrote.
pub(super) fn action(step: &Step) -> String {
    let Some(call) = step.calls.first() else {
        let words = first_line(&step.text);
        return if words.is_empty() {
            "no action".into()
        } else {
            shorten(words, SHORT)
        };
    };
    let more = match step.calls.len() - 1 {
        0 => String::new(),
        more => format!(" and {}", count(more, "more call", "more calls")),
    };
    let arguments = match call.command() {
        Some(command) => command.to_owned(),
        None => arguments(call),
    };
    let words = shorten(&format!("{}: {}", call.tool, arguments.trim()), SHORT);
    format!("{}{more}", words.trim_end_matches([':', ' ']))
}

/// The outcome of a step in a few words: the first line of a result, the last one of an error.
fn outcome(step: &Step) -> String {
    let Some(call) = step.calls.first() else {
        let reply = step.replies.first();
        return reply.map_or_else(|| "-".into(), |reply| shorten(first_line(&reply.text), SHORT));
    };
    let Some(result) = &call.result else {
        return "no result yet".into();
    };
    let words = shorten(telling_line(result).unwrap_or_default(), SHORT);
    match failure(result) {
        Some(failure) if words.is_empty() => failure,
        Some(failure) => format!("{failure}: {words}"),
        None if words.is_empty() => "empty".into(),
        None => words,
    }
}

/// How a call failed, if its result says so.
pub(super) fn failure(result: &CallResult) -> Option<String> {
    match result.exit_code {
        Some(code) if code != 0 => Some(format!("exit {code}")),
        _ => (result.error == Some(true)).then(|| "error".into()),
    }
}

fn first_line(text: &str) -> &str {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

pub(super) fn arguments(call: &Call) -> String {
    match &call.arguments {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The start of a text on one line.
fn shorten(text: &str, most: usize) -> String {
    let mut letters = text
        .chars()
        .map(|letter| if letter.is_whitespace() { ' ' } else { letter });
    let kept: String = letters.by_ref().take(most).collect();
    if letters.next().is_some() {
        return format!("{}…", kept.trim_end());
    }
    kept
}

/// The findings about a step, with links to the steps that it repeats.
fn findings(verdict: &StepVerdict, shown: &StepRange<'_>) -> Html {
    if verdict.evidence.is_empty() {
        return Html("new".into());
    }
    let words: Vec<String> = verdict.evidence.iter().map(|one| finding(one, shown).0).collect();
    Html(words.join("; "))
}

fn finding(evidence: &Evidence, shown: &StepRange<'_>) -> Html {
    let words = evidence.describe();
    let Some(step) = evidence
        .earlier_step
        .filter(|_| evidence.kind != EvidenceKind::Cycle)
    else {
        return escape(&words);
    };
    match words.strip_suffix(&format!("step {step}")) {
        Some(before) => Html(format!("{}{}", escape(before), line(&shown.link(step)))),
        None => escape(&words),
    }
}

/// Texts, arguments, results and usage of a step; `most` is the number of characters of its texts.
fn step_details(step: &Step, verdict: &StepVerdict, most: usize) -> Html {
    let mut excerpts = Excerpts::new(most);
    excerpts.push("Text", &step.text);
    for call in &step.calls {
        excerpts.push(&format!("Arguments of {}", call.tool), &arguments(call));
        if let Some(result) = &call.result {
            let label = failure(result).map_or_else(|| "Result".into(), |words| format!("Result ({words})"));
            excerpts.push(&label, &result.content);
        }
    }
    for reply in &step.replies {
        let label = reply.from.as_ref().map(|from| format!("Reply from {from}"));
        excerpts.push(label.as_deref().unwrap_or("Reply"), &reply.text);
    }
    let mut parts = vec![paragraph(&shorten(&verdict.reason, 400))];
    parts.extend(excerpts.finish());
    let known = [
        edits(step),
        step.usage.tokens.map(|tokens| format!("{tokens} tokens")),
        cost(step).map(|cost| format!("cost {cost:.4}")),
        step.time.map(moment),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if !known.is_empty() {
        parts.push(Html(format!(
            "<p><small>{}</small></p>",
            escape(&known.join(", "))
        )));
    }
    Html(joined(&parts))
}

/// The edits of a step, such as `src/a.rs +3 −1`.
fn edits(step: &Step) -> Option<String> {
    let edits = step.calls.iter().flat_map(|call| &call.edits);
    let words: Vec<String> = edits
        .take(MAX_EDITS)
        .map(|edit| format!("{} +{} −{}", shorten(&edit.path, SHORT), edit.added, edit.removed))
        .collect();
    (!words.is_empty()).then(|| format!("edited {}", words.join(", ")))
}

/// Verbatim texts of a step, up to a total length.
struct Excerpts {
    parts: Vec<Html>,
    most: usize,
    remaining: usize,
    hidden: usize,
}

impl Excerpts {
    fn new(most: usize) -> Self {
        Self {
            parts: Vec::new(),
            most,
            remaining: most,
            hidden: 0,
        }
    }

    /// Adds a text: at most half of the total length, so that a long argument leaves space for the result.
    fn push(&mut self, label: &str, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let (start, hidden) = split_chars(text, self.remaining.min(self.most / 2));
        self.hidden += hidden;
        if start.is_empty() {
            return;
        }
        let mark = if hidden > 0 { "…" } else { "" };
        // The label counts, too, so that thousands of tiny texts do not make a huge page.
        let used = start.chars().count() + LABEL;
        self.remaining = self.remaining.saturating_sub(used);
        self.parts.push(Html(format!(
            "<p><small>{}</small></p><pre tabindex=\"0\">{}{mark}</pre>",
            escape(&shorten(label, LABEL)),
            escape(start)
        )));
    }

    fn finish(mut self) -> Vec<Html> {
        if self.hidden > 0 {
            self.parts.push(Html(format!(
                "<p><small>{} not shown.</small></p>",
                count(self.hidden, "more character", "more characters")
            )));
        }
        self.parts
    }
}

/// The first characters of a text, and the number of characters after them.
fn split_chars(text: &str, most: usize) -> (&str, usize) {
    match text.char_indices().nth(most) {
        None => (text, 0),
        Some((end, _)) => {
            let (start, rest) = text.split_at(end);
            (start, rest.chars().count())
        }
    }
}

fn open_end(one: &OpenEnd, shown: &StepRange<'_>) -> Text {
    let kind = match one.kind {
        OpenEndKind::PlanItem => "plan item not done",
        OpenEndKind::FailedCheck => "failed check",
        OpenEndKind::Question => "open question",
    };
    let text = badge(Tone::Unsure, kind).then(" ").then(shorten(&one.text, 400));
    match one.step {
        Some(step) => text.then(" (").then(shown.link(step)).then(")"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use satiety::progress::judge;
    use satiety::trajectory::{Edit, PlanItem, Reply, Trajectory, Usage};
    use satiety_engine::lists::SortValue;
    use serde_json::json;

    use super::*;

    const EVIL: &str = "<script>x</script>\"'&`";

    fn stored(steps: Vec<Step>) -> StoredRun {
        let trajectory = Trajectory {
            steps,
            ..Trajectory::default()
        };
        StoredRun {
            conversation_id: "run-1".into(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            report: judge(&trajectory, ProgressProfile::built_in(), |_| None::<Vec<f32>>),
            actions: trajectory.steps,
        }
    }

    fn failing_test() -> Step {
        let call = Call::new("bash", json!({"command": "pytest tests/x.py"}));
        Step {
            calls: vec![call.with_result("running\nE   ImportError: no module named x")],
            ..Step::default()
        }
    }

    fn page(run: &StoredRun, from: Option<usize>) -> String {
        detail_page(run, 0, &[], from, Html::default(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_loop_is_shown_with_its_verdict_and_links_to_the_repeated_steps() {
        let text = page(&stored(vec![failing_test(); 7]), None);
        let verdict = text.find("<strong>ESCALATE.</strong>").unwrap();
        assert!(verdict < text.find("<figure").unwrap(), "{text}");
        assert!(text.contains("bring in a person"), "{text}");
        assert!(
            text.contains("first nudge: step") && text.contains("first stop: step"),
            "{text}"
        );
        assert!(
            text.contains("same action and outcome as <a href=\"#step-1\">step 1</a>"),
            "{text}"
        );
        for step in 1..=7 {
            assert_eq!(text.matches(&format!("id=\"step-{step}\"")).count(), 1);
        }
        assert!(!text.contains("NaN") && !text.contains("<script>"), "{text}");
    }

    #[test]
    fn text_of_agents_and_tools_is_escaped() {
        let mut call = Call::new(EVIL, json!({EVIL: EVIL})).with_result(EVIL);
        call.edits.push(Edit {
            path: EVIL.into(),
            ..Edit::default()
        });
        let step = Step {
            agent: Some(EVIL.into()),
            text: EVIL.into(),
            calls: vec![call],
            replies: vec![Reply {
                from: Some(EVIL.into()),
                text: EVIL.into(),
            }],
            plan: Some(vec![PlanItem {
                text: EVIL.into(),
                done: false,
            }]),
            usage: Usage {
                tokens: Some(u64::MAX),
                cost: Some(f64::NAN),
            },
            ..Step::default()
        };
        let mut run = stored(vec![step; 8]);
        run.conversation_id = EVIL.into();
        let text = page(&run, None);
        assert!(!text.contains("<script>x") && !text.contains("\"'&`"), "{text}");
        assert!(text.contains("&lt;script&gt;x"), "{text}");
    }

    #[test]
    fn long_runs_are_split_into_pages() {
        let mut steps = Vec::new();
        for number in 0..5000 {
            let arguments = json!({"path": format!("src/file-{number}.rs"), "old": "\"".repeat(10_000)});
            let call = Call::new("read", arguments).with_result("<".repeat(3000));
            steps.push(Step {
                calls: vec![call],
                ..Step::default()
            });
            // Long texts only at the end, where they are shown.
            if number < 4500
                && let Some(call) = steps.last_mut().and_then(|step| step.calls.first_mut())
            {
                call.arguments = json!({"path": format!("src/file-{number}.rs")});
            }
        }
        let run = stored(steps);
        let last = page(&run, None);
        // Markup and escapes multiply the characters of the texts; a compressed page stays below 100 kB.
        assert!(last.len() < 3 << 20, "{} bytes", last.len());
        assert!(last.contains("Steps 4501 to 5000 of 5000."));
        assert!(last.contains("/progress/run-1?from=4001\">Earlier steps") && !last.contains("Later steps"));
        assert_eq!(last.matches("<tr id=\"step-").count(), MAX_STEPS);
        assert!(last.contains("more characters not shown."));
        let first = page(&run, Some(1));
        assert!(first.contains("Steps 1 to 500 of 5000.") && first.contains("?from=501\">Later steps"));
        for from in [0, 5000, usize::MAX] {
            assert!(page(&run, Some(from)).contains(" of 5000."), "{from}");
        }
    }

    #[test]
    fn many_tiny_texts_are_cut() {
        let calls = vec![Call::new("t", json!("a")).with_result("b"); 20_000];
        let step = Step {
            calls,
            ..Step::default()
        };
        let text = page(&stored(vec![step]), None);
        assert!(text.len() < 64 << 10, "{} bytes", text.len());
        assert!(text.contains("and 19999 more calls"));
    }

    #[test]
    fn repeated_steps_on_other_pages_are_linked() {
        let run = stored(vec![failing_test(); 600]);
        let shown = StepRange::new(&run, None);
        assert_eq!(shown.address(600), "#step-600");
        assert_eq!(shown.address(100), "/progress/run-1?from=100#step-100");
    }

    #[test]
    fn runs_without_steps_and_empty_lists_say_what_to_do() {
        let text = page(&stored(Vec::new()), None);
        assert!(text.contains("No step is complete yet."), "{text}");
        let none = SortedPage {
            rows: Vec::new(),
            next: None,
        };
        let text = list_page(&Address::default(), &none, Timestamp::UNIX_EPOCH);
        assert!(text.contains("/v1/conversations/run-1/messages") && text.contains("report_step"));
    }

    #[test]
    fn the_list_shows_the_latest_signal_and_the_first_interventions() {
        let rows = vec![RunSummary {
            conversation_id: "run/1".into(),
            kind: "work".into(),
            signal: "NUDGE".into(),
            reason: EVIL.into(),
            messages: 12,
            steps: 12,
            wasted_steps: 3,
            first_nudge_step: Some(9),
            first_stop_step: None,
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
        }];
        let next = Some((SortValue::Integer(1), "run".to_owned()));
        let found = SortedPage { rows, next };
        let address = Address::new("/progress", Vec::new());
        let text = list_page(&address, &found, Timestamp::UNIX_EPOCH);
        assert!(text.contains("<a href=\"/progress/run%2F1\">run/1</a>"), "{text}");
        assert!(
            text.contains("<span class=\"badge unsure\">NUDGE</span>"),
            "{text}"
        );
        assert!(
            text.contains(
                "data-label=\"first nudge\"><a href=\"/progress/run%2F1#step-9\">9</a></td>\
                 <td class=\"number\" data-label=\"first stop\">-</td>"
            ),
            "{text}"
        );
        assert!(
            text.contains("href=\"/progress?after=%5B1%2C%22run%22%5D\">Next page"),
            "{text}"
        );
        assert!(
            text.contains("aria-sort=\"descending\"><a href=\"/progress?sort=time\">updated"),
            "{text}"
        );
        assert!(
            text.contains("<a href=\"/progress?sort=-wasted\">wasted</a>"),
            "{text}"
        );
    }
}
