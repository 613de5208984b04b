//! Reads a Markdown file as a memory: optional front matter, with the first heading or the file name as
//! title.

use serde::Deserialize;

use super::{Draft, DraftError, parse_tier};
use crate::retrieval::Tier;
use crate::text::document;

/// Reason why a file cannot be read as a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkdownError {
    /// The front matter is not closed.
    #[error("front matter is not closed: missing `---`")]
    NoEnd,
    /// The front matter is not valid YAML.
    #[error("cannot parse the front matter: {0}")]
    FrontMatter(String),
    /// The memory is not valid.
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// Known keys of a front matter; other keys are ignored.
#[derive(Deserialize, Default)]
struct FrontMatter {
    title: Option<String>,
    #[serde(alias = "importance", alias = "importance_tier", alias = "importanceTier")]
    tier: Option<String>,
    #[serde(default, alias = "trigger_phrases", alias = "triggerPhrases")]
    triggers: Vec<String>,
    #[serde(alias = "namespace", alias = "spec_folder")]
    folder: Option<String>,
    #[serde(alias = "type", alias = "context_type")]
    kind: Option<String>,
}

/// Reads a file. `name` is the fallback for the title, `folder` the folder of the file.
pub fn read_markdown(text: &str, name: &str, folder: &str) -> Result<Draft, MarkdownError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (front, body) = match document::front_matter(text) {
        document::FrontMatter::Yaml(front, body) => (parse_front_matter(front)?, body),
        document::FrontMatter::Toml(front, body) => (parse_toml(front)?, body),
        document::FrontMatter::Unclosed => return Err(MarkdownError::NoEnd),
        document::FrontMatter::Absent => (FrontMatter::default(), text),
    };
    let heading = document::first_title(body);
    let title = front.title.as_deref().or(heading.as_deref()).unwrap_or(name);
    let draft = Draft {
        title: title.chars().take(300).collect(),
        // A file with only a title is still a memory.
        content: if body.trim().is_empty() { title } else { body }.to_owned(),
        tier: front.tier.as_deref().map_or(Ok(Tier::Normal), parse_tier)?,
        triggers: front.triggers,
        folder: front.folder.unwrap_or_else(|| folder.to_owned()),
        kind: front.kind.unwrap_or_default(),
    };
    Ok(draft.checked()?)
}

fn parse_front_matter(front: &str) -> Result<FrontMatter, MarkdownError> {
    if front.trim().is_empty() {
        return Ok(FrontMatter::default());
    }
    crate::yaml::parse(front)
        .map_err(|error| MarkdownError::FrontMatter(error.lines().next().unwrap_or_default().to_owned()))
}

fn parse_toml(front: &str) -> Result<FrontMatter, MarkdownError> {
    toml::from_str(front).map_err(|error| MarkdownError::FrontMatter(error.message().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn front_matter_is_read_and_unknown_keys_are_ignored() {
        let text = "---\ntitle: Use WAL\nimportance: critical\ntriggers:\n  - sqlite locked\nkind: decision\nauthor: me\n---\n# Other\nText.\n";
        let draft = read_markdown(text, "file", "store/notes").unwrap();
        assert_eq!(
            (draft.title.as_str(), draft.tier, draft.kind.as_str()),
            ("Use WAL", Tier::Critical, "decision")
        );
        assert_eq!(
            (draft.triggers, draft.folder.as_str()),
            (vec!["sqlite locked".to_owned()], "store/notes")
        );
        assert_eq!(draft.content, "# Other\nText.");
    }

    #[test]
    fn without_front_matter_the_heading_or_the_name_is_the_title() {
        let title = |text: &str| read_markdown(text, "some-note", "").unwrap().title;
        assert_eq!(title("intro\n# Heading\ntext"), "Heading");
        assert_eq!(title("text"), "some-note");
        assert_eq!(title("--- \ntitle: x\n...\ntext"), "x");
        assert_eq!(title("----\ntext"), "some-note");
        assert_eq!(title("```sh\n# a comment\n```\n\n# Heading\n"), "Heading");
        assert_eq!(title("+++\ntitle = \"y\"\n+++\ntext"), "y");
    }

    #[test]
    fn errors_are_reported() {
        let error = |text: &str| read_markdown(text, "n", "").unwrap_err();
        assert_eq!(error("---\ntitle: x\n"), MarkdownError::NoEnd);
        assert!(matches!(
            error("---\ntriggers: {a: [\n---\nx"),
            MarkdownError::FrontMatter(_)
        ));
        assert!(
            error("---\ntier: vital\n---\nx")
                .to_string()
                .contains("unknown tier `vital`")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_memory_or_an_error(text in "(---\n)?\\PC{0,80}(\n---\n)?\\PC{0,40}") {
            let _ = read_markdown(&text, "n", "f");
        }
    }
}
