//! One search result, as every search engine and every foreign loop can be read into it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a search brought back.
///
/// Names of other programs are understood: `href` and `link` for the address, `body`, `content`, `description` and
/// `text` for the words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hit {
    /// The title; may be empty.
    #[serde(default, deserialize_with = "text_or_null")]
    pub title: String,
    /// Where it is; may be empty.
    #[serde(default, alias = "href", alias = "link", deserialize_with = "text_or_null")]
    pub url: String,
    /// What the search shows of it.
    #[serde(
        default,
        alias = "body",
        alias = "content",
        alias = "description",
        alias = "text",
        deserialize_with = "text_or_null"
    )]
    pub snippet: String,
    /// How well it fits, in the engine's own scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// When it was published, as the engine says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
}

impl Hit {
    /// A result with title, address and words.
    pub fn new(title: impl Into<String>, url: impl Into<String>, snippet: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
            ..Self::default()
        }
    }

    /// Title and words together.
    pub fn whole(&self) -> String {
        format!("{}\n\n{}", self.title, self.snippet)
    }

    /// Whether there is nothing to read in it.
    pub fn is_blank(&self) -> bool {
        self.title.trim().is_empty() && self.snippet.trim().is_empty()
    }
}

/// Engines send `null` for a title or snippet they do not have.
fn text_or_null<'de, D: serde::Deserializer<'de>>(source: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(source)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_other_programs_are_understood() {
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
    }
}
