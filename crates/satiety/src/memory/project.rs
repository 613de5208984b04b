//! Projects and scopes of memories, and operations that require a person.
//!
//! Projects separate memories of different repositories. They are not an access control: any client that can
//! read a store can request all projects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// Maximum length of a project name in bytes.
const MAX_NAME_BYTES: usize = 300;
/// Prefix of project ids.
const PREFIX: &str = "project-";
/// Number of hexadecimal digits after the prefix.
const DIGITS: usize = 16;

/// A project, such as a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// Unique id: `project-` and 16 hexadecimal digits, derived from its directory or its name.
    pub id: String,
    /// Display name: the name of its directory, or the given name.
    pub label: String,
}

/// Reason why a text is not a valid project name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// The name is empty.
    #[error("project name must not be empty")]
    Empty,
    /// The name is too long.
    #[error("project name is too long: {0} bytes (maximum {MAX_NAME_BYTES})")]
    TooLong(usize),
    /// The name contains control characters, which could mislead readers.
    #[error("project name must not contain control characters")]
    Control,
}

impl Project {
    /// Returns the project of a directory, by its canonical path.
    ///
    /// ```
    /// use satiety::memory::Project;
    /// let project = Project::at("/home/me/src/shop");
    /// assert_eq!((project.id.len(), project.label.as_str()), (24, "shop"));
    /// assert_ne!(project.id, Project::at("/home/me/src/other/shop").id);
    /// ```
    pub fn at(directory: &str) -> Self {
        let label = directory.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
        let label: String = label
            .chars()
            .filter(|character| !character.is_control())
            .collect();
        Self {
            id: id_of("directory", directory),
            label,
        }
    }

    /// Returns the project with the given name or id.
    pub fn named(name: &str) -> Result<Self, ProjectError> {
        let name = name.trim();
        if name.is_empty() {
            return Err(ProjectError::Empty);
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(ProjectError::TooLong(name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err(ProjectError::Control);
        }
        let id = if is_id(name) {
            name.to_owned()
        } else {
            id_of("name", name)
        };
        Ok(Self {
            id,
            label: name.to_owned(),
        })
    }
}

fn is_id(text: &str) -> bool {
    text.strip_prefix(PREFIX).is_some_and(|digits| {
        let hexadecimal = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
        digits.len() == DIGITS && digits.chars().all(hexadecimal)
    })
}

fn id_of(kind: &str, text: &str) -> String {
    let hash = blake3::hash(format!("{kind}\0{text}").as_bytes()).to_hex();
    format!("{PREFIX}{}", &hash[..DIGITS])
}

/// Memories visible to a request; serialized as the text that [`Scope::parse`] accepts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Memories of all projects.
    All,
    /// Memories without a project, which every project sees.
    Global,
    /// Memories of one project and global memories.
    Project(Project),
}

impl Scope {
    /// Parses `all`, `global`, or the name or id of a project.
    ///
    /// ```
    /// use satiety::memory::Scope;
    /// assert_eq!(Scope::parse("all")?, Scope::All);
    /// let shop = Scope::parse("shop")?;
    /// assert!(shop.sees(None) && !shop.sees(Some("project-0123456789abcdef")));
    /// # Ok::<(), satiety::memory::ProjectError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ProjectError> {
        Ok(match text.trim() {
            "all" => Self::All,
            "global" => Self::Global,
            name => Self::Project(Project::named(name)?),
        })
    }

    /// Whether a memory of this project (`None`: global) is visible.
    pub fn sees(&self, project: Option<&str>) -> bool {
        match (self, project) {
            (Self::All, _) | (_, None) => true,
            (Self::Global, Some(_)) => false,
            (Self::Project(own), Some(id)) => own.id == id,
        }
    }
}

impl TryFrom<String> for Scope {
    type Error = ProjectError;

    fn try_from(text: String) -> Result<Self, ProjectError> {
        Self::parse(&text)
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::All => "all".into(),
            Scope::Global => "global".into(),
            Scope::Project(project) => project.id,
        }
    }
}

/// Author of a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Author {
    /// A program: an agent, a script, or a client without an administrator token.
    #[default]
    Agent,
    /// A person who confirmed the change at a terminal, or a client with an administrator token.
    Person,
}

impl Author {
    /// Name as used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Person => "person",
        }
    }
}

/// An operation that requires a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsPerson {
    /// Making a memory constitutional; it then appears in every search.
    #[error("only a person may make a memory constitutional")]
    Constitutional,
    /// Changing or deleting a constitutional memory.
    #[error("only a person may change or forget a constitutional memory")]
    Rule,
    /// Making a memory global, or removing one from the global scope.
    #[error("only a person may make a memory global or remove it from the global scope")]
    Global,
}

/// Whether an author may change the tier of a memory. `None` means that the memory does not exist before or
/// after.
pub fn may_write(author: Author, before: Option<Tier>, after: Option<Tier>) -> Result<(), NeedsPerson> {
    if author == Author::Person {
        return Ok(());
    }
    if before == Some(Tier::Constitutional) {
        return Err(NeedsPerson::Rule);
    }
    if after == Some(Tier::Constitutional) {
        return Err(NeedsPerson::Constitutional);
    }
    Ok(())
}

/// Tier of a memory that is indexed from a file. Files cannot create constitutional memories, because write
/// access to a file does not imply the right to make rules.
pub fn indexed_tier(asked: Tier) -> Tier {
    asked.min(Tier::Important)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_kept_and_names_are_hashed() {
        let named = Project::named("shop").unwrap();
        assert_eq!(Project::named(&named.id).unwrap().id, named.id);
        assert_ne!(named.id, Project::at("shop").id);
        assert_eq!(Project::named(" \t"), Err(ProjectError::Empty));
        assert_eq!(Project::named("a\u{1b}b"), Err(ProjectError::Control));
        assert_eq!(Project::named(&"x".repeat(301)), Err(ProjectError::TooLong(301)));
        assert_eq!(Project::at("/").label, "/");
    }

    #[test]
    fn agents_neither_make_nor_change_rules() {
        for tier in Tier::ALL {
            let rule = tier == Tier::Constitutional;
            assert_eq!(may_write(Author::Agent, None, Some(tier)).is_err(), rule);
            assert_eq!(
                may_write(Author::Agent, Some(tier), Some(Tier::Normal)).is_err(),
                rule
            );
            assert_eq!(may_write(Author::Agent, Some(tier), None).is_err(), rule);
            assert_eq!(may_write(Author::Person, Some(tier), Some(tier)), Ok(()));
            assert!(indexed_tier(tier) <= Tier::Important && indexed_tier(tier) <= tier);
        }
    }

    proptest! {
        #[test]
        fn projects_do_not_see_each_other(one in "[a-z/]{1,20}", other in "[a-z/]{1,20}") {
            prop_assume!(one != other);
            let (one, other) = (Project::at(&one), Project::at(&other));
            prop_assert!(!Scope::Project(one.clone()).sees(Some(&other.id)));
            prop_assert!(Scope::Project(one.clone()).sees(Some(&one.id)) && Scope::All.sees(Some(&one.id)));
        }
    }
}
