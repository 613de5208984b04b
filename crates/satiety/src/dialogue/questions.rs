//! Tracking of questions: open, answered, deferred or dropped without an answer.
//! A claim or decision of the same or a later round counts as an answer; its quality is not evaluated.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::lexicon::{self, Phrases, RoundWords};
use super::named::NamedTexts;
use super::profile::{NoveltyRules, QuestionRules};
use super::vectors::{RoundVectors, cosine};
use super::wire::Round;
use crate::cancel::{Cancellation, Cancelled};
use crate::text::{ThresholdError, normalize};

/// A question and its state.
#[derive(Debug, Clone)]
struct Tracked {
    text: String,
    /// Sorted and distinct.
    terms: Vec<u32>,
    vector: Option<Vec<f32>>,
}

/// A question with the text that answers it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) question: String,
    pub(super) reply: String,
    /// Index among the round's claims; `None` if a decision answers.
    pub(super) claim: Option<usize>,
}

/// State of the questions after a round.
#[derive(Debug, Clone, Default)]
pub(super) struct QuestionState {
    /// Questions listed as open that the round does not close.
    pub(super) open: Vec<String>,
    /// Number of open questions asked for the first time.
    pub(super) asked: usize,
    pub(super) answered: Vec<Answer>,
    /// Questions that are no longer listed, without an answer in the round.
    pub(super) dropped: Vec<String>,
    /// Claims phrased as questions.
    pub(super) hidden: Vec<String>,
}

/// All questions so far.
#[derive(Debug, Clone)]
pub(super) struct QuestionLedger {
    tracked: Vec<Tracked>,
    texts: NamedTexts,
    /// Numbers of the open questions.
    open: BTreeSet<usize>,
    nothing: Arc<BTreeSet<String>>,
    closed: Phrases,
    interrogatives: Phrases,
    hidden: Phrases,
}

impl QuestionLedger {
    pub(super) fn new(rules: &QuestionRules, novelty: &NoveltyRules) -> Result<Self, ThresholdError> {
        Ok(Self {
            tracked: Vec::new(),
            texts: NamedTexts::new(novelty)?,
            open: BTreeSet::new(),
            nothing: Arc::new(rules.nothing.iter().map(|entry| normalize(entry)).collect()),
            closed: Phrases::new(&rules.closed_prefixes),
            interrogatives: Phrases::new(&rules.interrogatives),
            hidden: Phrases::new(&rules.hidden_prefixes),
        })
    }

    /// Updates the questions with the next round.
    pub(super) fn observe(
        &mut self,
        round: &Round,
        words: &RoundWords<'_>,
        vectors: Option<&RoundVectors>,
        rules: &QuestionRules,
        novelty: &NoveltyRules,
        cancellation: &Cancellation,
    ) -> Result<QuestionState, Cancelled> {
        let mut state = QuestionState::default();
        let replies = Replies::of(round, words, vectors);
        let mut listed = BTreeSet::new();
        for (position, text) in round.outputs.open_questions.iter().enumerate() {
            cancellation.check()?;
            if self.is_settled(text, &words.questions[position]) {
                continue;
            }
            let vector = vectors.map(|vectors| vectors.questions[position].as_slice());
            let terms = &words.question_terms[position];
            let (number, is_first) = self.track(text, terms, vector, novelty);
            if !listed.insert(number) {
                continue;
            }
            // A question listed in the round that decides it was copied from an earlier list. Only decisions
            // close it.
            if let Some(answer) = replies.decision_for(&self.tracked[number], rules) {
                self.open.remove(&number);
                state.answered.push(answer);
            } else {
                self.open.insert(number);
                state.asked += usize::from(is_first);
                state.open.push(text.clone());
            }
        }
        let unlisted: Vec<usize> = self.open.difference(&listed).copied().collect();
        for number in unlisted {
            cancellation.check()?;
            self.open.remove(&number);
            let question = &self.tracked[number];
            match replies.answer_to(question, rules) {
                Some(answer) => state.answered.push(answer),
                None => state.dropped.push(question.text.clone()),
            }
        }
        state.hidden = self.hidden_among_claims(round, words);
        Ok(state)
    }

    fn is_settled(&self, text: &str, words: &[&str]) -> bool {
        let bare = text.trim_matches(|edge: char| !edge.is_alphanumeric());
        bare.is_empty() || self.nothing.contains(&normalize(bare)) || self.closed.match_start(words)
    }

    fn track(
        &mut self,
        text: &str,
        terms: &[u32],
        vector: Option<&[f32]>,
        novelty: &NoveltyRules,
    ) -> (usize, bool) {
        if let Some(number) = self.texts.first_similar(text, vector, novelty) {
            return (number, false);
        }
        self.texts.insert(text, vector);
        self.tracked.push(Tracked {
            text: text.to_owned(),
            terms: distinct(terms),
            vector: vector.map(<[f32]>::to_vec),
        });
        (self.tracked.len() - 1, true)
    }

    fn hidden_among_claims(&self, round: &Round, words: &RoundWords<'_>) -> Vec<String> {
        let is_question = |text: &str, words: &[&str]| {
            (text.trim_end().ends_with('?') && (words.len() > 1 || self.interrogatives.match_start(words)))
                || self.hidden.match_start(words)
        };
        let claims = round.outputs.claims.iter().map(|claim| &claim.text);
        claims
            .zip(&words.claims)
            .filter(|(text, words)| is_question(text, words))
            .map(|(text, _)| text.clone())
            .collect()
    }
}

/// Possible answers in a round, decisions first because they take precedence.
struct Replies<'a> {
    replies: Vec<Reply<'a>>,
}

struct Reply<'a> {
    text: &'a str,
    /// Sorted and distinct.
    terms: Vec<u32>,
    vector: Option<&'a [f32]>,
    claim: Option<usize>,
}

impl<'a> Replies<'a> {
    fn of(round: &'a Round, words: &'a RoundWords<'_>, vectors: Option<&'a RoundVectors>) -> Self {
        let decisions = round
            .outputs
            .decisions
            .iter()
            .enumerate()
            .map(|(position, text)| {
                let vector = vectors.map(|vectors| vectors.decisions[position].as_slice());
                Reply {
                    text,
                    terms: distinct(&words.decision_terms[position]),
                    vector,
                    claim: None,
                }
            });
        let claims = round.outputs.claims.iter().enumerate().map(|(position, claim)| {
            let vector = vectors.map(|vectors| vectors.claims[position].as_slice());
            Reply {
                text: &claim.text,
                terms: distinct(&words.claim_terms[position]),
                vector,
                claim: Some(position),
            }
        });
        Self {
            replies: decisions
                .chain(claims)
                .filter(|reply| !reply.text.trim_end().ends_with('?'))
                .collect(),
        }
    }

    fn answer_to(&self, question: &Tracked, rules: &QuestionRules) -> Option<Answer> {
        self.best(question, rules.answer_similarity, rules.answer_overlap, |_| true)
    }

    fn decision_for(&self, question: &Tracked, rules: &QuestionRules) -> Option<Answer> {
        // A claim about one option shares words with a question about two, so only similarity of meaning
        // counts here.
        self.best(question, rules.decision_similarity, 2.0, |reply| {
            reply.claim.is_none()
        })
    }

    fn best(
        &self,
        question: &Tracked,
        similarity: f64,
        overlap: f64,
        counts: impl Fn(&Reply<'_>) -> bool,
    ) -> Option<Answer> {
        let score = |reply: &Reply<'_>| {
            let meaning = question
                .vector
                .as_deref()
                .zip(reply.vector)
                .map_or(0.0, |(a, b)| cosine(a, b) / similarity);
            let words = lexicon::containment(&question.terms, &reply.terms) / overlap;
            meaning.max(words)
        };
        let best = self
            .replies
            .iter()
            .filter(|reply| counts(reply))
            .map(|reply| (score(reply), reply))
            .filter(|(score, _)| *score >= 1.0)
            // On ties keep the first, so that decisions precede claims.
            .reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        Some(Answer {
            question: question.text.clone(),
            reply: best.1.text.to_owned(),
            claim: best.1.claim,
        })
    }
}

fn distinct(terms: &[u32]) -> Vec<u32> {
    let mut terms = terms.to_vec();
    terms.sort_unstable();
    terms.dedup();
    terms
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Profile;
    use crate::dialogue::lexicon::RoundTexts;
    use crate::dialogue::wire::Outputs;
    use crate::text::StopWords;
    use crate::text::stem::Vocabulary;

    type Ledger = (QuestionLedger, Vocabulary);

    fn observe((ledger, vocabulary): &mut Ledger, profile: &Profile, round: &Round) -> QuestionState {
        let texts = RoundTexts::of(round);
        ledger
            .observe(
                round,
                &texts.words(vocabulary),
                None,
                &profile.questions,
                &profile.novelty,
                &Cancellation::default(),
            )
            .unwrap()
    }

    fn ledger() -> (Ledger, Profile) {
        let profile = Profile::default();
        let vocabulary = Vocabulary::new(StopWords::Conversation);
        (
            (
                QuestionLedger::new(&profile.questions, &profile.novelty).unwrap(),
                vocabulary,
            ),
            profile,
        )
    }

    fn round(claims: &[&str], decisions: &[&str], questions: &[&str]) -> Round {
        let strings = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Round::new(
            1,
            Outputs {
                claims: claims.iter().map(|&text| text.into()).collect(),
                decisions: strings(decisions),
                open_questions: strings(questions),
                ..Outputs::default()
            },
        )
    }

    #[test]
    fn a_question_is_answered_by_a_later_claim_or_dropped() {
        let (mut ledger, profile) = ledger();
        let mut observe = |round| self::observe(&mut ledger, &profile, &round);
        let first = observe(round(
            &[],
            &[],
            &["Which cache backend do we use?", "Who pays for the servers?"],
        ));
        assert_eq!((first.open.len(), first.asked), (2, 2));
        let second = observe(round(&["The cache backend is Redis."], &[], &[]));
        assert_eq!(second.answered.len(), 1);
        assert_eq!(second.answered[0].claim, Some(0));
        assert_eq!(second.dropped, ["Who pays for the servers?"]);
        assert!(second.open.is_empty());
    }

    #[test]
    fn placeholder_entries_are_not_questions() {
        let (mut ledger, profile) = ledger();
        for entry in [
            "None",
            "none.",
            "N/A",
            "-",
            "",
            "No open questions remain",
            "Resolved: which port",
            "[closed] TLS?",
            "Deferred: naming",
            "No further questions from me.",
        ] {
            let state = observe(&mut ledger, &profile, &round(&[], &[], &[entry]));
            assert!(state.open.is_empty(), "{entry:?} is not an open question");
        }
        for entry in [
            "None of the vendors answered, why?",
            "Closed-source or open-source?",
        ] {
            let (mut ledger, profile) = self::ledger();
            let state = observe(&mut ledger, &profile, &round(&[], &[], &[entry]));
            let expected = usize::from(entry.starts_with("Closed-source"));
            assert_eq!(state.open.len(), expected, "{entry:?}");
        }
    }

    #[test]
    fn a_rephrased_question_is_not_a_second_one() {
        let (mut ledger, profile) = ledger();
        let mut observe = |round| self::observe(&mut ledger, &profile, &round);
        observe(round(&[], &[], &["What is the size of the data set in a year?"]));
        let again = observe(round(
            &[],
            &[],
            &["What is the size of the data set in a year from now?"],
        ));
        assert_eq!((again.open.len(), again.asked), (1, 0));
        assert!(again.dropped.is_empty());
    }

    #[test]
    fn questions_among_claims_are_found() {
        let (mut ledger, profile) = ledger();
        let state = observe(
            &mut ledger,
            &profile,
            &round(
                &[
                    "Should we shard first?",
                    "It is unclear whether the disk is full.",
                    "The disk is full.",
                ],
                &[],
                &[],
            ),
        );
        assert_eq!(state.hidden.len(), 2);
    }
}
