//! arXiv source: a query API with Atom responses that requires three seconds between requests.

use std::time::Duration;

use satiety::research::{Hit, terms};
use satiety_models::http::Url;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::api::{Api, display_url, endpoint};
use super::{SearchError, SearchFuture, Source};

/// Pause between requests, as required by arXiv.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum number of words in a query, which are combined with OR.
const MAX_WORDS: usize = 12;

#[derive(Debug)]
pub(super) struct Arxiv {
    url: Url,
    api: Api,
    pause: Duration,
    last: Mutex<Option<Instant>>,
}

impl Arxiv {
    pub(super) fn new(base: &str, api: Api) -> Result<Self, SearchError> {
        let url = endpoint(base, "/api/query")?;
        let own = url.host_str().is_some_and(|host| host.ends_with("arxiv.org"));
        Ok(Self {
            url,
            api,
            // A mirror needs no pause.
            pause: if own { PAUSE } else { Duration::ZERO },
            last: Mutex::new(None),
        })
    }

    async fn ask(&self, query: &str, count: u32) -> Result<Vec<Hit>, SearchError> {
        let words = search_words(query);
        if words.is_empty() {
            return Ok(Vec::new());
        }
        // The lock is held until the response arrives: one request at a time.
        let mut last = self.last.lock().await;
        if let Some(last) = *last {
            tokio::time::sleep_until(last + self.pause).await;
        }
        let mut url = self.url.clone();
        url.query_pairs_mut()
            .append_pair("search_query", &words)
            .append_pair("start", "0")
            .append_pair("max_results", &count.clamp(1, 100).to_string())
            .append_pair("sortBy", "relevance");
        let answer = self.api.bytes(&url, self.api.get(&url)).await;
        *last = Some(Instant::now());
        let bytes = answer?;
        let text = String::from_utf8_lossy(&bytes);
        entries(&text).map_err(|reason| SearchError::BadAnswer {
            url: display_url(&url),
            reason,
        })
    }
}

impl Source for Arxiv {
    fn id(&self) -> &'static str {
        "arxiv"
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(self.ask(query, count))
    }
}

/// Combines the words with OR, most relevant first: arXiv finds nothing for a whole question.
fn search_words(query: &str) -> String {
    let mut words = terms(query);
    words.dedup();
    let known: Vec<String> = words
        .iter()
        .filter(|word| word.chars().all(char::is_alphanumeric))
        .take(MAX_WORDS)
        .map(|word| format!("all:{word}"))
        .collect();
    known.join(" OR ")
}

/// Parses the entries of an Atom feed.
fn entries(feed: &str) -> Result<Vec<Hit>, String> {
    if !feed.contains("<feed") || !feed.contains("</feed>") {
        return Err("incomplete Atom feed".into());
    }
    let mut hits = Vec::new();
    for entry in feed.split("<entry").skip(1) {
        let entry = entry.split("</entry>").next().unwrap_or_default();
        let hit = Hit {
            published: element(entry, "published"),
            ..Hit::new(
                element(entry, "title").unwrap_or_default(),
                element(entry, "id").unwrap_or_default(),
                element(entry, "summary").unwrap_or_default(),
            )
        };
        // Errors are returned as entries, too.
        if hit.url.contains("/api/errors") {
            return Err(hit.snippet);
        }
        if !hit.is_blank() {
            hits.push(hit);
        }
    }
    Ok(hits)
}

fn element(entry: &str, name: &str) -> Option<String> {
    let start = entry.find(&format!("<{name}"))?;
    let rest = &entry[start..];
    let rest = &rest[rest.find('>')? + 1..];
    let text = &rest[..rest.find(&format!("</{name}>"))?];
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(unescape(&text))
}

/// Resolves the five named character references of XML and numeric ones.
pub(super) fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        let tail = &rest[at..];
        let end = tail.find(';').filter(|end| *end <= 10);
        let found = end.and_then(|end| {
            let name = &tail[1..end];
            let character = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => {
                    let number = name.strip_prefix('#')?;
                    let code = match number.strip_prefix(['x', 'X']) {
                        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
                        None => number.parse().ok()?,
                    };
                    char::from_u32(code)?
                }
            };
            Some((character, end))
        });
        if let Some((character, end)) = found {
            plain.push(character);
            rest = &tail[end + 1..];
        } else {
            plain.push('&');
            rest = &tail[1..];
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_errors_are_parsed() {
        let feed = "<feed><title>x</title><entry><id>http://arxiv.org/abs/1</id><title>Heated\n wings</title>\
                    <summary>They bend &amp; buckle &#8212; often.</summary><published>2024-01-02T00:00:00Z</published></entry>\
                    <entry></entry></feed>";
        let hits = entries(feed).unwrap();
        assert_eq!(hits.len(), 1);
        assert_eq!(hits[0].title, "Heated wings");
        assert_eq!(hits[0].snippet, "They bend & buckle \u{2014} often.");
        let error = "<feed><entry><id>http://arxiv.org/api/errors#x</id><title>Error</title>\
                     <summary>incorrect id</summary></entry></feed>";
        assert_eq!(entries(error).unwrap_err(), "incorrect id");
        assert!(entries("<feed><entry>").is_err(), "cut off");
        assert!(entries("").is_err());
        assert!(entries("<feed></feed>").unwrap().is_empty());
    }

    #[test]
    fn a_query_matches_any_of_its_words() {
        assert_eq!(
            search_words("How do heated wings bend?"),
            "all:heat OR all:wing OR all:bend"
        );
        assert_eq!(search_words("?"), "");
    }

    #[test]
    fn entities_are_decoded() {
        assert_eq!(
            unescape("a &lt;b&gt; &#x41; & c &bogus; &#xZZ;"),
            "a <b> A & c &bogus; &#xZZ;"
        );
    }
}
