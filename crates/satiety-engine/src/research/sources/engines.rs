//! Clients of the documented APIs of `SearXNG`, Brave, Tavily and Wikipedia.

use satiety::research::Hit;
use satiety_models::http::Url;
use serde::Deserialize;
use serde_json::json;

use super::api::{Api, display_url, endpoint};
use super::{SearchError, SearchFuture, Source};

/// A search engine with an HTTP API.
#[derive(Debug)]
pub(super) struct Engine {
    id: String,
    kind: Kind,
    url: Url,
    api: Api,
}

enum Kind {
    Searxng,
    Brave { key: String },
    Tavily { key: String },
    Wikipedia,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Searxng => "Searxng",
            Self::Brave { .. } => "Brave(***)",
            Self::Tavily { .. } => "Tavily(***)",
            Self::Wikipedia => "Wikipedia",
        })
    }
}

impl Engine {
    pub(super) fn searxng(base: &str, api: Api) -> Result<Self, SearchError> {
        let url = endpoint(base, "/search")?;
        Ok(Self {
            id: format!("searxng:{}", display_url(&endpoint(base, "")?)),
            kind: Kind::Searxng,
            url,
            api,
        })
    }

    pub(super) fn brave(base: &str, key: &str, api: Api) -> Result<Self, SearchError> {
        Ok(Self {
            id: "brave".into(),
            kind: Kind::Brave { key: key.to_owned() },
            url: endpoint(base, "/res/v1/web/search")?,
            api,
        })
    }

    pub(super) fn tavily(base: &str, key: &str, api: Api) -> Result<Self, SearchError> {
        Ok(Self {
            id: "tavily".into(),
            kind: Kind::Tavily { key: key.to_owned() },
            url: endpoint(base, "/search")?,
            api,
        })
    }

    pub(super) fn wikipedia(base: &str, language: &str, api: Api) -> Result<Self, SearchError> {
        Ok(Self {
            id: format!("wikipedia:{language}"),
            kind: Kind::Wikipedia,
            url: endpoint(base, "/w/api.php")?,
            api,
        })
    }

    async fn ask(&self, query: &str, count: u32) -> Result<Vec<Hit>, SearchError> {
        let mut url = self.url.clone();
        let count = count.max(1);
        let hits = match &self.kind {
            Kind::Searxng => {
                url.query_pairs_mut()
                    .append_pair("q", query)
                    .append_pair("format", "json");
                let answer: Searxng = self.api.json(&url, self.api.get(&url)).await?;
                if answer.results.is_empty() && !answer.unresponsive_engines.is_empty() {
                    // If no engine answered, an empty list is a failure.
                    return Err(SearchError::BadAnswer {
                        url: display_url(&url),
                        reason: format!("no engine responded: {}", json!(answer.unresponsive_engines)),
                    });
                }
                answer.results.into_iter().map(Into::into).collect()
            }
            Kind::Brave { key } => {
                // The API returns at most twenty.
                let many = count.min(20).to_string();
                url.query_pairs_mut()
                    .append_pair("q", query)
                    .append_pair("count", &many);
                let request = self.api.get(&url).header("X-Subscription-Token", key);
                let request = request.header("Accept", "application/json");
                let answer: Brave = self.api.json(&url, request).await?;
                let results = answer.web.map(|web| web.results).unwrap_or_default();
                results.into_iter().map(Into::into).collect()
            }
            Kind::Tavily { key } => {
                let body = json!({"query": query, "max_results": count.min(20), "search_depth": "basic"});
                let request = self.api.post(&url).bearer_auth(key).json(&body);
                let answer: Tavily = self.api.json(&url, request).await?;
                answer.results.into_iter().map(Into::into).collect()
            }
            Kind::Wikipedia => {
                url.query_pairs_mut()
                    .append_pair("action", "query")
                    .append_pair("format", "json")
                    .append_pair("formatversion", "2")
                    .append_pair("generator", "search")
                    .append_pair("gsrsearch", query)
                    .append_pair("gsrlimit", &count.min(20).to_string())
                    .append_pair("prop", "extracts|info")
                    .append_pair("inprop", "url")
                    .append_pair("exintro", "1")
                    .append_pair("explaintext", "1")
                    .append_pair("exlimit", "20")
                    .append_pair("maxlag", "5");
                let answer: Wikipedia = self.api.json(&url, self.api.get(&url)).await?;
                if let Some(error) = answer.error {
                    return Err(SearchError::BadAnswer {
                        url: display_url(&url),
                        reason: format!("{}: {}", error.code, error.info),
                    });
                }
                let mut pages = answer.query.map(|query| query.pages).unwrap_or_default();
                // The API orders pages by id; `index` is the rank.
                pages.sort_by_key(|page| page.index);
                pages.into_iter().map(Into::into).collect()
            }
        };
        Ok(first(hits, count))
    }
}

impl Source for Engine {
    fn id(&self) -> &str {
        &self.id
    }

    fn search<'a>(&'a self, query: &'a str, count: u32) -> SearchFuture<'a> {
        Box::pin(self.ask(query, count))
    }
}

/// Returns the first results that have text.
fn first(hits: Vec<Hit>, count: u32) -> Vec<Hit> {
    hits.into_iter()
        .filter(|hit| !hit.is_blank())
        .take(count as usize)
        .collect()
}

#[derive(Deserialize)]
struct Searxng {
    results: Vec<SearxngResult>,
    #[serde(default)]
    unresponsive_engines: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct SearxngResult {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default, rename = "publishedDate")]
    published: Option<String>,
}

impl From<SearxngResult> for Hit {
    fn from(result: SearxngResult) -> Self {
        Self {
            title: result.title.unwrap_or_default(),
            url: result.url,
            snippet: result.content.unwrap_or_default(),
            score: result.score,
            published: result.published,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct Brave {
    #[serde(default)]
    web: Option<BraveWeb>,
}

#[derive(Deserialize)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<BraveResult>,
}

#[derive(Deserialize)]
struct BraveResult {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    extra_snippets: Vec<String>,
    #[serde(default)]
    age: Option<String>,
}

impl From<BraveResult> for Hit {
    fn from(result: BraveResult) -> Self {
        let mut words = vec![without_tags(&result.description.unwrap_or_default())];
        words.extend(result.extra_snippets.iter().map(|snippet| without_tags(snippet)));
        Self {
            title: without_tags(&result.title.unwrap_or_default()),
            url: result.url,
            snippet: words.join(" ").trim().to_owned(),
            published: result.age,
            ..Self::default()
        }
    }
}

#[derive(Deserialize)]
struct Tavily {
    results: Vec<TavilyResult>,
}

#[derive(Deserialize)]
struct TavilyResult {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    published_date: Option<String>,
}

impl From<TavilyResult> for Hit {
    fn from(result: TavilyResult) -> Self {
        Self {
            title: result.title.unwrap_or_default(),
            url: result.url,
            snippet: result.content.unwrap_or_default(),
            score: result.score,
            published: result.published_date,
            ..Self::default()
        }
    }
}

/// Wikipedia returns errors with status 200.
#[derive(Deserialize)]
struct Wikipedia {
    #[serde(default)]
    query: Option<WikipediaPages>,
    #[serde(default)]
    error: Option<WikipediaError>,
}

#[derive(Deserialize)]
struct WikipediaError {
    code: String,
    #[serde(default)]
    info: String,
}

#[derive(Deserialize)]
struct WikipediaPages {
    #[serde(default)]
    pages: Vec<WikipediaPage>,
}

#[derive(Deserialize)]
struct WikipediaPage {
    title: String,
    #[serde(default)]
    index: i64,
    #[serde(default)]
    extract: String,
    #[serde(default)]
    fullurl: String,
}

impl From<WikipediaPage> for Hit {
    fn from(page: WikipediaPage) -> Self {
        Self::new(page.title, page.fullurl, page.extract)
    }
}

/// Brave highlights words with tags and escapes `&` as `&amp;`.
fn without_tags(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        plain.push_str(before);
        if let Some(end) = tag.find('>') {
            rest = &tag[end + 1..];
        } else {
            plain.push_str(tag);
            rest = "";
        }
    }
    plain.push_str(rest);
    super::arxiv::unescape(&plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highlight_markup_is_removed() {
        assert_eq!(
            without_tags("a <strong>b</strong> &amp; c &lt;d&gt;"),
            "a b & c <d>"
        );
        assert_eq!(without_tags("1 < 2"), "1 < 2");
    }
}
