//! Rule-based extraction of rounds from messages: sentences become claims, questions become open questions,
//! plans and imperatives become next actions, "we decided" becomes a decision, URLs become citations.
//! Courtesies, labels, code and announcements of what a message does itself are left out. The result is
//! deterministic.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::super::wire::{Claim, Inputs, Outputs, Round, Telemetry, Transcript};
use super::{Message, MessageLog, Role};
use crate::text::{Sentence, SentenceKind, sentences};

/// Extracts rounds from a log by fixed rules.
pub fn extract(log: &MessageLog) -> Transcript {
    let turns = collect_turns(log, |_, outputs| *outputs != Outputs::default());
    let rounds = turns.into_iter().map(|turn| turn.round).collect();
    transcript(log, rounds)
}

/// Combines rounds with the id and topic of the log.
pub fn transcript(log: &MessageLog, rounds: Vec<Round>) -> Transcript {
    Transcript {
        conversation_id: log.conversation_id.clone(),
        topic: log.topic.clone(),
        rounds,
        ..Transcript::default()
    }
}

/// A message that forms a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn<'a> {
    /// The original message.
    pub message: &'a Message,
    /// The round with outputs extracted by rules.
    pub round: Round,
}

impl Turn<'_> {
    /// Returns the round with outputs extracted by another method. Plan items and citations still come from
    /// the message itself.
    pub fn sorted_as(mut self, sorted: Outputs) -> Round {
        self.round.outputs = add_plan_and_citations(self.message, sorted);
        self.round
    }
}

/// Splits a log into rounds. Each message of an agent forms a round, unless the rules extract nothing from
/// it. User messages and the task become inputs of the round that answers them, unless users are named
/// speakers of a discussion. Messages of thanks form a round of their own, because they end a conversation.
///
/// Messages of more than a few words in which the rules find nothing have empty outputs; a model may find more.
pub fn turns(log: &MessageLog) -> Vec<Turn<'_>> {
    const FEW_WORDS: usize = 3;
    collect_turns(log, |message, outputs| {
        *outputs != Outputs::default() || message.text.split_whitespace().nth(FEW_WORDS).is_some()
    })
}

/// Forms turns from the messages that `counts` accepts by their text and what the rules found in it.
fn collect_turns(log: &MessageLog, counts: impl Fn(&Message, &Outputs) -> bool) -> Vec<Turn<'_>> {
    let speakers = Speakers::of(log);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut asked: Vec<Value> = Vec::new();
    let mut tools: Vec<Value> = Vec::new();
    let mut partings: Vec<String> = Vec::new();
    for (index, message) in log.messages.iter().enumerate() {
        match speakers.part(message, index, turns.is_empty()) {
            Part::Ignored => continue,
            Part::Request => {
                if let Some(parting) = parting(message) {
                    match turns.last_mut().filter(|_| asked.is_empty()) {
                        Some(last) if !last.round.outputs.partings.is_empty() => {
                            last.round.outputs.partings.push(parting);
                        }
                        _ => partings.push(parting),
                    }
                } else {
                    partings.clear();
                }
                if !message.text.trim().is_empty() {
                    asked.push(Value::String(message.text.clone()));
                }
                continue;
            }
            Part::Speaker => {}
        }
        tools.extend(message.tool_calls.iter().cloned().map(Value::String));
        let mut outputs = outputs(message, is_carried_out(log, index));
        if !outputs.partings.is_empty() {
            if turns.is_empty() {
                continue;
            }
            outputs.partings.splice(0..0, std::mem::take(&mut partings));
        } else if !counts(message, &outputs) {
            continue;
        }
        partings.clear();
        let mut round = Round::new(u32::try_from(turns.len() + 1).unwrap_or(u32::MAX), outputs);
        round.agent = Some(
            message
                .name
                .clone()
                .unwrap_or_else(|| role_name(message.role).to_owned()),
        );
        if message.role == Role::User && speakers.has_assistant {
            round
                .extra
                .insert(Round::ROLE.to_owned(), Value::from(role_name(Role::User)));
        }
        round.inputs = Inputs {
            extra: keyed("user", std::mem::take(&mut asked)),
        };
        round.telemetry = Telemetry {
            extra: keyed("tool_calls", std::mem::take(&mut tools)),
        };
        if let Some(timestamp) = &message.timestamp {
            round
                .telemetry
                .extra
                .insert("timestamp".to_owned(), Value::String(timestamp.clone()));
        }
        turns.push(Turn { message, round });
    }
    turns
}

/// Whether the intentions of a message are carried out at once: by its own tool calls or code, or by the call
/// or result that follows it.
fn is_carried_out(log: &MessageLog, index: usize) -> bool {
    let message = &log.messages[index];
    let calls = |message: &Message| !message.tool_calls.is_empty();
    calls(message)
        || sentences(&message.text)
            .iter()
            .any(|sentence| sentence.kind == SentenceKind::Code)
        || log.messages.get(index + 1).is_some_and(|next| {
            is_executor(next) || (next.role == Role::Assistant && next.text.trim().is_empty() && calls(next))
        })
}

fn keyed(key: &str, values: Vec<Value>) -> BTreeMap<String, Value> {
    if values.is_empty() {
        BTreeMap::new()
    } else {
        BTreeMap::from([(key.to_owned(), Value::Array(values))])
    }
}

/// Part of a message in the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Instructions and results of tools.
    Ignored,
    /// A request or task, which the next round answers.
    Request,
    /// A contribution to the discussion.
    Speaker,
}

struct Speakers {
    has_assistant: bool,
    /// Number of distinct names, without those of executors.
    names: usize,
    /// Index of the first message of an assistant.
    first_assistant: usize,
    messages: usize,
}

impl Speakers {
    fn of(log: &MessageLog) -> Self {
        let names: BTreeSet<&str> = log
            .messages
            .iter()
            .filter(|message| !is_executor(message))
            .filter_map(|message| message.name.as_deref())
            .collect();
        let first_assistant = log
            .messages
            .iter()
            .position(|message| message.role == Role::Assistant);
        Self {
            has_assistant: first_assistant.is_some(),
            names: names.len(),
            messages: log.messages.len(),
            first_assistant: first_assistant.unwrap_or(usize::MAX),
        }
    }

    /// The part of the message at `index`; `opens` says that no round precedes it.
    fn part(&self, message: &Message, index: usize, opens: bool) -> Part {
        if message.role == Role::System || is_executor(message) {
            Part::Ignored
        } else if (message.role == Role::User && !self.user_speaks(message, index))
            // A task is something that others answer; the only message of a log is not one.
            || (opens && index + 1 < self.messages && states_task(&message.text))
        {
            Part::Request
        } else {
            Part::Speaker
        }
    }

    /// Whether a user message contributes to the discussion. A message before the first answer is the task,
    /// unless there are more than two names and it makes a claim.
    fn user_speaks(&self, message: &Message, index: usize) -> bool {
        let Some(name) = &message.name else { return false };
        let leads = self.has_assistant && index < self.first_assistant;
        self.names > if leads { 2 } else { 1 }
            && !CUES.requester.contains(&plain_name(name))
            && !(leads && outputs(message, false).claims.is_empty())
    }
}

fn is_executor(message: &Message) -> bool {
    message.role == Role::Tool
        || message
            .name
            .as_deref()
            .is_some_and(|name| CUES.executor.contains(&plain_name(name)))
}

/// A name without case, separators and digits: "User_Proxy-1" becomes "userproxy".
fn plain_name(name: &str) -> String {
    let letters = name.chars().filter(|letter| letter.is_alphabetic());
    letters.flat_map(char::to_lowercase).collect()
}

fn states_task(text: &str) -> bool {
    let lower = fold(text);
    CUES.task.iter().any(|cue| contains_phrase(&lower, cue))
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Extracts the outputs of one message. Without other outputs, courtesies that end an exchange are kept.
fn outputs(message: &Message, carried_out: bool) -> Outputs {
    let mut outputs = Outputs::default();
    let mut section = Section::None;
    let text = without_json(&message.text);
    for sentence in sentences(&text) {
        if sentence.kind == SentenceKind::Heading || is_lead_in(sentence) {
            section = Section::of(sentence.text).unwrap_or(Section::None);
            continue;
        }
        if sentence.kind != SentenceKind::ListItem
            && sentence.kind != SentenceKind::OpenTask
            && !section.holds_prose()
        {
            section = Section::None;
        }
        place(sentence, section, carried_out, &mut outputs);
    }
    let partings = std::mem::take(&mut outputs.partings);
    let is_parting = !partings.is_empty() && message.plan.is_empty() && message.tool_calls.is_empty();
    if is_parting && outputs == Outputs::default() {
        outputs.partings = vec![partings.join(" ")];
    }
    add_plan_and_citations(message, outputs)
}

/// The text of a message that only ends an exchange, such as thanks.
fn parting(message: &Message) -> Option<String> {
    outputs(message, false).partings.pop()
}

/// Adds the open plan items and the URLs of the message.
fn add_plan_and_citations(message: &Message, mut outputs: Outputs) -> Outputs {
    for item in &message.plan {
        if !item.done && !outputs.next_actions.contains(&item.text) {
            outputs.next_actions.push(item.text.clone());
        }
    }
    outputs.citations = urls(&message.text).into_iter().map(Value::String).collect();
    outputs
}

/// Kind of text according to the heading above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Actions,
    Questions,
    Decisions,
    Claims,
}

impl Section {
    fn of(heading: &str) -> Option<Self> {
        let heading = heading.to_lowercase();
        let heading = heading.trim_matches(|c: char| !c.is_alphanumeric());
        [
            (&CUES.heading_actions, Self::Actions),
            (&CUES.heading_questions, Self::Questions),
            (&CUES.heading_decisions, Self::Decisions),
            (&CUES.heading_claims, Self::Claims),
        ]
        .into_iter()
        .find_map(|(cues, section)| cues.iter().any(|cue| cue == heading).then_some(section))
    }

    fn holds_prose(self) -> bool {
        self == Self::Decisions
    }
}

/// Whether a sentence introduces a list, such as "Next steps:".
fn is_lead_in(sentence: Sentence<'_>) -> bool {
    let text = sentence.text.trim_end_matches(['*', '_']);
    sentence.kind == SentenceKind::Prose && text.ends_with(':') && Section::of(text).is_some()
}

fn place(sentence: Sentence<'_>, section: Section, carried_out: bool, outputs: &mut Outputs) {
    if matches!(
        sentence.kind,
        SentenceKind::Code | SentenceKind::Quote | SentenceKind::TableRow
    ) {
        return;
    }
    let cleaned = clean(sentence.text);
    let text = match strip(&cleaned) {
        Stripped::Statement(text) => text,
        Stripped::Courtesy => return,
        Stripped::Parting => {
            outputs.partings.push(cleaned);
            return;
        }
    };
    let words = text.split_whitespace().count();
    // A sentence that ends in a colon introduces what follows.
    if words == 0 || text.ends_with(':') || looks_like_code(text) {
        return;
    }
    let lower = fold(text);
    let is_task = sentence.kind == SentenceKind::OpenTask;
    let is_listed = section == Section::Actions && sentence.kind == SentenceKind::ListItem;
    let owned = || text.to_owned();
    if text.ends_with('?')
        || (section == Section::Questions && !is_task)
        || (!is_task && !is_listed && starts_with_any(&lower, &CUES.request))
    {
        outputs.open_questions.push(owned());
    } else if is_task || is_listed {
        outputs.next_actions.push(owned());
    } else if section == Section::Decisions || is_decision(&lower) {
        outputs.decisions.push(owned());
    } else if starts_with_any(&lower, &CUES.announcement) {
        // Done in this message: neither a claim nor an action.
    } else if starts_with_any(&lower, &CUES.intention) {
        if !carried_out {
            outputs.next_actions.push(owned());
        }
    } else if starts_with_any(&lower, &CUES.joint_intention) && carried_out {
        // Done in this message, too.
    } else if sentence.kind != SentenceKind::DoneTask
        && section != Section::Claims
        && let Some(proposal) = proposal(text, &lower)
    {
        if proposal.is_opinion && words >= 3 {
            outputs.claims.push(Claim::new(text));
        }
        outputs.next_actions.push(proposal.action.to_owned());
    } else if words >= 3 {
        // One or two words are a greeting, an agreement or a label, not a claim.
        outputs.claims.push(Claim::new(text));
    }
}

/// A sentence without labels, openers and courtesies.
#[derive(Debug, PartialEq, Eq)]
enum Stripped<'a> {
    Statement(&'a str),
    Courtesy,
    /// A courtesy that ends an exchange.
    Parting,
}

/// Removes labels ("Summary:"), openers ("Sure,") and courtesies ("Thank you for the review,") from the
/// beginning of a sentence.
fn strip(text: &str) -> Stripped<'_> {
    const MARKS: [char; 8] = [',', '.', '!', '?', ':', ';', '—', '–'];
    const MINIMUM_WORDS: usize = 3;
    let mut rest = text;
    let mut is_parting = false;
    loop {
        let matched = |cues: &[String]| cues.iter().filter_map(|cue| prefix_length(rest, cue)).max();
        let after = |length: usize| rest[length..].trim_start();
        let label = matched(&CUES.label)
            .map(after)
            .and_then(|after| after.strip_prefix(':'));
        let opener = matched(&CUES.opener)
            .map(after)
            .filter(|after| after.is_empty() || after.starts_with(MARKS));
        let filler = matched(&CUES.filler).map(after);
        if let Some(after) = label.or(opener).or(filler) {
            rest = after.trim_start_matches(|edge: char| MARKS.contains(&edge) || edge.is_whitespace());
        } else if matched(&CUES.courtesy_exception).is_some() {
            return Stripped::Statement(rest);
        } else {
            let parting = matched(&CUES.parting);
            let Some(length) = parting.max(matched(&CUES.courtesy)) else {
                return Stripped::Statement(rest);
            };
            is_parting |= parting.is_some();
            // What follows the first mark may be a statement of its own.
            let tail = rest[length..]
                .find(MARKS)
                .map_or("", |at| &rest[length + at..])
                .trim_start_matches(|edge: char| MARKS.contains(&edge) || edge.is_whitespace());
            let conjunction = CUES.conjunction.iter().find_map(|cue| prefix_length(tail, cue));
            rest = tail[conjunction.unwrap_or_default()..].trim_start();
            if rest.split_whitespace().count() < MINIMUM_WORDS {
                rest = "";
            }
        }
        if rest.is_empty() {
            return if is_parting {
                Stripped::Parting
            } else {
                Stripped::Courtesy
            };
        }
    }
}

/// An action found in a sentence.
struct Proposal<'a> {
    /// The sentence without its reason.
    action: &'a str,
    /// Whether the sentence also states an opinion, which is a claim.
    is_opinion: bool,
}

/// The action that a sentence proposes: an imperative, a plan, or an opinion about what to do.
fn proposal<'a>(text: &'a str, lower: &str) -> Option<Proposal<'a>> {
    let is_opinion = starts_with_any(lower, &CUES.proposal);
    if !is_opinion && !is_action(lower) {
        return None;
    }
    let reason = text.match_indices(' ').map(|(at, _)| at).find(|at| {
        CUES.reason
            .iter()
            .any(|cue| prefix_length(&text[at + 1..], cue).is_some())
    });
    Some(Proposal {
        action: reason.map_or(text, |at| text[..at].trim_end_matches([',', ';', ' '])),
        is_opinion: is_opinion || reason.is_some(),
    })
}

fn is_decision(lower: &str) -> bool {
    starts_with_any(lower, &CUES.decision_start)
        || CUES.decision.iter().any(|cue| contains_phrase(lower, cue))
}

/// Whether a sentence outside a code block is code or data rather than prose: all of it is quoted, it begins
/// like a command, or it has many operators and brackets outside inline code.
fn looks_like_code(text: &str) -> bool {
    const SYMBOL_SHARE: f64 = 0.08;
    let is_quoted = |open: char, close: char| {
        let inner = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        inner.is_some_and(|inner| !inner.contains(close))
    };
    if is_quoted('"', '"') || is_quoted('“', '”') || is_quoted('`', '`') {
        return true;
    }
    if CUES.code_start.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    let prose: String = text.split('`').step_by(2).collect();
    let symbols = prose.matches(|c: char| "{}[]<>=|\\;$^~".contains(c)).count();
    symbols > 2 && symbols as f64 >= SYMBOL_SHARE * prose.chars().count() as f64
}

/// The text without JSON objects and arrays that begin a line.
fn without_json(text: &str) -> Cow<'_, str> {
    // Bounds the work for text with many lines that begin like JSON.
    const ATTEMPTS: usize = 64;
    let mut kept = String::new();
    let (mut from, mut at, mut attempts) = (0, 0, 0);
    for line in text.split_inclusive('\n') {
        let start = at + (line.len() - line.trim_start().len());
        at += line.len();
        if start < from || attempts == ATTEMPTS || !text[start..].starts_with(['{', '[']) {
            continue;
        }
        attempts += 1;
        let mut values = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
        if let Some(Ok(Value::Object(_) | Value::Array(_))) = values.next() {
            let end = start + values.byte_offset();
            // "[1] says so" is a sentence.
            if text[end..]
                .lines()
                .next()
                .is_none_or(|rest| rest.trim().is_empty())
            {
                kept.push_str(&text[from..start]);
                kept.push('\n');
                from = end;
            }
        }
    }
    if from == 0 {
        return Cow::Borrowed(text);
    }
    kept.push_str(&text[from..]);
    Cow::Owned(kept)
}

/// The sentence on one line, without emphasis marks.
fn clean(text: &str) -> String {
    let text = text.replace("**", "").replace("__", "");
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .trim_matches(['*', '_'])
        .trim()
        .to_owned()
}

/// The text in lowercase with plain apostrophes, as the cues are written.
fn fold(text: &str) -> String {
    text.to_lowercase().replace('’', "'")
}

/// Whether a sentence is a plan or an imperative: it starts with a verb of the list, and no finite verb among
/// the next words makes that a noun ("Test coverage is low").
fn is_action(lower: &str) -> bool {
    if [&CUES.action, &CUES.intention, &CUES.joint_intention]
        .iter()
        .any(|cues| starts_with_any(lower, cues))
    {
        return true;
    }
    let mut words = lower
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let is_imperative = words
        .next()
        .is_some_and(|first| CUES.imperative.iter().any(|verb| verb == first));
    is_imperative
        && !words
            .take(4)
            .any(|word| CUES.finite_verb.iter().any(|verb| verb == word))
}

fn starts_with_any(lower: &str, cues: &[String]) -> bool {
    cues.iter().any(|cue| starts_with_phrase(lower, cue))
}

/// Length of `phrase` at the beginning of `text`, without regard to case and the shape of apostrophes.
fn prefix_length(text: &str, phrase: &str) -> Option<usize> {
    let mut letters = text.char_indices();
    for expected in phrase.chars() {
        let (_, found) = letters.next()?;
        let found = if found == '’' { '\'' } else { found };
        if !found.to_lowercase().eq(expected.to_lowercase()) {
            return None;
        }
    }
    let rest = letters.as_str();
    (!rest.starts_with(char::is_alphanumeric)).then_some(text.len() - rest.len())
}

fn contains_phrase(lower: &str, phrase: &str) -> bool {
    lower.match_indices(phrase).any(|(at, _)| {
        let before = lower[..at].chars().next_back();
        !before.is_some_and(char::is_alphanumeric) && ends_at_word(&lower[at..], phrase)
    })
}

fn starts_with_phrase(lower: &str, phrase: &str) -> bool {
    lower.starts_with(phrase) && ends_at_word(lower, phrase)
}

fn ends_at_word(text: &str, phrase: &str) -> bool {
    phrase.ends_with(':')
        || !text[phrase.len()..]
            .chars()
            .next()
            .is_some_and(char::is_alphanumeric)
}

/// Distinct URLs in order of appearance, without trailing punctuation.
fn urls(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let starts = text.match_indices("http").map(|(at, _)| &text[at..]);
    for rest in starts.filter(|rest| rest.starts_with("http://") || rest.starts_with("https://")) {
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"' | '`' | '|'))
            .unwrap_or(rest.len());
        let mut address = rest[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '*', '_', ']']);
        while address.ends_with(')') && address.matches(')').count() > address.matches('(').count() {
            address = address[..address.len() - 1].trim_end_matches(['.', ',', ']']);
        }
        // In a Markdown link with a URL as its text, the second URL is not part of the first.
        if let Some((before, _)) = address.split_once("](") {
            address = before;
        }
        let host = address.split_once("://").map_or("", |(_, host)| host);
        if !host.is_empty() && !found.iter().any(|other| other == address) {
            found.push(address.to_owned());
        }
    }
    found
}

/// The phrase lists of `data/cues.toml`, which says where each of them matches.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cues {
    decision: Vec<String>,
    decision_start: Vec<String>,
    action: Vec<String>,
    intention: Vec<String>,
    joint_intention: Vec<String>,
    announcement: Vec<String>,
    proposal: Vec<String>,
    reason: Vec<String>,
    finite_verb: Vec<String>,
    imperative: Vec<String>,
    heading_actions: Vec<String>,
    heading_questions: Vec<String>,
    heading_decisions: Vec<String>,
    heading_claims: Vec<String>,
    label: Vec<String>,
    opener: Vec<String>,
    courtesy: Vec<String>,
    parting: Vec<String>,
    courtesy_exception: Vec<String>,
    filler: Vec<String>,
    request: Vec<String>,
    conjunction: Vec<String>,
    task: Vec<String>,
    requester: Vec<String>,
    executor: Vec<String>,
    code_start: Vec<String>,
}

/// A test reads the file, so that the lists are never empty.
static CUES: LazyLock<Cues> = LazyLock::new(|| toml::from_str(CUE_FILE).unwrap_or_default());
const CUE_FILE: &str = include_str!("data/cues.toml");

#[cfg(test)]
mod tests {
    use super::*;

    /// Turns in which the rules find something.
    fn turns(log: &MessageLog) -> Vec<Turn<'_>> {
        collect_turns(log, |_, outputs| *outputs != Outputs::default())
    }

    fn said(text: &str) -> Outputs {
        said_and(text, false)
    }

    fn said_and(text: &str, carried_out: bool) -> Outputs {
        let message = Message {
            text: text.to_owned(),
            ..Message::default()
        };
        outputs(&message, carried_out)
    }

    fn claims(outputs: &Outputs) -> Vec<&str> {
        outputs.claims.iter().map(|claim| claim.text.as_str()).collect()
    }

    #[test]
    fn sentences_are_classified() {
        let outputs = said(
            "The cache misses on cold starts. Should we warm it? We decided to ship on Monday. \
             I'll write the migration. Run the load test before lunch. Test coverage is low. OK!",
        );
        assert_eq!(
            claims(&outputs),
            ["The cache misses on cold starts.", "Test coverage is low."]
        );
        assert_eq!(outputs.open_questions, ["Should we warm it?"]);
        assert_eq!(outputs.decisions, ["We decided to ship on Monday."]);
        assert_eq!(
            outputs.next_actions,
            ["I'll write the migration.", "Run the load test before lunch."]
        );
    }

    #[test]
    fn headings_and_check_boxes_classify_lists() {
        let outputs = said(
            "## Findings\n- Cache is cold at start\n\n**Next steps:**\n- warm the cache at boot\n- the dashboards\n\n\
             Open questions:\n- who owns the rota\n\nTasks so far\n- [ ] ask Ana\n- [x] read the logs carefully",
        );
        assert_eq!(
            claims(&outputs),
            [
                "Cache is cold at start",
                "Tasks so far",
                "read the logs carefully"
            ]
        );
        assert_eq!(
            outputs.next_actions,
            ["warm the cache at boot", "the dashboards", "ask Ana"]
        );
        assert_eq!(outputs.open_questions, ["who owns the rota"]);
    }

    #[test]
    fn code_and_quotations_are_ignored() {
        let outputs = said("Before the code here.\n```sh\nrun this now\n```\n> you said it was fine\n");
        assert_eq!(claims(&outputs), ["Before the code here."]);
        assert!(outputs.next_actions.is_empty());
    }

    #[test]
    fn the_cue_file_is_valid() {
        let cues: Cues = toml::from_str(CUE_FILE).unwrap();
        assert!(cues.imperative.len() > 100);
    }

    #[test]
    fn an_opinion_is_a_claim_with_a_proposal() {
        let outputs = said(
            "We should use PostgreSQL because it handles JSON well. I suggest adding an index. \
             Use Redis for sessions since they are small.",
        );
        assert_eq!(
            claims(&outputs),
            [
                "We should use PostgreSQL because it handles JSON well.",
                "I suggest adding an index.",
                "Use Redis for sessions since they are small."
            ]
        );
        assert_eq!(
            outputs.next_actions,
            [
                "We should use PostgreSQL",
                "I suggest adding an index.",
                "Use Redis for sessions"
            ]
        );
    }

    #[test]
    fn courtesies_labels_tables_and_data_are_not_claims() {
        for text in [
            "Thank you for the detailed review!",
            "Hi everyone, how can I help you today?",
            "You're welcome, and have a great day ahead!",
            "Great question!",
            "If you have any other questions, feel free to ask.",
            "Here are the details of your booking:",
            "Summary:",
            "| name | value |\n| --- | --- |\n| cache size | 20 MB |",
            "{\"status\": \"the cache is cold\", \"next\": [1, 2]}",
            "Result follows.\n{\n  \"answer\": \"The cache is cold.\"\n}",
            "if (cache[key] == null) { load(key); return cache[key]; }",
            "$ cargo test --workspace --all-features",
            "1. \"Spectre 2015 Netflix availability\"",
            "If you need further assistance, feel free to ask!",
        ] {
            let outputs = said(text);
            assert_eq!(claims(&outputs), [""; 0], "{text}");
            assert!(
                outputs.open_questions.is_empty() && outputs.next_actions.is_empty(),
                "{text}"
            );
        }
        for (text, claim) in [
            ("Sure, the cache is cold at start.", "the cache is cold at start."),
            ("Summary: the cache is cold.", "the cache is cold."),
            (
                "Thanks for the review, but latency matters more.",
                "latency matters more.",
            ),
            (
                "Thanks to the index, queries are fast.",
                "Thanks to the index, queries are fast.",
            ),
            (
                "Great performance needs a warm cache.",
                "Great performance needs a warm cache.",
            ),
            (
                "[P1] The lock is held across an await.",
                "[P1] The lock is held across an await.",
            ),
            ("Please note that one seat is left.", "one seat is left."),
            ("[1] says that caches help.", "[1] says that caches help."),
        ] {
            assert_eq!(claims(&said(text)), [claim], "{text}");
        }
    }

    #[test]
    fn intentions_are_not_claims_and_not_actions_of_the_message_that_carries_them_out() {
        for text in [
            "Let me look at the parser.",
            "I'll now run the tests.",
            "THOUGHT: Let me check the configuration first.",
        ] {
            assert_eq!(said(text), Outputs::default(), "{text}");
        }
        for text in [
            "Next, I will check the migration.",
            "THOUGHT: I’ll open the file.",
            "I'll write the migration.",
            "Let's re-run the calculation.",
        ] {
            assert_eq!(said_and(text, true), Outputs::default(), "{text}");
            let later = said_and(text, false);
            assert_eq!((later.claims.len(), later.next_actions.len()), (0, 1), "{text}");
        }
        let message = |text: &str, tools: &[&str]| Message {
            text: text.to_owned(),
            tool_calls: tools.iter().map(|&tool| tool.to_owned()).collect(),
            ..Message::default()
        };
        let log = MessageLog {
            messages: vec![
                message("The parser drops tabs. I'll run the tests.", &["run"]),
                message("Tabs are dropped in lex.rs. I'll fix it.", &[]),
                message("", &["edit"]),
                message("The queue is full. I'll drain it:\n```sh\ndrain\n```", &[]),
                message("The disk is full. I'll call Ana.", &[]),
            ],
            ..MessageLog::default()
        };
        let actions: Vec<usize> = turns(&log)
            .iter()
            .map(|turn| turn.round.outputs.next_actions.len())
            .collect();
        assert_eq!(actions, [0, 0, 0, 1]);
    }

    #[test]
    fn requests_for_an_answer_are_open_questions() {
        let outputs =
            said("Please confirm the date of the flight. Please let me know which seat you prefer.");
        assert_eq!(outputs.open_questions.len(), 2, "{outputs:?}");
        assert!(outputs.next_actions.is_empty() && outputs.claims.is_empty());
    }

    #[test]
    fn decisions_are_found_by_their_beginning() {
        let outputs = said(
            "Escalate: legal has to choose the region. Decision: use two regions. We will go with the European one.",
        );
        assert_eq!(outputs.decisions.len(), 3, "{outputs:?}");
        assert!(outputs.claims.is_empty() && outputs.next_actions.is_empty());
    }

    #[test]
    fn tasks_and_users_who_ask_are_inputs() {
        let message = |role, name: Option<&str>, text: &str| Message {
            role,
            name: name.map(str::to_owned),
            text: text.to_owned(),
            ..Message::default()
        };
        let agents = |messages: Vec<Message>| -> Vec<String> {
            let log = MessageLog {
                messages,
                ..MessageLog::default()
            };
            turns(&log)
                .iter()
                .filter_map(|turn| turn.round.agent.clone())
                .collect()
        };
        let prompt = message(Role::User, None, "The parser drops tabs. Please fix it.");
        let reply = message(Role::Assistant, None, "Tabs are dropped in lex.rs.");
        assert_eq!(
            agents(vec![prompt.clone()]),
            [""; 0],
            "a log that only has its prompt"
        );
        assert_eq!(agents(vec![prompt, reply]), ["assistant"]);
        let task = "You are given: (1) a task and advice. The population of two cities differs.";
        assert_eq!(
            agents(vec![
                message(Role::Assistant, Some("Census_Expert"), task),
                message(
                    Role::User,
                    Some("Computer_terminal"),
                    "There is no code to execute."
                ),
                message(
                    Role::Assistant,
                    Some("Data_Expert"),
                    "Seattle has 737,015 inhabitants."
                ),
                message(Role::User, Some("user_proxy"), "The result looks right to me."),
                message(
                    Role::Assistant,
                    Some("Census_Expert"),
                    "Colville has 4,965 inhabitants."
                ),
            ]),
            ["Data_Expert", "Census_Expert"]
        );
        assert_eq!(
            agents(vec![
                message(Role::User, Some("ana"), "The parser drops tabs."),
                message(Role::Assistant, Some("bot"), "Tabs are dropped in lex.rs."),
                message(Role::User, Some("ana"), "The lexer has no test for tabs."),
            ]),
            ["bot", "ana"],
            "the message before the first answer is the task"
        );
    }

    #[test]
    fn thanks_form_a_round_after_a_discussion_only() {
        let message = |role, text: &str| Message {
            role,
            text: text.to_owned(),
            ..Message::default()
        };
        let partings = |messages: Vec<Message>| -> Vec<usize> {
            let log = MessageLog {
                messages,
                ..MessageLog::default()
            };
            turns(&log)
                .iter()
                .map(|turn| turn.round.outputs.partings.len())
                .collect()
        };
        let (said, thanks) = ("The cache is cold at start.", "Thank you so much for the help!");
        let welcome = "You're welcome! Have a great day!";
        let talk = |rest: Vec<Message>| [vec![message(Role::Assistant, said)], rest].concat();
        assert_eq!(
            partings(vec![
                message(Role::User, thanks),
                message(Role::Assistant, welcome)
            ]),
            [0; 0]
        );
        let (user, assistant) = (message(Role::User, thanks), message(Role::Assistant, welcome));
        assert_eq!(partings(talk(vec![user.clone(), assistant.clone()])), [0, 2]);
        assert_eq!(partings(talk(vec![assistant.clone(), user])), [0, 2]);
        let more = message(Role::Assistant, "Thank you! The cache is warm now.");
        assert_eq!(partings(talk(vec![more])), [0, 0]);
    }

    #[test]
    fn urls_are_citations() {
        let text = "See https://a.example/x_(y). Also [docs](https://b.example/z?q=1), <https://a.example/x_(y)> http:// end";
        assert_eq!(urls(text), ["https://a.example/x_(y)", "https://b.example/z?q=1"]);
    }

    #[test]
    fn a_turn_with_other_outputs_keeps_its_position_plan_and_urls() {
        let message = |role, text: &str| Message {
            role,
            text: text.to_owned(),
            ..Message::default()
        };
        let mut planned = message(Role::Assistant, "The cache is cold, see https://a.example/x.");
        planned.plan = vec![
            super::super::PlanItem {
                text: "warm it".into(),
                done: false,
            },
            super::super::PlanItem {
                text: "find it".into(),
                done: true,
            },
        ];
        planned.name = Some("critic".into());
        let log = MessageLog {
            messages: vec![
                message(Role::User, "Why is it slow?"),
                message(Role::Assistant, "OK!"),
                planned,
            ],
            ..MessageLog::default()
        };
        let found = turns(&log);
        assert_eq!(found.len(), 1);
        assert_eq!(extract(&log).rounds, [found[0].round.clone()]);
        let sorted = Outputs {
            next_actions: vec!["warm it".into()],
            decisions: vec!["keep it".into()],
            ..Outputs::default()
        };
        let round = found[0].clone().sorted_as(sorted);
        assert_eq!(round.agent.as_deref(), Some("critic"));
        assert_eq!(round.inputs, found[0].round.inputs);
        assert_eq!(round.outputs.next_actions, ["warm it"]);
        assert_eq!(round.outputs.decisions, ["keep it"]);
        assert_eq!(round.outputs.citations, [Value::from("https://a.example/x")]);
        assert!(round.outputs.claims.is_empty());
    }

    #[test]
    fn cues_end_at_words() {
        assert!(!is_action("letsgo is a tool"));
        assert!(!is_action("i'llness"));
        assert!(contains_phrase("so we decided to stop", "we decided"));
        assert!(!contains_phrase("so we decidedly stop", "we decided"));
    }
}
