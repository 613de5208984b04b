//! Allowed sources of a server. The operator lists sources under names; a request gives only a name, so it
//! cannot name a directory, a command or a URL.

use super::SearchError;

/// Prefixes of source specifications.
const KINDS: [&str; 9] = [
    "local",
    "searxng",
    "brave",
    "tavily",
    "wikipedia",
    "arxiv",
    "mcp",
    "command",
    "replay",
];
/// Kinds whose specification reveals details of this machine or its network.
const PRIVATE_KINDS: [&str; 5] = ["local", "searxng", "mcp", "command", "replay"];

/// Named sources in the order of the list; the first is the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedSources(Vec<(String, String)>);

impl AllowedSources {
    /// Parses a list: `notes=local:/srv/notes, wikipedia, arxiv`. A source without a name is named after its
    /// kind.
    pub fn read(text: &str) -> Result<Self, SearchError> {
        let mut sources: Vec<(String, String)> = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let bad = |reason: String| SearchError::BadSpec {
                spec: entry.to_owned(),
                reason,
            };
            let (name, spec) = match entry.split_once('=') {
                Some((name, spec)) if is_name(name.trim()) => (name.trim(), spec.trim()),
                _ => (kind(entry), entry),
            };
            if spec.is_empty() {
                return Err(bad("missing source after the name".into()));
            }
            if sources.iter().any(|(known, _)| known == name) {
                return Err(bad(format!(
                    "`{name}` is listed twice; write NAME=SOURCE to tell them apart"
                )));
            }
            sources.push((name.to_owned(), spec.to_owned()));
        }
        Ok(Self(sources))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the source of a name; the first one for `None`.
    pub fn named(&self, name: Option<&str>) -> Option<&str> {
        let mut sources = self.0.iter();
        let found = match name {
            Some(name) => sources.find(|(known, _)| known == name),
            None => sources.next(),
        };
        found.map(|(_, spec)| spec.as_str())
    }

    /// Returns true if this source is listed.
    pub fn contains(&self, spec: &str) -> bool {
        self.name_of(spec).is_some()
    }

    /// Returns a source in the form shown to remote callers: its name, or its kind.
    pub fn shown(&self, spec: &str) -> String {
        if let Some(name) = self.name_of(spec) {
            return name.to_owned();
        }
        let kind = kind(spec);
        if PRIVATE_KINDS.contains(&kind) { kind } else { spec }.to_owned()
    }

    /// Replaces source locations in a message with their names.
    pub fn discreet(&self, message: &str) -> String {
        self.0.iter().fold(message.to_owned(), |message, (name, spec)| {
            let place = spec.split_once(':').map_or(spec.as_str(), |(_, rest)| rest);
            if place.is_empty() || !PRIVATE_KINDS.contains(&kind(spec)) {
                return message;
            }
            message.replace(spec.as_str(), name).replace(place, name)
        })
    }

    fn name_of(&self, spec: &str) -> Option<&str> {
        // A directory is listed as typed, but its id is `local:DIRECTORY`.
        let same = |known: &str| known == spec || spec.strip_prefix("local:") == Some(known);
        self.0
            .iter()
            .find(|(_, known)| same(known))
            .map(|(name, _)| name.as_str())
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Returns the kind of a source; a path is a directory.
fn kind(spec: &str) -> &str {
    let kind = spec.split_once(':').map_or(spec, |(kind, _)| kind);
    if KINDS.contains(&kind) { kind } else { "local" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_with_and_without_names() {
        let list =
            "notes=local:/srv/notes, wikipedia:de,arxiv , searxng:https://s.example/?a=b, old=/srv/old";
        let sources = AllowedSources::read(list).unwrap();
        let names: Vec<&str> = sources.names().collect();
        assert_eq!(names, ["notes", "wikipedia", "arxiv", "searxng", "old"]);
        assert_eq!(sources.named(None), Some("local:/srv/notes"));
        assert_eq!(sources.named(Some("wikipedia")), Some("wikipedia:de"));
        assert_eq!(
            sources.named(Some("searxng")),
            Some("searxng:https://s.example/?a=b")
        );
        for elsewhere in ["local:/etc", "/srv/notes", "local:/srv/notes", "command:sh", ""] {
            assert_eq!(sources.named(Some(elsewhere)), None, "{elsewhere}");
        }
        assert_eq!(AllowedSources::read("").unwrap(), AllowedSources::default());
        assert!(AllowedSources::read("local:a,local:b").is_err());
        assert!(AllowedSources::read("notes=").is_err());
    }

    #[test]
    fn errors_do_not_contain_paths() {
        let sources = AllowedSources::read("notes=/srv/notes, arxiv").unwrap();
        assert_eq!(sources.shown("local:/srv/notes"), "notes");
        assert!(sources.contains("/srv/notes") && sources.contains("local:/srv/notes"));
        assert!(!sources.contains("local:/srv") && !sources.contains("brave"));
        for (spec, shown) in [
            ("local:/home/ann", "local"),
            ("/home/ann", "local"),
            ("searxng:http://10.0.0.1", "searxng"),
            ("command:/bin/x", "command"),
            ("wikipedia:de", "wikipedia:de"),
            ("arxiv", "arxiv"),
        ] {
            assert_eq!(sources.shown(spec), shown);
        }
        assert_eq!(
            sources.discreet("cannot read /srv/notes: gone"),
            "cannot read notes: gone"
        );
    }
}
