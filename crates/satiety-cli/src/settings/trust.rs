//! Trust in configuration files that were discovered and not named by the user.
//!
//! A `satiety.toml` in or above the working directory may come with a cloned repository. Its sensitive
//! settings apply only after `satiety trust` has recorded the file's path and content hash in the user's
//! state directory; a changed file must be trusted again. A file is read once, so that the hashed bytes are
//! the parsed bytes.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Maximum size of a configuration file in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum size of a trust record in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 10;

/// Trust in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustState {
    /// All settings apply: named by the user, the user's own file, or recorded with this content.
    Trusted,
    /// Only safe settings apply: not recorded with this content.
    Untrusted {
        /// Whether an earlier content of the same file was recorded.
        changed: bool,
    },
    /// No settings apply: another user could have written the file.
    Foreign(String),
}

#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// Path with the directory's symbolic links resolved.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// BLAKE3 hash of the file's bytes.
    pub(crate) hash: String,
    /// Reason why another user could have written it.
    foreign: Option<String>,
}

/// Record of a trusted file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) path: PathBuf,
    /// BLAKE3 hash of the trusted content.
    pub(crate) blake3: String,
    /// Time of recording, RFC 3339.
    pub(crate) trusted_at: String,
}

impl ConfigFile {
    /// Reads a file; rejects text that is not UTF-8, irregular files and files larger than 1 MiB.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("cannot read {}: {error}", printable_path(path)), None)
        };
        let file = fs_err::File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let refuse = |reason: &str| {
            Failure::bad_input(
                format!("cannot read {}: {reason}", printable_path(path)),
                "use a TOML file, such as the one that `satiety config show --default` prints",
            )
        };
        if !about.is_file() {
            return Err(refuse("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(refuse("it is larger than 1 MiB"));
        }
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text"))?;
        let path = located(path);
        Ok(Self {
            foreign: foreign(&about, &path),
            path,
            text,
            hash,
        })
    }

    /// Trust in a discovered file.
    pub(crate) fn trust_state(&self) -> TrustState {
        let recorded = TrustStore::open().and_then(|store| store.get(&self.path));
        match (recorded, &self.foreign) {
            (Some(record), _) if record.blake3 == self.hash => TrustState::Trusted,
            (_, Some(reason)) => TrustState::Foreign(reason.clone()),
            (record, None) => TrustState::Untrusted {
                changed: record.is_some(),
            },
        }
    }

    /// Trust in the file in the user's configuration directory.
    pub(crate) fn own_trust_state(&self) -> TrustState {
        match &self.foreign {
            None => TrustState::Trusted,
            Some(_) => self.trust_state(),
        }
    }
}

/// Records of trusted files, one file each, readable only by the user.
pub(crate) struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// Opens the records in the user's state directory; `None` without a home directory.
    pub(crate) fn open() -> Option<Self> {
        let base = etcetera::choose_base_strategy().ok()?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Some(Self {
            directory: state.join("satiety").join("trusted"),
        })
    }

    fn place(&self, path: &Path) -> PathBuf {
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        self.directory.join(format!("{}.json", &name[..32]))
    }

    /// Returns the record of a file if only the user can have written it.
    pub(crate) fn get(&self, path: &Path) -> Option<Record> {
        let record = read_record(&self.place(path))?;
        (record.path == path).then_some(record)
    }

    /// Records a file with its content hash.
    pub(crate) fn put(&self, path: &Path, hash: &str) -> Result<Record, Failure> {
        let record = Record {
            path: path.to_path_buf(),
            blake3: hash.to_owned(),
            trusted_at: jiff::Timestamp::now().to_string(),
        };
        let failed = |error: std::io::Error| {
            Failure::environment(
                format!("cannot record that {} is trusted: {error}", printable_path(path)),
                Some("the records are in your state directory (XDG_STATE_HOME, or ~/.local/state)".into()),
            )
        };
        let text = serde_json::to_string_pretty(&record).map_err(|error| failed(error.into()))?;
        make_private_directory(&self.directory).map_err(failed)?;
        // Written to a temporary file with mode 0600 and renamed, so that a partial record is never read.
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(failed)?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(self.place(path))
            .map_err(|error| failed(error.error))?;
        Ok(record)
    }

    /// Removes a record; returns whether there was one.
    pub(crate) fn remove(&self, path: &Path) -> Result<bool, Failure> {
        match fs_err::remove_file(self.place(path)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::environment(
                format!("cannot revoke the trust in {}: {error}", printable_path(path)),
                None,
            )),
        }
    }

    /// All records, sorted by path.
    pub(crate) fn list(&self) -> Vec<Record> {
        let Ok(entries) = fs_err::read_dir(&self.directory) else {
            return Vec::new();
        };
        let mut records: Vec<Record> = entries
            .filter_map(|entry| read_record(&entry.ok()?.path()))
            .collect();
        records.sort_by(|a, b| a.path.cmp(&b.path));
        records
    }
}

/// Reads a record if it belongs to the user and is inaccessible to others.
fn read_record(place: &Path) -> Option<Record> {
    let file = fs_err::File::open(place).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || !is_private(&about) {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Resolves links of a file's directory but not of the file itself: trust applies to the location.
pub(crate) fn located(path: &Path) -> PathBuf {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = fs_err::canonicalize(directory)
        .or_else(|_| std::path::absolute(directory))
        .unwrap_or_else(|_| directory.to_path_buf());
    match path.file_name() {
        Some(name) => directory.join(name),
        None => directory,
    }
}

/// Escapes control characters and line breaks, since file names may be hostile.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let escaped = character.is_control() || is_invisible(character);
            let (kept, shown) = if escaped {
                (None, Some(character.escape_unicode()))
            } else {
                (Some(character), None)
            };
            kept.into_iter().chain(shown.into_iter().flatten())
        })
        .collect()
}

/// Invisible characters that change how surrounding text is displayed.
fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(crate) fn printable_path(path: &Path) -> String {
    printable(&path.display().to_string())
}

#[cfg(unix)]
fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(unix)]
fn is_private(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let others = about.mode() & 0o077;
    about.uid() == own_id() && others == 0
}

#[cfg(not(unix))]
fn is_private(_: &std::fs::Metadata) -> bool {
    true
}

/// Reason why other users can put a configuration file here, or `None`.
#[cfg(unix)]
fn foreign(about: &std::fs::Metadata, path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let owner = about.uid();
    if owner != own_id() && owner != 0 {
        return Some(format!("it belongs to another user (uid {owner})"));
    }
    let directory = path
        .parent()
        .and_then(|directory| fs_err::metadata(directory).ok());
    match directory {
        Some(directory) if directory.mode() & 0o002 != 0 => {
            Some("its directory can be written by every user".to_owned())
        }
        Some(directory) if directory.uid() != own_id() && directory.uid() != 0 => Some(format!(
            "its directory belongs to another user (uid {})",
            directory.uid()
        )),
        _ => None,
    }
}

#[cfg(not(unix))]
fn foreign(_: &std::fs::Metadata, _: &Path) -> Option<String> {
    None
}

pub(crate) fn make_private_directory(directory: &Path) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
    }
    #[cfg(not(unix))]
    {
        std::fs::create_dir_all(directory)
    }
}

/// Resolves a path setting relative to the file's directory; leaves other settings unchanged.
pub(crate) fn anchored(name: &str, text: &str, directory: &Path) -> String {
    let here = std::env::current_dir().and_then(fs_err::canonicalize);
    if here.is_ok_and(|here| here == directory) {
        return text.to_owned();
    }
    let join = |path: &str| directory.join(path).display().to_string();
    let after = |prefixes: &[&str]| {
        let found = prefixes
            .iter()
            .find_map(|prefix| text.strip_prefix(prefix).map(|rest| (*prefix, rest)));
        found.map(|(prefix, path)| format!("{prefix}{}", join(path)))
    };
    match name {
        "store.url" => after(&["sqlite://", "sqlite:"]),
        "models.embedder" => after(&["dir:"]),
        "research.source" => after(&["local:", "mcp:", "replay:"]),
        "dialogue.profile" if matches!(text, "default" | "spec") => None,
        "store.archive_folder"
        | "dialogue.profile"
        | "harness.folder"
        | "server.root"
        | "server.tls_cert"
        | "server.tls_key"
            if text != "none" =>
        {
            Some(join(text))
        }
        _ => None,
    }
    .unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_bidi_characters_are_escaped() {
        assert_eq!(
            printable("a\u{1b}[2Kb\nc\u{202e}d"),
            "a\\u{1b}[2Kb\\u{a}c\\u{202e}d"
        );
        assert_eq!(printable("über/satiety.toml"), "über/satiety.toml");
    }

    #[test]
    fn relative_paths_are_resolved_against_the_file() {
        let directory = Path::new("/repo");
        for (name, text, expected) in [
            ("store.url", "sqlite:team.db", "sqlite:/repo/team.db"),
            ("store.url", "sqlite:///abs.db", "sqlite:///abs.db"),
            ("store.url", "postgres://h/d", "postgres://h/d"),
            ("models.embedder", "dir:model", "dir:/repo/model"),
            ("models.embedder", "ollama:x", "ollama:x"),
            ("dialogue.profile", "spec", "spec"),
            ("dialogue.profile", "mine.toml", "/repo/mine.toml"),
            ("harness.folder", "evals", "/repo/evals"),
            ("harness.folder", "/evals", "/evals"),
            ("server.root", "none", "none"),
            ("research.source", "local:notes", "local:/repo/notes"),
            ("research.source", "brave", "brave"),
        ] {
            assert_eq!(anchored(name, text, directory), expected, "{name} {text}");
        }
    }
}
