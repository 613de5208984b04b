//! Which project a memory belongs to, which memories a request sees, and what only a person may write.
//!
//! Projects keep memories of different repositories apart; they are no access control: whoever may read a store may ask
//! for all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::retrieval::Tier;

/// Longest name of a project, in bytes.
const LONGEST_NAME: usize = 300;
/// What the id of a project begins with.
const PREFIX: &str = "project-";
/// Hexadecimal digits that follow.
const DIGITS: usize = 16;

/// A project, such as a repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    /// What tells it from others: `project-` and 16 hexadecimal digits, made from its directory or its name.
    pub id: String,
    /// What people call it: the name of its directory, or the name that was given.
    pub label: String,
}

/// Why text names no project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectError {
    /// It says nothing.
    #[error("the project's name is empty")]
    Empty,
    /// It is too long.
    #[error("the project's name has {0} bytes, and at most {LONGEST_NAME} are allowed")]
    TooLong(usize),
    /// It could deceive whoever reads it.
    #[error("the project's name has control characters")]
    Control,
}

impl Project {
    /// The project of a directory, by its canonical path.
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

    /// A project by a name of the caller's choice, or by its id.
    pub fn named(name: &str) -> Result<Self, ProjectError> {
        let name = name.trim();
        if name.is_empty() {
            return Err(ProjectError::Empty);
        }
        if name.len() > LONGEST_NAME {
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

/// Which memories a request is about; in JSON the text that [`Scope::parse`] reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// Those of every project.
    All,
    /// Those that belong to no project and are seen from everywhere.
    Global,
    /// Those of a project, and the global ones.
    Project(Project),
}

impl Scope {
    /// Reads `all`, `global`, or the name or id of a project.
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

    /// Whether a memory of this project, or of none, is seen.
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

/// Who writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Author {
    /// A program: an agent, a script, a client without an administrator's token.
    #[default]
    Agent,
    /// A person who confirmed it at a terminal, or whoever holds an administrator's token.
    Person,
}

/// Something that only a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsPerson {
    /// To make a memory constitutional: it comes with every search from then on.
    #[error("only a person may make a memory constitutional")]
    Constitutional,
    /// To change or forget one that is.
    #[error("only a person may change or forget a constitutional memory")]
    Rule,
    /// To put a memory where every project sees it, or to take one away from there.
    #[error("only a person may keep a memory for all projects, or take one away from them")]
    Global,
}

/// Whether an author may turn a memory of one tier into one of another; `None` stands for one that is not there, before
/// or afterwards.
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

/// The tier that a file of an index gets: whoever can write a file is not whoever may make rules.
pub fn indexed_tier(asked: Tier) -> Tier {
    asked.min(Tier::Important)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_are_taken_as_they_are_and_names_are_hashed() {
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
