//! Checks archived harness versions: an archive contains only files inside the harness, and its hash is in
//! the ledger.
//!
//! Restoring an archive writes files under names from the archive. Names are therefore treated as hostile
//! input, and the content is compared with the hash in the ledger before anything is written.

use std::collections::BTreeMap;

use thiserror::Error;

/// Domain separator for hashes of archives.
const DOMAIN: &[u8] = b"satiety harness archive v1\n";

/// Names that a restore never writes, at any depth: trusted keys, version control, files of this program.
const FORBIDDEN: [&str; 3] = ["satiety.toml", ".git", ".harness"];

/// Reason why an archive cannot be restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArchiveError {
    /// A name is not a plain path inside the harness.
    #[error("invalid file name {name:?} in the archive: it {reason}")]
    Name {
        /// Name in the archive.
        name: String,
        /// Problem with the name.
        reason: &'static str,
    },
    /// The content does not match the ledger.
    #[error("the archive was modified: its hash is {found} (expected {expected})")]
    Content {
        /// Hash according to the ledger.
        expected: String,
        /// Hash of the archive.
        found: String,
    },
}

/// Computes the hash of an archive over every name and its content, each with its length, sorted by name.
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

/// Checks that an archive matches its hash and contains only names that a restore may write.
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

/// Checks that a name is a plain path inside the harness.
pub(crate) fn check_archived_name(name: &str) -> Result<(), ArchiveError> {
    let reject = |reason| {
        Err(ArchiveError::Name {
            name: name.to_owned(),
            reason,
        })
    };
    if name.is_empty() {
        return reject("is empty");
    }
    if name.chars().any(char::is_control) {
        return reject("contains a control character");
    }
    // A drive letter or a backslash makes the path absolute on other systems.
    if name.starts_with('/') || name.contains('\\') || name.as_bytes().get(1) == Some(&b':') {
        return reject("is not relative to the harness");
    }
    for part in name.split('/') {
        if part.is_empty() || part == "." || part == ".." {
            return reject("leaves the harness or is not normalized");
        }
        // Some file systems ignore case, or drop trailing dots and spaces.
        let plain = part.trim_end_matches(['.', ' ']);
        if FORBIDDEN
            .iter()
            .any(|forbidden| plain.eq_ignore_ascii_case(forbidden))
        {
            return reject("is reserved");
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
        /// Names and contents cannot be confused: different archives have different hashes.
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
