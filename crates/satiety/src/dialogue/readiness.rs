//! Action readiness of a round (seed section 3): specific actions, fewer open questions, no blockers.
//! Depends only on the round itself and the number of questions open before it.

use super::lexicon::{self, Phrases};
use super::profile::{ActionRules, ReadinessRules};
use super::report::{Level, ReadinessDetail};

/// How specific an action is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Specificity {
    /// Such as "Consider caching."
    Vague,
    /// Neither vague nor specific enough to start on.
    Unclear,
    /// Such as "Write the migration."
    Specific,
}

/// Classifies actions by their wording.
#[derive(Debug, Clone)]
pub(super) struct ActionReader {
    vague: Phrases,
    hedges: Phrases,
    verbs: Phrases,
    markers: Phrases,
    ownership: Phrases,
    empty_objects: Phrases,
    short_words: usize,
}

impl ActionReader {
    pub(super) fn new(rules: &ActionRules) -> Self {
        Self {
            vague: Phrases::new(&rules.vague_prefixes),
            hedges: Phrases::new(&rules.hedges),
            verbs: Phrases::new(&rules.verbs),
            markers: Phrases::new(&rules.owner_markers),
            ownership: Phrases::new(&rules.ownership),
            empty_objects: Phrases::new(&rules.empty_objects),
            short_words: rules.short_words,
        }
    }

    /// An action is specific if it is not vague and has an imperative verb with an object, or a concrete
    /// artifact.
    pub(super) fn specificity(&self, action: &str, words: &[&str]) -> Specificity {
        let start = self.after_owner(action, words);
        if self.vague.match_start(&words[start..]) || self.hedges.found_in(words).is_some() {
            return Specificity::Vague;
        }
        let verb = self.verb_at(action, words, start);
        let has_object = verb.is_some_and(|at| {
            words[at + 1..]
                .iter()
                .any(|word| !self.empty_objects.contains(std::slice::from_ref(word)))
        });
        if has_object || has_artifact(action) {
            Specificity::Specific
        } else if verb.is_none() && words.len() < self.short_words {
            Specificity::Vague
        } else {
            Specificity::Unclear
        }
    }

    /// Whether the action names an owner.
    fn has_owner(&self, action: &str, words: &[&str]) -> bool {
        let named = action
            .split_whitespace()
            .any(|word| word.starts_with('@') && word.len() > 1);
        named || self.ownership.found_in(words).is_some() || self.after_owner(action, words) > 0
    }

    /// Index of the first word after a capitalized owner: "Ana:", "Ana to", "Ana and Bo will"; 0 without one.
    fn after_owner(&self, action: &str, words: &[&str]) -> usize {
        const OWNER_WORDS: usize = 4;
        let (head, head_words) = heading(action).unwrap_or_default();
        if (1..=OWNER_WORDS).contains(&head_words)
            && head_words < words.len()
            && starts_with_name(head)
            && !self.verbs.match_start(words)
        {
            return head_words;
        }
        let marker = words
            .iter()
            .take(OWNER_WORDS + 1)
            .position(|word| matches!(*word, "to" | "will" | "must" | "shall"));
        match marker {
            Some(at) if at > 0 && starts_with_name(action) && !self.verbs.match_start(words) => at + 1,
            _ => 0,
        }
    }

    fn verb_at(&self, action: &str, words: &[&str], start: usize) -> Option<usize> {
        let is_verb = |at: usize| {
            words
                .get(at)
                .is_some_and(|word| self.verbs.contains(std::slice::from_ref(word)))
        };
        if is_verb(start) {
            return Some(start);
        }
        // Also accept a verb after a marker ("then update", "please send") or a heading ("Docs: update the
        // page").
        let head = heading(action).map(|(_, words)| words);
        (start..words.len()).skip(1).find(|&at| {
            is_verb(at) && (self.markers.contains(std::slice::from_ref(&words[at - 1])) || head == Some(at))
        })
    }
}

/// The text before the first colon and its number of words.
fn heading(action: &str) -> Option<(&str, usize)> {
    let (head, _) = action.split_once(':')?;
    Some((head, lexicon::words(&lexicon::folded(head)).len()))
}

fn starts_with_name(text: &str) -> bool {
    text.trim_start()
        .chars()
        .next()
        .is_some_and(|first| first.is_uppercase() || first == '@')
}

/// Whether the action names a path, URL, command, flag, pull request or issue.
fn has_artifact(action: &str) -> bool {
    action.contains('`')
        || action.split_whitespace().any(|word| {
            let word = word.trim_matches(|edge: char| matches!(edge, ',' | ';' | ')' | '(' | '"' | '\''));
            let word = word.trim_end_matches(['.', ':', '!', '?']);
            let inner_dot = word.split_once('.').is_some_and(|(stem, ending)| {
                stem.chars().any(char::is_alphabetic)
                    && (1..=5).contains(&ending.len())
                    && ending.chars().all(|c| c.is_ascii_alphanumeric())
                    && ending.chars().any(|c| c.is_ascii_alphabetic())
                    && !matches!(word.to_lowercase().as_str(), "e.g" | "i.e")
            });
            word.contains("://")
                || (word.len() > 2
                    && word.contains('/')
                    && !matches!(word.to_lowercase().as_str(), "and/or" | "either/or" | "he/she"))
                || inner_dot
                || (word.len() > 2 && word.starts_with("--"))
                || word
                    .strip_prefix('#')
                    .is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
        })
}

/// Input of [`readiness`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadinessInput<'a> {
    pub(super) actions: &'a [String],
    /// Words of each action.
    pub(super) words: &'a [Vec<&'a str>],
    /// Questions open after this round.
    pub(super) open: usize,
    /// Questions open after the previous round; `None` in the first round.
    pub(super) open_before: Option<usize>,
    pub(super) blocked: bool,
}

/// Returns the scores of seed section 3.2 and the number of specific actions.
pub(super) fn readiness(
    input: ReadinessInput<'_>,
    reader: &ActionReader,
    rules: &ReadinessRules,
) -> (ReadinessDetail, usize) {
    let specific: Vec<(&String, &Vec<&str>)> = input
        .actions
        .iter()
        .zip(input.words)
        .filter(|(action, words)| reader.specificity(action, words) == Specificity::Specific)
        .collect();
    let is_owned = specific.len() > 1
        && specific
            .iter()
            .any(|(action, words)| reader.has_owner(action, words));
    let next_actions_score = match (input.actions.is_empty(), specific.len()) {
        (true, _) => rules.actions_none,
        (false, 0) => rules.actions_vague,
        (false, 1) => rules.actions_specific,
        (false, _) if is_owned => rules.actions_owned,
        (false, _) => rules.actions_specific,
    };
    let open_questions_score = match (input.open, input.open_before) {
        (0, _) => rules.questions_none,
        (_, None) => rules.questions_first,
        (now, Some(before)) if now < before => rules.questions_fewer,
        (now, Some(before)) if now == before => rules.questions_same,
        _ => rules.questions_more,
    };
    let blocker_score = if input.blocked { 0.0 } else { 1.0 };
    let detail = ReadinessDetail {
        next_actions_score,
        open_questions_score,
        blocker_score,
    };
    (detail, specific.len())
}

/// The weighted sum of the scores (seed 3.3) and its classification.
pub(super) fn composite(detail: &ReadinessDetail, rules: &ReadinessRules) -> (f64, Level) {
    let score = rules.actions_weight * detail.next_actions_score
        + rules.questions_weight * detail.open_questions_score
        + rules.blockers_weight * detail.blocker_score;
    // Tolerate rounding errors: 0.5 * 0.7 + 0.3 * 0.5 + 0.2 must count as 0.7.
    let reaches = |threshold: f64| score >= threshold - 1e-9;
    let level = if reaches(rules.high) {
        Level::High
    } else if reaches(rules.medium) {
        Level::Medium
    } else {
        Level::Low
    };
    (score, level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue::Profile;

    fn specificity(profile: &str, action: &str) -> Specificity {
        let reader = ActionReader::new(&Profile::built_in(profile).unwrap().actions);
        reader.specificity(action, &lexicon::words(&lexicon::folded(action)))
    }

    #[test]
    fn the_worked_examples_of_the_seed_hold_in_both_profiles() {
        for profile in Profile::built_in_names() {
            assert_eq!(specificity(profile, "End."), Specificity::Vague);
            assert_eq!(
                specificity(profile, "Convert this into a 1-page facilitation checklist."),
                Specificity::Specific
            );
            assert_eq!(specificity(profile, "Consider caching."), Specificity::Vague);
            assert_eq!(specificity(profile, "Maybe add an index"), Specificity::Vague);
        }
    }

    #[test]
    fn specific_means_a_verb_with_an_object_or_something_with_a_name() {
        for action in [
            "Draft the release notes",
            "Ana to benchmark the parser",
            "Ana: rotate the signing key",
            "@ops restart node seven with `systemctl`",
            "We will ship version 2 on Friday",
            "src/lib.rs needs a header",
            "Then update the page",
            "Docs: rewrite the quick start",
            "PR #12",
            "Schedule a 30-minute call with legal",
        ] {
            assert_eq!(specificity("default", action), Specificity::Specific, "{action}");
        }
        for action in [
            "Look into the logs",
            "Ana to look into the logs",
            "Perhaps write a test",
            "Next steps",
            "Continue the discussion",
        ] {
            assert_eq!(specificity("default", action), Specificity::Vague, "{action}");
        }
        for action in [
            "Ship it.",
            "Wrap up",
            "The team is aligned on the general direction and/or scope",
        ] {
            assert_eq!(specificity("default", action), Specificity::Unclear, "{action}");
        }
    }

    #[test]
    fn owners_are_names_before_the_verb_or_ownership_words() {
        let reader = ActionReader::new(&Profile::default().actions);
        let has_owner = |action| reader.has_owner(action, &lexicon::words(&lexicon::folded(action)));
        for action in [
            "Ana: rotate the key",
            "Ana and Bo to write the test",
            "@ops restart it",
            "I'll write the test",
            "Write the test (owner: Bo)",
        ] {
            assert!(has_owner(action), "{action}");
        }
        for action in [
            "Write the test",
            "Configure the limits: 100 per minute",
            "Add a link to the page",
        ] {
            assert!(!has_owner(action), "{action}");
        }
    }

    #[test]
    fn scores_follow_the_seeds_tables() {
        let profile = Profile::built_in("spec").unwrap();
        let reader = ActionReader::new(&profile.actions);
        let score = |actions: &[&str], open, open_before, blocked| {
            let actions: Vec<String> = actions.iter().map(|&action| action.to_owned()).collect();
            let lowered: Vec<_> = actions.iter().map(|action| lexicon::folded(action)).collect();
            let words: Vec<_> = lowered.iter().map(|action| lexicon::words(action)).collect();
            let input = ReadinessInput {
                actions: &actions,
                words: &words,
                open,
                open_before,
                blocked,
            };
            composite(
                &readiness(input, &reader, &profile.readiness).0,
                &profile.readiness,
            )
        };
        let close = |(score, level): (f64, Level), expected: f64, class| {
            assert!((score - expected).abs() < 1e-12, "{score} is not {expected}");
            assert_eq!(level, class);
        };
        // Appendix A and B of the seed.
        close(score(&["End."], 0, Some(0), false), 0.65, Level::Medium);
        close(
            score(
                &["Convert this into a 1-page facilitation checklist."],
                0,
                Some(1),
                false,
            ),
            0.85,
            Level::High,
        );
        // The rest by hand: 0.5 a + 0.3 q + 0.2 b.
        close(score(&[], 2, None, false), 0.29, Level::Low);
        close(score(&["Write a test"], 2, Some(3), false), 0.76, Level::High);
        close(score(&["Write a test"], 3, Some(3), false), 0.67, Level::Medium);
        close(score(&["Consider it"], 4, Some(3), true), 0.18, Level::Low);
        close(
            score(&["I'll write the test", "Run the suite"], 0, Some(0), false),
            1.0,
            Level::High,
        );
    }
}
