//! Rule-based extraction of rounds from messages: sentences become claims, questions become open questions,
//! plans and imperatives become next actions, "we decided" becomes a decision, URLs become citations. The
//! result is deterministic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

use super::super::wire::{Claim, Inputs, Outputs, Round, Telemetry, Transcript};
use super::{Message, MessageLog, Role};
use crate::text::{Sentence, SentenceKind, sentences};

/// Extracts rounds from a log by fixed rules.
pub fn extract(log: &MessageLog) -> Transcript {
    let rounds = turns(log).into_iter().map(|turn| turn.round).collect();
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
/// it. User messages become inputs of the round that answers them, unless users are named speakers or the
/// only speakers.
pub fn turns(log: &MessageLog) -> Vec<Turn<'_>> {
    let speakers = speakers(log);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut asked: Vec<Value> = Vec::new();
    let mut tools: Vec<Value> = Vec::new();
    for message in &log.messages {
        if matches!(message.role, Role::System | Role::Tool) {
            continue;
        }
        if message.role == Role::User && !speakers.users_speak(message) {
            if !message.text.trim().is_empty() {
                asked.push(Value::String(message.text.clone()));
            }
            continue;
        }
        tools.extend(message.tool_calls.iter().cloned().map(Value::String));
        let outputs = outputs(message);
        if outputs == Outputs::default() {
            continue;
        }
        let mut round = Round::new(u32::try_from(turns.len() + 1).unwrap_or(u32::MAX), outputs);
        round.agent = Some(
            message
                .name
                .clone()
                .unwrap_or_else(|| role_name(message.role).to_owned()),
        );
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

fn keyed(key: &str, values: Vec<Value>) -> BTreeMap<String, Value> {
    if values.is_empty() {
        BTreeMap::new()
    } else {
        BTreeMap::from([(key.to_owned(), Value::Array(values))])
    }
}

struct Speakers {
    has_assistant: bool,
    has_names: bool,
}

impl Speakers {
    /// Whether a user message is a contribution to the discussion rather than a request.
    fn users_speak(&self, message: &Message) -> bool {
        !self.has_assistant || (self.has_names && message.name.is_some())
    }
}

fn speakers(log: &MessageLog) -> Speakers {
    let names: BTreeSet<&str> = log
        .messages
        .iter()
        .filter_map(|message| message.name.as_deref())
        .collect();
    Speakers {
        has_assistant: log.messages.iter().any(|message| message.role == Role::Assistant),
        has_names: names.len() > 1,
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Extracts the outputs of one message.
fn outputs(message: &Message) -> Outputs {
    let mut outputs = Outputs::default();
    let mut section = Section::None;
    for sentence in sentences(&message.text) {
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
        place(sentence, section, &mut outputs);
    }
    add_plan_and_citations(message, outputs)
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
            ("heading_actions", Self::Actions),
            ("heading_questions", Self::Questions),
            ("heading_decisions", Self::Decisions),
            ("heading_claims", Self::Claims),
        ]
        .into_iter()
        .find_map(|(list, section)| CUES.list(list).contains(&heading).then_some(section))
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

fn place(sentence: Sentence<'_>, section: Section, outputs: &mut Outputs) {
    let text = clean(sentence.text);
    let words = text.split_whitespace().count();
    if matches!(sentence.kind, SentenceKind::Code | SentenceKind::Quote) || words == 0 {
        return;
    }
    let lower = text.to_lowercase().replace('’', "'");
    let is_task = sentence.kind == SentenceKind::OpenTask;
    if text.ends_with('?') || (section == Section::Questions && !is_task) {
        outputs.open_questions.push(text);
    } else if is_task || (section == Section::Actions && sentence.kind == SentenceKind::ListItem) {
        outputs.next_actions.push(text);
    } else if section == Section::Decisions
        || CUES
            .list("decision")
            .iter()
            .any(|cue| contains_phrase(&lower, cue))
    {
        outputs.decisions.push(text);
    } else if sentence.kind != SentenceKind::DoneTask && section != Section::Claims && is_action(&lower) {
        outputs.next_actions.push(text);
    } else if words >= 3 {
        // One or two words are a greeting, an agreement or a label, not a claim.
        outputs.claims.push(Claim::new(text));
    }
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

/// Whether a sentence is a plan or an imperative: it starts with a verb of the list, and no finite verb among
/// the next words makes that a noun ("Test coverage is low").
fn is_action(lower: &str) -> bool {
    if CUES
        .list("action")
        .iter()
        .any(|cue| starts_with_phrase(lower, cue))
    {
        return true;
    }
    let mut words = lower
        .split_whitespace()
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    let Some(first) = words.next() else { return false };
    if !CUES.list("imperative").contains(&first) {
        return false;
    }
    !words.take(4).any(|word| {
        matches!(
            word,
            "is" | "are"
                | "was"
                | "were"
                | "has"
                | "have"
                | "had"
                | "will"
                | "would"
                | "can"
                | "could"
                | "should"
                | "must"
                | "may"
                | "might"
                | "does"
                | "did"
                | "takes"
                | "took"
                | "seems"
                | "remains"
                | "of"
        )
    })
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

struct Cues {
    lists: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Cues {
    fn list(&self, name: &str) -> &[&'static str] {
        self.lists.get(name).map_or(&[], Vec::as_slice)
    }
}

static CUES: LazyLock<Cues> = LazyLock::new(|| {
    let mut lists: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = "";
    for line in include_str!("data/cues.txt").lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            current = name;
        } else if !line.is_empty() && !line.starts_with('#') {
            lists.entry(current).or_default().push(line);
        }
    }
    Cues { lists }
});

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Outputs {
        outputs(&Message {
            text: text.to_owned(),
            ..Message::default()
        })
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
