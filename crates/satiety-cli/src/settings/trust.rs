//! Trust for configuration files that were found rather than given.
//!
//! A `satiety.toml` found upwards from the working directory may come with a cloned repository. Its sensitive settings
//! count only after `satiety trust` has recorded the file's path and the hash of its content in the user's own state
//! directory; any change of the content needs trust again. A file is read once: what is hashed is what is parsed.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A configuration file is not larger.
const LARGEST_FILE: u64 = 1 << 20;
/// A record is not larger.
const LARGEST_RECORD: u64 = 64 << 10;

/// How far a configuration file may decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustState {
    /// Everything: it was given, is the user's own, or was recorded with this content.
    Trusted,
    /// Its safe settings only: nobody has recorded it with this content.
    Untrusted {
        /// Whether another content of the same file was recorded.
        changed: bool,
    },
    /// Nothing: somebody else can put a file there.
    Foreign(String),
}

/// A configuration file, read once.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    /// Where it was found, with the directory's symbolic links resolved.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) text: String,
    /// The BLAKE3 hash of its bytes.
    pub(crate) hash: String,
    /// Why its place is not the user's own.
    foreign: Option<String>,
}

/// A file that the user trusts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The file.
    pub(crate) path: PathBuf,
    /// The BLAKE3 hash of what it said.
    pub(crate) blake3: String,
    /// When it was recorded.
    pub(crate) trusted_at: String,
}

impl ConfigFile {
    /// Reads a file; what is not UTF-8, no regular file or larger than 1 MiB is refused.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::environment(format!("cannot read {}: {error}", printable_path(path)), None)
        };
        let file = fs_err::File::open(path).map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let refuse = |reason: &str| {
            Failure::bad_input(
                format!("cannot read {}: {reason}", printable_path(path)),
                "a configuration file is a small TOML file; `satiety config show --default` prints one",
            )
        };
        if !about.is_file() {
            return Err(refuse("it is not a regular file"));
        }
        let mut bytes = Vec::new();
        file.take(LARGEST_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > LARGEST_FILE {
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

    /// How far a file that was found may decide.
    pub(crate) fn standing(&self) -> TrustState {
        let recorded = TrustStore::open().and_then(|store| store.get(&self.path));
        match (recorded, &self.foreign) {
            (Some(record), _) if record.blake3 == self.hash => TrustState::Trusted,
            (_, Some(reason)) => TrustState::Foreign(reason.clone()),
            (record, None) => TrustState::Untrusted {
                changed: record.is_some(),
            },
        }
    }

    /// How far the file in the user's own configuration directory may decide.
    pub(crate) fn standing_of_own(&self) -> TrustState {
        match &self.foreign {
            None => TrustState::Trusted,
            Some(_) => self.standing(),
        }
    }
}

/// The records of trusted files: one file each, readable by the user alone.
pub(crate) struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// The records in the user's state directory; `None` where the user has no home directory.
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

    /// The record of a file, if there is one that only the user can have written.
    pub(crate) fn get(&self, path: &Path) -> Option<Record> {
        let record = read_record(&self.place(path))?;
        (record.path == path).then_some(record)
    }

    /// Records a file with its content.
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
        // Created with mode 0600 beside its place, so that a half-written record is never seen.
        let mut file = tempfile::NamedTempFile::new_in(&self.directory).map_err(failed)?;
        std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist(self.place(path))
            .map_err(|error| failed(error.error))?;
        Ok(record)
    }

    /// Forgets a file; says whether it was recorded.
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

    /// All records, by path.
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

/// Reads a record that belongs to the user and that nobody else may write or read.
fn read_record(place: &Path) -> Option<Record> {
    let file = fs_err::File::open(place).ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || !is_private(&about) {
        return None;
    }
    let mut text = String::new();
    file.take(LARGEST_RECORD).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// A file's path with its directory's links resolved, but not a link that the file itself is: trust belongs to the place.
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

/// Text as one line without control characters: names of files come from strangers, too.
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

/// Marks that change how the text around them looks.
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

/// Why others can put a configuration file in this place, if they can.
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

fn make_private_directory(directory: &Path) -> std::io::Result<()> {
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

/// A path of a file that was found, from that file's directory; anything else stays as it is.
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
    fn what_could_deceive_is_escaped() {
        assert_eq!(
            printable("a\u{1b}[2Kb\nc\u{202e}d"),
            "a\\u{1b}[2Kb\\u{a}c\\u{202e}d"
        );
        assert_eq!(printable("über/satiety.toml"), "über/satiety.toml");
    }

    #[test]
    fn paths_start_from_the_files_directory() {
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
