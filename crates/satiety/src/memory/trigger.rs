//! Trigger phrases: which memories' phrases are said in a text.

use crate::text::normalize;

use super::Hit;

/// Memories one of whose phrases stands in the text, word for word, best first: 1 for a phrase that is all of the text,
/// and less the less of it the phrase is, but never below 0.5. Of several phrases the longest counts.
///
/// ```
/// use satiety::memory::match_triggers;
/// let phrases = vec!["sqlite locked".to_owned()];
/// let found = match_triggers("Why is SQLite locked?", [("m1", &phrases[..])]);
/// assert_eq!((found[0].id.as_str(), found[0].score), ("m1", 0.75));
/// ```
pub fn match_triggers<'a>(
    text: &str,
    memories: impl IntoIterator<Item = (&'a str, &'a [String])>,
) -> Vec<Hit> {
    let text = words(text);
    if text.trim().is_empty() {
        return Vec::new();
    }
    let length = text.split_whitespace().count() as f64;
    let mut hits: Vec<Hit> = Vec::new();
    for (id, phrases) in memories {
        let said = phrases.iter().filter_map(|phrase| {
            let phrase = words(phrase);
            let count = phrase.split_whitespace().count();
            (count > 0 && text.contains(&phrase)).then_some(count)
        });
        if let Some(longest) = said.max() {
            hits.push(Hit::new(id, 0.5 + 0.5 * (longest as f64 / length).min(1.0)));
        }
    }
    hits.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.id.cmp(&b.id)));
    hits
}

/// The words of a text with one space around each, so that only whole words are found.
fn words(text: &str) -> String {
    let normal = normalize(text);
    let words = normal
        .split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .filter(|word| !word.is_empty());
    words.fold(String::from(" "), |text, word| text + word + " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, phrases: &[(&str, &[&str])]) -> Vec<(String, f64)> {
        let owned: Vec<(&str, Vec<String>)> = phrases
            .iter()
            .map(|(id, phrases)| (*id, phrases.iter().map(ToString::to_string).collect()))
            .collect();
        let hits = match_triggers(text, owned.iter().map(|(id, phrases)| (*id, &phrases[..])));
        hits.into_iter().map(|hit| (hit.id, hit.score)).collect()
    }

    #[test]
    fn whole_words_in_order_and_the_longest_phrase_counts() {
        let phrases: &[(&str, &[&str])] = &[
            ("a", &["rate limit", "limit"]),
            ("b", &["limit rate"]),
            ("c", &["imit", "rat"]),
            ("d", &["the rate limit, again!"]),
            ("e", &[""]),
        ];
        // 4 words: "rate limit" is half of them, the phrase of four is all.
        assert_eq!(
            found("The rate-limit again?", phrases),
            [("d".to_owned(), 1.0), ("a".to_owned(), 0.75)]
        );
        assert_eq!(found("", phrases), []);
        assert_eq!(found("?!", phrases), []);
    }
}
