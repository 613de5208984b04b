//! Kind of a question, and whether a text has what the kind asks for. The words are in `data/questions.toml`
//! and `data/answers.toml`.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::terms::terms;
use crate::text::document::BlockKind;

/// What a question asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// A number: how many, which port.
    Number,
    /// A time: when.
    Time,
    /// A place: where, in which file.
    Place,
    /// A person or organization: who.
    Person,
    /// A reason: why.
    Reason,
    /// Instructions: how do I.
    Procedure,
    /// A name: which command, which option.
    Name,
    /// Several things: which formats.
    List,
    /// Yes or no.
    YesNo,
    /// An explanation of a thing: what is.
    Definition,
    /// Anything else.
    #[default]
    Other,
}

impl QuestionKind {
    /// Determines what a question asks for from its first words.
    pub fn of(question: &str) -> Self {
        let words: Vec<String> = question
            .split(|c: char| !(c.is_alphanumeric() || c == '\''))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let begins = |phrase: &str, at: usize| {
            let mut rest = words.iter().skip(at);
            phrase
                .split(' ')
                .all(|word| rest.next().is_some_and(|own| own == word))
        };
        if asks_what_a_thing_is(&words) {
            return Self::Definition;
        }
        let question_word = words
            .iter()
            .take(2)
            .position(|word| word == "which" || word == "what");
        let found = QUESTIONS.kind.iter().find(|entry| {
            entry.starts.iter().any(|phrase| begins(phrase, 0))
                || question_word.is_some_and(|at| {
                    let places = at + 1..=at + 1 + MAX_BETWEEN;
                    places
                        .into_iter()
                        .any(|at| entry.asks.iter().any(|noun| begins(noun, at)))
                })
        });
        // "Which shells": a plural noun asks for several things.
        let plural = |word: &String| {
            word.len() > 3 && word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
        };
        let several = question_word.is_some_and(|at| words.iter().skip(at + 1).take(2).any(plural));
        match found {
            Some(entry) => entry.name,
            None if several => Self::List,
            None => Self::Other,
        }
    }

    /// Returns the label for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Number => "a number",
            Self::Time => "a time",
            Self::Place => "a place",
            Self::Person => "a person",
            Self::Reason => "a reason",
            Self::Procedure => "instructions",
            Self::Name => "a name",
            Self::List => "a list",
            Self::YesNo => "yes or no",
            Self::Definition => "a definition",
            Self::Other => "a statement",
        }
    }

    /// Whether a text has what the kind asks for, beyond the question's own words.
    pub(super) fn is_satisfied_by(self, question: &str, text: &str, block: BlockKind) -> bool {
        let lower = text.to_lowercase();
        let asked = question.to_lowercase();
        let new_word = |word: &str| !asked.contains(&word.to_lowercase());
        match self {
            Self::Number => {
                let digits =
                    tokens(text).any(|word| word.chars().any(|c| c.is_ascii_digit()) && new_word(word));
                digits || has_phrase(&lower, &ANSWERS.number_words)
            }
            Self::Time => {
                tokens(text).any(|word| word.chars().any(|c| c.is_ascii_digit()))
                    || has_phrase(&lower, &ANSWERS.months)
                    || has_phrase(&lower, &ANSWERS.time_units)
            }
            Self::Place => {
                code_spans(text)
                    || has_path(text)
                    || block == BlockKind::Code
                    || has_phrase(&lower, &ANSWERS.place)
            }
            Self::Person => proper_name(text, &asked),
            Self::Reason => has_phrase(&lower, &ANSWERS.reason),
            Self::Procedure => {
                matches!(block, BlockKind::Code | BlockKind::List) || code_spans(text) || is_instruction(text)
            }
            Self::Name => {
                code_spans(text)
                    || matches!(block, BlockKind::Code | BlockKind::Table)
                    || proper_name(text, &asked)
            }
            Self::List => {
                matches!(block, BlockKind::List | BlockKind::Table)
                    || text.matches(',').count() >= 2
                    || (text.contains(',') && text.contains(" and "))
            }
            Self::Definition => defines(question, &lower),
            Self::YesNo | Self::Other => true,
        }
    }

    /// Whether a text has the best form of an answer of this kind.
    pub(super) fn prefers(self, question: &str, text: &str, block: BlockKind) -> bool {
        match self {
            Self::Definition => is_definition(question, &text.to_lowercase()),
            Self::Procedure => matches!(block, BlockKind::Code | BlockKind::List),
            Self::List => matches!(block, BlockKind::List | BlockKind::Table),
            _ => false,
        }
    }
}

/// Largest number of words between "which" and the noun that says what is asked.
const MAX_BETWEEN: usize = 3;

/// Words of a text, with dots and slashes inside.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '-')))
        .filter(|word| !word.is_empty())
}

/// Whether a lower-case text contains one of the phrases as whole words.
fn has_phrase(lower: &str, phrases: &[String]) -> bool {
    phrases.iter().any(|phrase| {
        lower.match_indices(phrase.as_str()).any(|(at, found)| {
            let outside = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            outside(lower[..at].chars().next_back()) && outside(lower[at + found.len()..].chars().next())
        })
    })
}

fn code_spans(text: &str) -> bool {
    text.matches('`').count() >= 2
}

fn has_path(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '~' && c != '.');
        (word.len() > 2 && word.contains('/') && !word.starts_with("//")) || word.contains("://")
    })
}

/// Whether a text has a capitalized word that does not begin a sentence and is not in the question.
fn proper_name(text: &str, asked: &str) -> bool {
    let mut begins = true;
    for word in text.split_whitespace() {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let capital = bare.chars().next().is_some_and(char::is_uppercase);
        if capital && !begins && !asked.contains(&bare.to_lowercase()) {
            return true;
        }
        begins = word.ends_with(['.', '!', '?', ':']);
    }
    false
}

/// Whether a text says what the subject of the question is: the subject, and soon a verb such as "is".
fn defines(question: &str, lower: &str) -> bool {
    let wanted: Vec<String> = terms(question);
    let words: Vec<&str> = lower.split_whitespace().take(MAX_SUBJECT_WORDS).collect();
    (1..words.len()).any(|at| {
        let verb = ANSWERS.definition.iter().any(|verb| {
            let mut rest = words[at..].iter();
            verb.split(' ')
                .all(|part| rest.next().is_some_and(|word| word.trim_end_matches(':') == part))
        });
        verb && terms(&words[..at].join(" "))
            .iter()
            .any(|term| wanted.contains(term))
    })
}

/// Whether a text begins with the subject of the question alone, and says what it is: "A claim is a sentence".
fn is_definition(question: &str, lower: &str) -> bool {
    let wanted: Vec<String> = terms(question);
    let words: Vec<&str> = lower.split_whitespace().take(MAX_SUBJECT_WORDS).collect();
    words.windows(2).enumerate().any(|(at, pair)| {
        let subject = terms(&words[..at].join(" "));
        ANSWERS.copulas.iter().any(|verb| verb == pair[0])
            && ANSWERS.articles.iter().any(|article| article == pair[1])
            && !subject.is_empty()
            && subject.iter().all(|term| wanted.contains(term))
    })
}

/// Whether a question names a thing without saying which one: "What is a claim?", "What are signals?".
fn asks_what_a_thing_is(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["what", "is" | "are", thing] | ["what", "does", thing, "mean"] => thing.len() > 2,
        ["what", "is", "a" | "an", _] | ["what", "is", "a" | "an", _, _] => true,
        _ => false,
    }
}

/// Number of words among which the verb of a definition is searched.
const MAX_SUBJECT_WORDS: usize = 8;

/// Whether a sentence instructs: it begins with a verb rather than with a subject, or says what one can do.
fn is_instruction(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    !ANSWERS.subjects.contains(&first) || has_phrase(&text.to_lowercase(), &ANSWERS.instructions)
}

#[derive(Deserialize)]
struct Questions {
    kind: Vec<KindWords>,
}

#[derive(Deserialize)]
struct KindWords {
    name: QuestionKind,
    starts: Vec<String>,
    asks: Vec<String>,
}

#[derive(Deserialize, Default)]
struct AnswerWords {
    reason: Vec<String>,
    definition: Vec<String>,
    copulas: Vec<String>,
    articles: Vec<String>,
    months: Vec<String>,
    time_units: Vec<String>,
    number_words: Vec<String>,
    place: Vec<String>,
    subjects: Vec<String>,
    instructions: Vec<String>,
}

// The files are compiled in, and a test parses them.
static QUESTIONS: LazyLock<Questions> = LazyLock::new(|| {
    toml::from_str(include_str!("data/questions.toml")).unwrap_or(Questions { kind: Vec::new() })
});
static ANSWERS: LazyLock<AnswerWords> =
    LazyLock::new(|| toml::from_str(include_str!("data/answers.toml")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_classified_by_their_first_words() {
        assert!(QUESTIONS.kind.len() > 8 && !ANSWERS.reason.is_empty());
        for (question, expected) in [
            ("Which ports must be open?", QuestionKind::Number),
            ("How many rounds are there at most?", QuestionKind::Number),
            ("What is the default timeout of a request?", QuestionKind::Number),
            ("When is a proposal evicted?", QuestionKind::Time),
            ("Where is the database stored?", QuestionKind::Place),
            ("In which file are the settings?", QuestionKind::Place),
            ("Who maintains the project?", QuestionKind::Person),
            ("Why does it stop?", QuestionKind::Reason),
            ("How do I install it?", QuestionKind::Procedure),
            ("Which command starts the server?", QuestionKind::Name),
            ("Which output formats are supported?", QuestionKind::List),
            ("What are the exit codes?", QuestionKind::List),
            ("Does it need a network?", QuestionKind::YesNo),
            ("What is a claim?", QuestionKind::Definition),
            ("What is an argument?", QuestionKind::Definition),
            ("What are signals?", QuestionKind::Definition),
            ("What is the argument?", QuestionKind::Name),
            ("Which shells does completion support?", QuestionKind::List),
            ("compare the two", QuestionKind::Other),
        ] {
            assert_eq!(QuestionKind::of(question), expected, "{question}");
        }
    }

    #[test]
    fn a_sentence_about_the_subject_alone_is_a_definition() {
        let prefers =
            |text: &str| QuestionKind::Definition.prefers("What are signals?", text, BlockKind::Paragraph);
        assert!(prefers("Signals are a way to notify subscribers."));
        assert!(!prefers("Signals are implemented by a library."));
        assert!(!prefers("The advantage of signals is the decoupling."));
        assert!(!prefers(""));
    }

    #[test]
    fn a_text_satisfies_what_is_asked() {
        let check = |question: &str, text: &str| {
            QuestionKind::of(question).is_satisfied_by(question, text, BlockKind::Paragraph)
        };
        assert!(check("Which ports must be open?", "Open port 8787 on the host."));
        assert!(!check(
            "Which ports must be open?",
            "The ports of the host must be open."
        ));
        assert!(!check("How many of the 5 rounds count?", "The 5 rounds count."));
        assert!(check(
            "Where is it stored?",
            "It is stored below `~/.local/share`."
        ));
        assert!(check("Why does it stop?", "It stops because nothing is new."));
        assert!(!check("Why does it stop?", "It stops."));
        assert!(check("Which command starts it?", "Run `satiety serve`."));
        assert!(check(
            "What is a claim?",
            "A claim is a sentence that can be wrong."
        ));
        assert!(!check("What is a claim?", "The next section is about the claim."));
        assert!(check("Who wrote it?", "It was written by Ada Lovelace."));
        assert!(!check("Who wrote it?", "It was written quickly."));
    }
}
