//! Marks the parts of an answer that an expectation matches or misses, so that a reader sees at once why a case
//! passed or failed. Marks explain; [`super::matching`] decides.

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use unicode_segmentation::UnicodeSegmentation as _;

use super::compare_values::{as_json, number_span};
use super::expected::{BenchmarkExpected, Mode};
use super::matching::check_output;

/// Maximum number of cells in the table of the word-by-word comparison; longer texts are compared at both ends.
const MAX_CELLS: usize = 1_000_000;
/// Maximum number of marked matches per expectation.
const MAX_MATCHES: usize = 200;

/// What a part of an answer means for its expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The expectation says nothing about this part.
    Plain,
    /// The part matches the expectation.
    Match,
    /// The part is in the answer and should not be there.
    Extra,
    /// The part is expected and not in the answer.
    Missing,
}

/// Part of an answer with its mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkedSpan {
    /// Meaning of the part for the expectation.
    pub kind: MarkKind,
    /// Text of the part.
    pub text: String,
}

/// Answer with marks, and expected texts that it does not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkedAnswer {
    /// Parts of the answer in order; parts that are only expected are in between.
    pub spans: Vec<MarkedSpan>,
    /// Expected texts and patterns that the answer does not contain.
    pub missing: Vec<String>,
}

/// Marks an answer. A single exact expectation is compared word by word, or line by line for JSON. For all other
/// expectations, the texts, patterns and numbers that they look for are marked where they are found.
pub fn mark_answer(expected: &BenchmarkExpected, output: &str) -> MarkedAnswer {
    let mut leaves: Vec<&BenchmarkExpected> = Vec::new();
    collect_leaves(expected, &mut leaves);
    if let [leaf] = leaves.as_slice()
        && leaf.mode == Mode::Exact
        && !leaf.negate
        && let Some(spans) = mark_exact(leaf, output)
    {
        return MarkedAnswer {
            spans,
            missing: Vec::new(),
        };
    }
    let mut found: Vec<(usize, usize, MarkKind)> = Vec::new();
    let mut missing = Vec::new();
    for leaf in leaves {
        for pattern in patterns(leaf) {
            let before = found.len();
            let kind = if leaf.negate {
                MarkKind::Extra
            } else {
                MarkKind::Match
            };
            match &pattern {
                Pattern::Number => {
                    // Unlike a text, a number is found even if it is wrong.
                    let holds = check_output(leaf, &Value::String(output.to_owned())).is_ok();
                    let kind = if holds == leaf.negate {
                        MarkKind::Extra
                    } else {
                        MarkKind::Match
                    };
                    found.extend(number_span(output).map(|range| (range.start, range.end, kind)));
                }
                Pattern::Expression(_, expression) => {
                    let matches = expression.find_iter(output).take(MAX_MATCHES);
                    found.extend(
                        matches
                            .filter(|found| !found.is_empty())
                            .map(|found| (found.start(), found.end(), kind)),
                    );
                }
            }
            if let Pattern::Expression(text, _) = pattern
                && found.len() == before
                && !leaf.negate
            {
                missing.push(text);
            }
        }
    }
    MarkedAnswer {
        spans: mark_ranges(output, found),
        missing,
    }
}

/// Marks what differs between two texts, word by word: `Missing` parts are only in the first, `Extra` parts only in
/// the second.
pub fn mark_difference(earlier: &str, later: &str) -> Vec<MarkedSpan> {
    let earlier: Vec<&str> = earlier.split_word_bounds().collect();
    let later: Vec<&str> = later.split_word_bounds().collect();
    difference(&earlier, &later, str::to_owned)
}

fn collect_leaves<'a>(expected: &'a BenchmarkExpected, leaves: &mut Vec<&'a BenchmarkExpected>) {
    if matches!(expected.mode, Mode::All | Mode::Any) {
        for part in &expected.parts {
            collect_leaves(part, leaves);
        }
    } else {
        leaves.push(expected);
    }
}

/// What to look for in an answer.
enum Pattern {
    /// The number that decides.
    Number,
    /// Text as the suite has it, and the expression that finds it.
    Expression(String, regex::Regex),
}

fn patterns(leaf: &BenchmarkExpected) -> Vec<Pattern> {
    let expression = |text: &str, source: &str| {
        let built = RegexBuilder::new(source)
            .case_insensitive(leaf.ignore_case)
            .build()
            .ok()?;
        Some(Pattern::Expression(text.to_owned(), built))
    };
    let literal = |text: &str| {
        let text = if leaf.keep_whitespace { text } else { text.trim() };
        (!text.is_empty())
            .then(|| expression(text, &regex::escape(text)))
            .flatten()
    };
    match (leaf.mode, &leaf.value) {
        (Mode::Contains | Mode::Exact, Some(Value::String(text))) => literal(text).into_iter().collect(),
        (Mode::Contains, Some(Value::Array(texts))) => texts
            .iter()
            .filter_map(Value::as_str)
            .filter_map(literal)
            .collect(),
        (Mode::Regex, Some(Value::String(pattern))) => expression(pattern, pattern).into_iter().collect(),
        (Mode::Numeric, _) => vec![Pattern::Number],
        _ => Vec::new(),
    }
}

/// Splits a text at ranges, which may overlap; an extra part wins over a match.
fn mark_ranges(text: &str, mut ranges: Vec<(usize, usize, MarkKind)>) -> Vec<MarkedSpan> {
    ranges.sort_by_key(|(start, end, kind)| (*start, *kind != MarkKind::Extra, std::cmp::Reverse(*end)));
    let mut spans = Vec::new();
    let mut at = 0;
    for (start, end, kind) in ranges {
        let start = start.max(at);
        // Matches are at character boundaries, so the slices exist.
        if let (Some(before), Some(inside)) = (text.get(at..start), text.get(start..end)) {
            push(&mut spans, MarkKind::Plain, before);
            push(&mut spans, kind, inside);
            at = end;
        }
    }
    push(&mut spans, MarkKind::Plain, text.get(at..).unwrap_or_default());
    spans
}

/// Appends a part; parts of the same kind are joined.
fn push(spans: &mut Vec<MarkedSpan>, kind: MarkKind, text: &str) {
    if text.is_empty() {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.kind == kind => last.text.push_str(text),
        _ => spans.push(MarkedSpan {
            kind,
            text: text.to_owned(),
        }),
    }
}

fn mark_exact(leaf: &BenchmarkExpected, output: &str) -> Option<Vec<MarkedSpan>> {
    let fold = |token: &str| {
        if leaf.ignore_case {
            token.to_lowercase()
        } else {
            token.to_owned()
        }
    };
    match leaf.value.as_ref()? {
        Value::String(wanted) => {
            let trim = |text: &str| {
                if leaf.keep_whitespace {
                    text.to_owned()
                } else {
                    text.trim().to_owned()
                }
            };
            let (wanted, given) = (trim(wanted), trim(output));
            let wanted: Vec<&str> = wanted.split_word_bounds().collect();
            let given: Vec<&str> = given.split_word_bounds().collect();
            Some(difference(&wanted, &given, fold))
        }
        json => {
            let given = as_json(&Value::String(output.to_owned()))?;
            let pretty = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
            let (wanted, given) = (pretty(json), pretty(&given));
            let wanted: Vec<&str> = wanted.split_inclusive('\n').collect();
            let given: Vec<&str> = given.split_inclusive('\n').collect();
            Some(difference(&wanted, &given, str::to_owned))
        }
    }
}

/// Longest common subsequence of two token lists. Equal ends are compared first; if the rest is too long for the
/// table, it counts as replaced.
fn difference(wanted: &[&str], given: &[&str], fold: impl Fn(&str) -> String) -> Vec<MarkedSpan> {
    let left: Vec<String> = wanted.iter().map(|token| fold(token)).collect();
    let right: Vec<String> = given.iter().map(|token| fold(token)).collect();
    let head = left.iter().zip(&right).take_while(|(a, b)| a == b).count();
    let tail = left[head..]
        .iter()
        .rev()
        .zip(right[head..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let (left, right) = (&left[head..left.len() - tail], &right[head..right.len() - tail]);
    let (wanted_middle, given_middle) = (
        &wanted[head..wanted.len() - tail],
        &given[head..given.len() - tail],
    );
    let mut spans = Vec::new();
    for token in &given[..head] {
        push(&mut spans, MarkKind::Match, token);
    }
    if left.len().saturating_mul(right.len()) > MAX_CELLS {
        push(&mut spans, MarkKind::Missing, &wanted_middle.concat());
        push(&mut spans, MarkKind::Extra, &given_middle.concat());
    } else {
        align(left, right, wanted_middle, given_middle, &mut spans);
    }
    for token in &given[given.len() - tail..] {
        push(&mut spans, MarkKind::Match, token);
    }
    spans
}

fn align(left: &[String], right: &[String], wanted: &[&str], given: &[&str], spans: &mut Vec<MarkedSpan>) {
    let width = right.len() + 1;
    // Length of the longest common subsequence of the rests that start at each pair of places.
    let mut lengths = vec![0_u32; (left.len() + 1) * width];
    for row in (0..left.len()).rev() {
        for column in (0..right.len()).rev() {
            lengths[row * width + column] = if left[row] == right[column] {
                lengths[(row + 1) * width + column + 1] + 1
            } else {
                lengths[(row + 1) * width + column].max(lengths[row * width + column + 1])
            };
        }
    }
    let (mut row, mut column) = (0, 0);
    while row < left.len() || column < right.len() {
        if row < left.len() && column < right.len() && left[row] == right[column] {
            push(spans, MarkKind::Match, given[column]);
            (row, column) = (row + 1, column + 1);
        } else if column == right.len()
            || (row < left.len() && lengths[(row + 1) * width + column] >= lengths[row * width + column + 1])
        {
            push(spans, MarkKind::Missing, wanted[row]);
            row += 1;
        } else {
            push(spans, MarkKind::Extra, given[column]);
            column += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn marked(expected: Value, output: &str) -> String {
        let expected: BenchmarkExpected = serde_json::from_value(expected).unwrap();
        let answer = mark_answer(&expected, output);
        let mut text: String = answer
            .spans
            .iter()
            .map(|span| match span.kind {
                MarkKind::Plain => span.text.clone(),
                MarkKind::Match => format!("={}=", span.text),
                MarkKind::Extra => format!("+{}+", span.text),
                MarkKind::Missing => format!("-{}-", span.text),
            })
            .collect();
        for missing in answer.missing {
            text = format!("{text} (missing {missing})");
        }
        text
    }

    #[test]
    fn exact_expectations_are_compared_word_by_word() {
        let exact = |value: &str| json!({"mode": "exact", "value": value});
        assert_eq!(marked(exact("Paris"), " Paris\n"), "=Paris=");
        assert_eq!(
            marked(exact("the train leaves at 9"), "the bus leaves at 10"),
            "=the =-train-+bus+= leaves at =-9-+10+"
        );
        assert_eq!(marked(exact("x"), ""), "-x-");
        let any_case = json!({"mode": "exact", "value": "PARIS", "ignore_case": true});
        assert_eq!(marked(any_case, "paris"), "=paris=");
        let value = json!({"mode": "exact", "value": {"a": 1, "b": 2}});
        assert_eq!(
            marked(value, "{\"b\": 3, \"a\": 1}"),
            "={\n  \"a\": 1,\n=-  \"b\": 2\n-+  \"b\": 3\n+=}="
        );
    }

    #[test]
    fn searched_texts_are_marked_where_they_are_found() {
        let contains = json!({"mode": "contains", "value": ["nine", "Rome"], "ignore_case": true});
        assert_eq!(
            marked(contains, "at NINE, nine"),
            "at =NINE=, =nine= (missing Rome)"
        );
        let mixed = json!([
            {"mode": "regex", "value": "[0-9]+ euros"},
            {"mode": "contains", "value": "sorry", "negate": true},
        ]);
        assert_eq!(marked(mixed, "sorry, 12 euros"), "+sorry+, =12 euros=");
        let number = json!({"mode": "numeric", "value": 7});
        assert_eq!(marked(number.clone(), "3 and 4 make 7."), "3 and 4 make =7=.");
        assert_eq!(marked(number, "3 and 4 make 8"), "3 and 4 make +8+");
        let judge = json!({"mode": "llm_judge", "value": "is polite"});
        assert_eq!(marked(judge, "hello"), "hello");
    }

    proptest! {
        #[test]
        fn answers_stay_complete(wanted in "[ab ]{0,30}", given in "[ab ]{0,30}", searched in "[ab]{1,3}") {
            let exact = json!({"mode": "exact", "value": wanted, "keep_whitespace": true});
            let exact: BenchmarkExpected = serde_json::from_value(exact).unwrap();
            let spans = mark_answer(&exact, &given).spans;
            let text = |skip: MarkKind| -> String {
                let kept = spans.iter().filter(|span| span.kind != skip);
                kept.map(|span| span.text.as_str()).collect()
            };
            prop_assert_eq!(text(MarkKind::Missing), given.clone());
            prop_assert_eq!(text(MarkKind::Extra), wanted);
            let contains = json!({"mode": "contains", "value": searched});
            let contains: BenchmarkExpected = serde_json::from_value(contains).unwrap();
            let spans = mark_answer(&contains, &given).spans;
            let whole: String = spans.iter().map(|span| span.text.as_str()).collect();
            prop_assert_eq!(whole, given);
        }
    }
}
