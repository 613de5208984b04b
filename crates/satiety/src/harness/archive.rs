//! What an archived version of a harness may hold: files below the harness and nothing else, with a hash that the log keeps.
//!
//! A restore writes what an archive says where the archive says. So its names are checked as if an attacker had written
//! them, and its content is held against the hash in the chained log before anything is written.

use std::collections::BTreeMap;

use thiserror::Error;

/// Hashes of archives are never hashes of anything else.
const DOMAIN: &[u8] = b"satiety harness archive v1\n";

/// Names that a restore never writes, at any depth: trusted keys, version control, this program's own files.
const FORBIDDEN: [&str; 3] = ["satiety.toml", ".git", ".harness"];

/// Why an archive is not restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArchiveError {
    /// A name that is no plain path below the harness.
    #[error("the archive names the file {name:?}, which {reason}")]
    Name {
        /// As the archive has it.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The content is not what the log says.
    #[error("the archive was edited: its hash is {found}, not {expected}")]
    Content {
        /// What the log says.
        expected: String,
        /// What the archive has.
        found: String,
    },
}

/// The hash of an archive: every name and every byte, each with its length, in the order of the names.
pub fn archive_hash(files: &BTreeMap<String, Vec<u8>>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN);
    hasher.update(&(files.len() as u64).to_le_bytes());
    for (name, bytes) in files {
        for part in [name.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().to_hex().to_string()
}

/// Whether an archive is what the log says, and names only files that a restore may write.
pub fn check_archive(files: &BTreeMap<String, Vec<u8>>, expected: Option<&str>) -> Result<(), ArchiveError> {
    for name in files.keys() {
        check_archived_name(name)?;
    }
    let found = archive_hash(files);
    match expected {
        Some(expected) if expected != found => Err(ArchiveError::Content {
            expected: expected.to_owned(),
            found,
        }),
        _ => Ok(()),
    }
}

/// Whether a name is a plain path below the harness.
pub(crate) fn check_archived_name(name: &str) -> Result<(), ArchiveError> {
    let refuse = |reason| {
        Err(ArchiveError::Name {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return refuse("is empty");
    }
    if name.chars().any(char::is_control) {
        return refuse("has a control character");
    }
    // A drive letter or a backslash is a path of its own elsewhere.
    if name.starts_with('/') || name.contains('\\') || name.as_bytes().get(1) == Some(&b':') {
        return refuse("is not relative to the harness");
    }
    for part in name.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return refuse("leads out of the harness or is not in its plain form");
        }
        // Some file systems know no upper case, or drop what stands at the end.
        let plain = part.trim_end_matches(['.', ' ']);
        if FORBIDDEN
            .iter()
            .any(|forbidden| plain.eq_ignore_ascii_case(forbidden))
        {
            return refuse("no restore may write");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_files_below_the_harness() {
        for fine in [
            "harness.toml",
            "echoes/cases/c00.json",
            "a b/ü.bin",
            "..a/b..",
            "x.git",
        ] {
            assert_eq!(check_archived_name(fine), Ok(()), "{fine}");
        }
        for wrong in [
            "",
            "/etc/passwd",
            "../satiety.toml",
            "a/../../b",
            "a//b",
            "./a",
            "a/.",
            "a/",
            "satiety.toml",
            "sub/Satiety.TOML",
            "satiety.toml.",
            ".git/hooks/pre-commit",
            "a/.GIT /config",
            ".harness/anchor.json",
            "C:\\x",
            "c:x",
            "a\\..\\b",
            "a\nb",
            "a\0b",
        ] {
            assert!(check_archived_name(wrong).is_err(), "{wrong:?}");
        }
    }

    fn archives() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
        prop::collection::btree_map(
            "[a-z]{1,4}(/[a-z]{1,4}){0,2}",
            prop::collection::vec(any::<u8>(), 0..8),
            1..6,
        )
    }

    proptest! {
        /// Names and bytes cannot be moved into each other: archives that differ have different hashes.
        #[test]
        fn archives_that_differ_have_different_hashes(one in archives(), other in archives()) {
            prop_assert_eq!(archive_hash(&one) == archive_hash(&other), one == other);
            prop_assert_eq!(check_archive(&one, Some(&archive_hash(&one))), Ok(()));
            if one != other {
                prop_assert!(check_archive(&one, Some(&archive_hash(&other))).is_err());
            }
        }
    }
}
