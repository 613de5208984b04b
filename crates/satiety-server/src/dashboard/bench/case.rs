//! Page of one case in a run: what was asked, expected and answered, and why the result is what it is.

use jiff::Timestamp;
use satiety::bench::{
    BenchmarkCase, BenchmarkExpected, BenchmarkInput, BenchmarkResult, JudgeOpinion, MarkKind, MarkedAnswer,
    MarkedSpan, NamedScore, Status,
};
use satiety_engine::bench::CaseDetail;
use satiety_report::document::{badge, link, or_dash};
use satiety_report::html::{Html, blocks, escape};
use satiety_report::{Block, Table, Text, Tone, row};
use serde_json::Value;

use super::super::shell::{ago, count, frame, segment, short_id, trail};

/// Maximum number of characters of one text on the page.
const MAX_TEXT: usize = 20_000;
/// Maximum number of repeats shown as links.
const MAX_REPEATS: usize = 200;

/// `hides` leaves out what tells the expected answer: the visitor may be the evaluated agent.
pub(super) fn page(found: &CaseDetail, hides: bool, now: Timestamp) -> String {
    let run = &found.run;
    let result = &found.result;
    let run_path = format!("/bench/runs/{}", segment(&run.run_id));
    let suite = format!("/bench?suite={}", segment(&run.suite_id));
    let mut body = vec![
        trail(&[
            ("/bench", "Bench"),
            (&suite, &run.suite_id),
            (&run_path, &short_id(&run.run_id)),
        ]),
        neighbors(found),
        blocks(&[verdict(result, hides)]),
    ];
    if hides {
        body.push(blocks(&[Block::note(
            "expectations, reasons and judges of a locked harness are shown to admin tokens only",
        )]));
    }
    if found.results.len() > 1 {
        body.push(repeats(found));
    }
    if let Some(case) = &found.case {
        let mut sections = vec![Block::section("Input", input(case))];
        if !hides {
            sections.push(Block::section("Expected", expected(&case.expected)));
        }
        body.push(blocks(&sections));
    } else {
        body.push(blocks(&[Block::note(
            "input and expectation were not stored with this run: it was imported or is from an earlier version",
        )]));
    }
    body.push(blocks(&[Block::section("Answer", answer(found, hides))]));
    let mut evidence = Vec::new();
    if !hides {
        evidence.extend(scores(&result.scores));
        evidence.extend(judges(&result.judges));
    }
    evidence.push(Block::section("Usage", vec![usage(found, now)]));
    evidence.extend(attempts(result));
    body.push(blocks(&evidence));
    frame("/bench", &result.case_id, &body)
}

fn case_path(found: &CaseDetail, case_id: &str) -> String {
    format!(
        "/bench/runs/{}/cases/{}",
        segment(&found.run.run_id),
        segment(case_id)
    )
}

fn neighbors(found: &CaseDetail) -> Html {
    let (before, after) = &found.neighbors;
    let one = |id: &Option<String>, words: &str, key: &str| {
        id.as_ref().map_or_else(String::new, |id| {
            format!(
                "<a href=\"{}\" data-key=\"{key}\">{words} <span class=\"of\">{}</span></a>",
                escape(&case_path(found, id)),
                escape(id)
            )
        })
    };
    Html(format!(
        "<nav class=\"pages\" aria-label=\"Cases\">{}{}</nav>",
        one(before, "← Previous case", "k"),
        one(after, "Next case →", "j")
    ))
}

fn status_tone(status: &str) -> Tone {
    match status {
        "pass" => Tone::Good,
        "fail" | "error" | "timeout" => Tone::Bad,
        _ => Tone::Unsure,
    }
}

fn verdict(result: &BenchmarkResult, hides: bool) -> Block {
    let (word, status) = match result.status {
        Status::Pass => ("Passed", "pass"),
        Status::Fail => ("Failed", "fail"),
        Status::Error => ("Error", "error"),
        Status::Timeout => ("Timeout", "timeout"),
        Status::Skipped => ("Skipped", "skipped"),
        Status::Pending => ("Pending", "pending"),
    };
    let mut reasons: Vec<String> = result.error.iter().cloned().collect();
    if !hides {
        reasons.extend(result.reasons.iter().cloned());
    }
    let sentence = match (result.status, reasons.is_empty()) {
        (Status::Pass, true) => "the answer meets the expectation".to_owned(),
        (Status::Pending, true) => "the answer awaits a judge or a person".to_owned(),
        (_, true) => String::new(),
        (_, false) => shortened(&reasons.remove(0)),
    };
    let reasons: Vec<String> = reasons.iter().map(|reason| shortened(reason)).collect();
    Block::verdict(status_tone(status), word, sentence, &reasons)
}

/// Links to all results of the case.
fn repeats(found: &CaseDetail) -> Html {
    let shown = (
        found.result.variant.as_deref().unwrap_or_default(),
        i64::from(found.result.repeat),
    );
    let rows = found.results.iter().take(MAX_REPEATS).map(|result| {
        let key = &result.key;
        let to = format!(
            "{}?repeat={}&variant={}",
            case_path(found, &key.case_id),
            key.repeat,
            segment(&key.variant)
        );
        let name = if key.variant.is_empty() {
            format!("repeat {}", key.repeat + 1)
        } else {
            format!("{}, repeat {}", key.variant, key.repeat + 1)
        };
        let name = if (key.variant.as_str(), key.repeat) == shown {
            link(to, name).then(" (shown)")
        } else {
            link(to, name)
        };
        row![
            name,
            badge(status_tone(&result.status), &result.status),
            or_dash(result.score, |score| format!("{score:.2}")),
            format!("{:.0} ms", result.latency_ms),
            result.token_cost,
        ]
    });
    let header = ["result", "status", "score", "latency", "tokens"];
    let table = Block::Table(Table::new(&header, &[2, 3, 4], rows));
    let title = count(found.results.len(), "result", "results");
    blocks(&[Block::section(title, vec![table])])
}

fn input(case: &BenchmarkCase) -> Vec<Block> {
    let BenchmarkInput {
        goal,
        messages,
        context,
        config_overrides,
        skill_args,
        files,
    } = &case.input;
    let mut parts = Vec::new();
    if !case.description.is_empty() {
        parts.push(Block::text(&case.description));
    }
    parts.push(Block::Verbatim(shortened(goal)));
    let mut more = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let name = name.to_owned();
            parts.push(Block::details(name, vec![Block::Verbatim(shortened(&value))]));
        }
    };
    more("Messages before", messages.as_ref().map(json_text));
    more("Context", context.as_ref().map(json_text));
    more("Configuration", config_overrides.as_ref().map(json_text));
    more("Arguments", skill_args.as_ref().map(json_text));
    more("Files", (!files.is_empty()).then(|| files.join("\n")));
    if !case.tags.is_empty() {
        let mut tags = Text::from("Tags: ");
        for tag in &case.tags {
            tags = tags.then(badge(Tone::Plain, tag)).then(" ");
        }
        parts.push(Block::Text(tags));
    }
    parts
}

fn json_text(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The expectation as a suite states it: the mode, then the value.
fn expected(expected: &BenchmarkExpected) -> Vec<Block> {
    let fields = serde_json::to_value(expected).unwrap_or_default();
    // A list of checks, all of which must hold, is written as a list.
    let (mode, parts) = match &fields {
        Value::Array(parts) => ("all".to_owned(), parts.clone()),
        Value::Object(fields) => {
            let mode = fields
                .get("mode")
                .and_then(Value::as_str)
                .unwrap_or("all")
                .to_owned();
            let inner = ["all", "any"]
                .iter()
                .find_map(|name| fields.get(*name)?.as_array());
            let mode = if fields.contains_key("any") {
                "any".into()
            } else {
                mode
            };
            (mode, inner.cloned().unwrap_or_default())
        }
        _ => return Vec::new(),
    };
    if !parts.is_empty() {
        let words = match mode.as_str() {
            "any" => "At least one of these checks must hold:",
            _ => "All of these checks must hold:",
        };
        let mut blocks = vec![Block::text(words)];
        for part in &parts {
            blocks.extend(one_check(part));
        }
        return blocks;
    }
    one_check(&fields)
}

fn one_check(fields: &Value) -> Vec<Block> {
    let mode = fields.get("mode").and_then(Value::as_str).unwrap_or("checks");
    let negated = fields.get("negate").and_then(Value::as_bool) == Some(true);
    let mut words = Text::from(if negated { "must not match, " } else { "" }).then(badge(Tone::Plain, mode));
    let rest: serde_json::Map<String, Value> = fields
        .as_object()
        .map(|fields| {
            let rest = fields
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "mode" | "value" | "negate"));
            rest.map(|(name, value)| (name.clone(), value.clone())).collect()
        })
        .unwrap_or_default();
    for (name, value) in &rest {
        words = words.then(format!(" {name}: {}", shortened(&plain(value))));
    }
    let mut blocks = vec![Block::Text(words)];
    if let Some(value) = fields.get("value") {
        let text = match value {
            Value::Array(items) if items.iter().all(Value::is_string) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                items.join("\n")
            }
            other => plain(other),
        };
        blocks.push(Block::Verbatim(shortened(&text)));
    }
    blocks
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json_text(other),
    }
}

fn answer(found: &CaseDetail, hides: bool) -> Vec<Block> {
    let Some(output) = &found.result.actual_output else {
        return vec![Block::text("The target gave no answer.")];
    };
    let mut parts = Vec::new();
    match found.marked.as_ref().filter(|_| !hides) {
        Some(marked) => {
            parts.extend(legend(marked));
            parts.push(Block::Marked(cut(&marked.spans)));
            if !marked.missing.is_empty() {
                parts.push(Block::text("Expected and not found in the answer:"));
                let missing = marked.missing.iter().map(|text| Text::from(shortened(text)));
                parts.push(Block::List(missing.collect()));
            }
        }
        None => parts.push(Block::Verbatim(shortened(output))),
    }
    let length = output.chars().count();
    if length > MAX_TEXT {
        parts.push(Block::note(format!(
            "the page shows {MAX_TEXT} of {length} characters; `satiety bench report {}` prints all",
            found.run.run_id
        )));
    }
    parts
}

/// What the marks in the answer mean; nothing if there are none.
fn legend(marked: &MarkedAnswer) -> Option<Block> {
    let has = |kind: MarkKind| marked.spans.iter().any(|span| span.kind == kind);
    let mut words = Vec::new();
    for (kind, what) in [
        (MarkKind::Match, "underlined parts match"),
        (MarkKind::Extra, "wavy parts were not expected"),
        (MarkKind::Missing, "struck parts were expected and are missing"),
    ] {
        if has(kind) {
            words.push(what);
        }
    }
    (!words.is_empty()).then(|| Block::text(format!("In the answer, {}.", words.join("; "))))
}

/// Marked parts up to the maximum length.
fn cut(spans: &[MarkedSpan]) -> Vec<MarkedSpan> {
    let mut left = MAX_TEXT;
    let mut kept = Vec::new();
    for span in spans {
        let text: String = span.text.chars().take(left).collect();
        left -= text.chars().count();
        kept.push(MarkedSpan {
            kind: span.kind,
            text,
        });
        if left == 0 {
            break;
        }
    }
    kept
}

fn scores(scores: &[NamedScore]) -> Option<Block> {
    let number = |value: Option<f64>| or_dash(value, |value| format!("{value:.3}"));
    let rows = scores.iter().map(|score| {
        let value = match &score.label {
            Some(label) => format!("{} ({label})", number(score.value)),
            None => number(score.value),
        };
        let passed = match score.passed {
            Some(true) => badge(Tone::Good, "passed"),
            Some(false) => badge(Tone::Bad, "failed"),
            None => "".into(),
        };
        let range = score
            .range
            .map_or_else(String::new, |[low, high]| format!("{low} to {high}"));
        row![
            &*score.name,
            value,
            range,
            passed,
            if score.decides { "yes" } else { "" },
            shortened(score.reason.as_deref().unwrap_or_default())
        ]
    });
    let header = ["score", "value", "range", "", "decides", "reason"];
    let table = Block::Table(Table::new(&header, &[1], rows));
    (!scores.is_empty()).then(|| Block::section("Scores", vec![table]))
}

fn judges(opinions: &[JudgeOpinion]) -> Option<Block> {
    let mut parts = Vec::new();
    for opinion in opinions {
        parts.push(Block::Text(
            Text::from(&opinion.judge).then(format!(": {:.2}", opinion.score)),
        ));
        if !opinion.reason.is_empty() {
            parts.push(Block::Verbatim(shortened(&opinion.reason)));
        }
        if !opinion.criteria.is_empty() {
            let rows = opinion.criteria.iter().map(|answer| {
                let met = if answer.met {
                    badge(Tone::Good, "met")
                } else {
                    badge(Tone::Bad, "not met")
                };
                row![&*answer.criterion, met, shortened(&answer.reason)]
            });
            parts.push(Block::Table(Table::new(&["criterion", "", "reason"], &[], rows)));
        }
    }
    (!parts.is_empty()).then(|| Block::section("Judges", parts))
}

fn usage(found: &CaseDetail, now: Timestamp) -> Block {
    let result = &found.result;
    let tokens = match (result.tokens_in, result.tokens_out) {
        (None, None) if result.token_cost == 0 => None,
        (None, None) => Some(result.token_cost.to_string()),
        (input, output) => {
            let part = |tokens: Option<u64>| tokens.map_or_else(|| "–".into(), |tokens| tokens.to_string());
            Some(format!(
                "{} ({} in, {} out)",
                result.token_cost,
                part(input),
                part(output)
            ))
        }
    };
    let metrics: Vec<String> = result
        .metrics
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    let owner = result
        .error_owner
        .map(|owner| format!("{owner:?}").to_lowercase());
    Block::fields([
        ("latency", Some(format!("{:.1} ms", result.latency_ms).into())),
        ("answered from the cache", result.cached.then(|| "yes".into())),
        ("tokens", tokens.map(Text::from)),
        ("cost", result.cost_usd.map(|cost| format!("${cost:.6}").into())),
        ("retries", (result.retries > 0).then(|| result.retries.into())),
        (
            "timeout",
            result.deadline_ms.map(|limit| format!("{limit} ms").into()),
        ),
        ("error category", result.error_kind.as_ref().map(Text::from)),
        ("caused by", owner.map(Text::from)),
        ("label of a person", result.human_label.as_ref().map(Text::from)),
        (
            "metrics",
            (!metrics.is_empty()).then(|| metrics.join(", ").into()),
        ),
        ("run started", Some(ago(found.run.started_at, now))),
        ("target", Some((&found.run.target).into())),
    ])
}

/// Attempts with what went wrong in each: the excerpt of the log that explains a failure.
fn attempts(result: &BenchmarkResult) -> Option<Block> {
    let mut parts = Vec::new();
    for (number, attempt) in result.attempts.iter().enumerate() {
        let mut words = Text::from(format!("Attempt {}: {:.1} ms", number + 1, attempt.latency_ms));
        if let Some(kind) = &attempt.error_kind {
            words = words.then(" ").then(badge(Tone::Bad, kind));
        }
        if let Some(waited) = attempt.waited_ms.filter(|waited| *waited > 0.0) {
            words = words.then(format!(", then waited {waited:.0} ms"));
        }
        parts.push(Block::Text(words));
        if let Some(error) = &attempt.error {
            parts.push(Block::Verbatim(shortened(error)));
        }
    }
    if result.attempts.is_empty()
        && let Some(error) = &result.error
    {
        parts.push(Block::Verbatim(shortened(error)));
    }
    (!parts.is_empty()).then(|| Block::section("Attempts and log", parts))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}
