//! Selects pages to read in full: those whose snippets were new before their round. The specification
//! compares with the final summary, which already contains the snippets of the first round; with
//! `--novelty seed` the loop does the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::literal::overlap;
use super::merge::Kept;

/// Decision whether to read one result in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageChoice {
    /// Address of the page.
    pub url: String,
    /// Title of the search result.
    pub title: String,
    /// Share of its snippet's words that were known before its round.
    pub overlap: f64,
    /// Whether the page should be read in full.
    pub read: bool,
}

/// Goes through kept results in order and selects up to `count` pages. `known_before` returns the summary
/// before a round. Results without a web address are skipped.
pub fn choose<'a>(
    kept: &[Kept],
    known_before: impl Fn(u32) -> &'a str,
    limit: f64,
    count: u32,
) -> Vec<PageChoice> {
    let mut chosen = 0;
    let mut choices = Vec::new();
    for result in kept {
        if chosen >= count {
            break;
        }
        let url = result.hit.url.trim();
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            continue;
        }
        let overlap = overlap(&result.hit.snippet, known_before(result.round));
        let read = overlap <= limit;
        chosen += u32::from(read);
        choices.push(PageChoice {
            url: url.to_owned(),
            title: result.hit.title.clone(),
            overlap,
            read,
        });
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::research::hit::Hit;

    fn kept(round: u32, url: &str, snippet: &str) -> Kept {
        Kept {
            hit: Hit::new("t", url, snippet),
            round,
            rank: 0,
            also_at: Vec::new(),
            salvaged: false,
        }
    }

    #[test]
    fn pages_known_before_their_round_are_not_read() {
        let results = [
            kept(1, "https://a.example/", "alpha beta gamma"),
            kept(2, "https://b.example/", "alpha beta gamma delta"),
            kept(2, "https://c.example/", "alpha epsilon zeta eta"),
            kept(2, "notes.md", "theta iota"),
            kept(3, "https://d.example/", "kappa"),
        ];
        let before = |round: u32| if round == 1 { "" } else { "alpha beta gamma" };
        let choices = choose(&results, before, 0.6, 2);
        let read: Vec<(&str, bool)> = choices
            .iter()
            .map(|choice| (choice.url.as_str(), choice.read))
            .collect();
        assert_eq!(
            read,
            [
                ("https://a.example/", true),
                ("https://b.example/", false),
                ("https://c.example/", true)
            ],
            "the first round is read; 3 of 4 known words are too many; two pages are enough"
        );
        assert!(choose(&results, before, 0.6, 0).is_empty());
    }

    #[test]
    fn overlap_equal_to_the_limit_is_read() {
        let results = [kept(2, "https://a.example/", "a b c d e")];
        assert!(choose(&results, |_| "a b c", 0.6, 1)[0].read);
    }
}
