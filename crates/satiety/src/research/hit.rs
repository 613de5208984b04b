//! Search result in a common format for all search engines and external loops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::document::LineSpan;

/// One result of a search.
///
/// Common alternative keys are accepted: `href` and `link` for the address, `body`, `content`, `description`
/// and `text` for the snippet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hit {
    /// Title of the result; may be empty.
    #[serde(default, deserialize_with = "text_or_null")]
    pub title: String,
    /// Address of the page or document; may be empty.
    #[serde(default, alias = "href", alias = "link", deserialize_with = "text_or_null")]
    pub url: String,
    /// Excerpt or description shown by the search engine; may be empty.
    #[serde(
        default,
        alias = "body",
        alias = "content",
        alias = "description",
        alias = "text",
        deserialize_with = "text_or_null"
    )]
    pub snippet: String,
    /// Relevance score on the search engine's own scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Publication date as reported by the search engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// Lines of the document in which the snippet stands verbatim; absent for pages and converted documents.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lines_or_none"
    )]
    pub lines: Option<LineSpan>,
}

impl Hit {
    /// Creates a result from title, address and snippet.
    pub fn new(title: impl Into<String>, url: impl Into<String>, snippet: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
            ..Self::default()
        }
    }

    /// Title and snippet joined by an empty line.
    pub fn whole(&self) -> String {
        format!("{}\n\n{}", self.title, self.snippet)
    }

    /// Whether title and snippet are both blank.
    pub fn is_blank(&self) -> bool {
        self.title.trim().is_empty() && self.snippet.trim().is_empty()
    }
}

/// Search engines send `null` for a missing title or snippet.
fn text_or_null<'de, D: serde::Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(source)?.unwrap_or_default())
}

/// Loops of other programs may send something else under the same name.
fn lines_or_none<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<LineSpan>, D::Error> {
    let value = serde_json::Value::deserialize(source)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternative_keys_are_accepted() {
        for text in [
            r#"{"title": "t", "url": "u", "snippet": "s"}"#,
            r#"{"title": "t", "href": "u", "body": "s"}"#,
            r#"{"title": "t", "link": "u", "content": "s", "engine": "x"}"#,
        ] {
            let hit: Hit = serde_json::from_str(text).unwrap();
            assert_eq!(hit, Hit::new("t", "u", "s"), "{text}");
        }
        let bare: Hit = serde_json::from_str(r#"{"title": null, "snippet": null}"#).unwrap();
        assert!(bare.is_blank());
        let foreign: Hit = serde_json::from_str(r#"{"title": "t", "lines": 12}"#).unwrap();
        assert_eq!(foreign.lines, None);
        let own = Hit {
            lines: Some(LineSpan { first: 2, last: 5 }),
            ..Hit::default()
        };
        let text = serde_json::to_string(&own).unwrap();
        assert_eq!(serde_json::from_str::<Hit>(&text).unwrap(), own);
    }
}
