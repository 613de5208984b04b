//! `satiety trust`: manages trust in discovered configuration files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use owo_colors::OwoColorize;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::TrustArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::catalogue::Key;
use crate::settings::trust::{ConfigFile, TrustState, TrustStore, located, printable, printable_path};
use crate::settings::{Origin, file, nearest_file};
use crate::table::table;

pub(super) fn run(arguments: &TrustArgs, printer: &Printer) -> Result<Exit, Failure> {
    let store = TrustStore::open().ok_or_else(|| {
        Failure::environment(
            "cannot find your state directory",
            Some("set HOME or XDG_STATE_HOME".into()),
        )
    })?;
    if arguments.list {
        printer.answer(&list(&store))?;
        return Ok(Exit::Done);
    }
    let path = match &arguments.file {
        Some(path) if path.is_dir() => path.join("satiety.toml"),
        Some(path) => path.clone(),
        None => nearest_file().ok_or_else(|| {
            Failure::bad_input(
                "no satiety.toml in this directory or above",
                "name the file with `satiety trust FILE`",
            )
        })?,
    };
    if arguments.revoke {
        let path = located(&path);
        if !store.remove(&path)? {
            return Err(Failure::bad_input(
                format!("{} is not trusted", printable_path(&path)),
                "run `satiety trust --list` to see the trusted files",
            ));
        }
        printer.answer(&RevokedTrust { path, revoked: true })?;
        return Ok(Exit::Done);
    }
    let read = ConfigFile::read(&path)?;
    let settings = sensitive(&read)?;
    if !arguments.show {
        // The displayed content is recorded, even if the file changes meanwhile.
        store.put(&read.path, &read.hash)?;
    }
    let trust_state = read.trust_state();
    printer.answer(&FileTrust {
        trusted: trust_state == TrustState::Trusted,
        changed: trust_state == TrustState::Untrusted { changed: true },
        path: read.path,
        blake3: read.hash,
        settings,
    })?;
    Ok(Exit::Done)
}

/// Whether all settings of a file apply: it is trusted, has no sensitive settings, or does not exist.
pub(super) fn is_trusted(path: &Path) -> bool {
    if !path.exists() {
        return true;
    }
    ConfigFile::read(path).is_ok_and(|read| {
        let harmless = sensitive(&read).is_ok_and(|settings| settings.is_empty());
        match read.trust_state() {
            TrustState::Trusted => true,
            TrustState::Untrusted { .. } => harmless,
            TrustState::Foreign(_) => false,
        }
    })
}

/// Records a file with the text that this program has just written for the user.
pub(super) fn record(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(store) = TrustStore::open() {
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        store.put(&located(path), &hash)?;
    }
    Ok(())
}

/// Settings of a file that need trust.
fn sensitive(read: &ConfigFile) -> Result<Vec<SensitiveSetting>, Failure> {
    let values = file::parse(&read.path, &read.text)?;
    let directory = read.path.parent().unwrap_or(Path::new("/"));
    let settings = values.into_iter().filter_map(|(name, value)| {
        let key = Key::named(name)?;
        let line = match value.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        };
        (!key.is_safe(&value.text, directory)).then_some(SensitiveSetting {
            name,
            line,
            value: value.text,
        })
    });
    Ok(settings.collect())
}

fn list(store: &TrustStore) -> TrustedFiles {
    let state = |path: &Path, hash: &str| match ConfigFile::read(path) {
        Err(_) => "missing",
        Ok(read) if read.hash == hash => "trusted",
        Ok(_) => "changed",
    };
    let files = store.list().into_iter().map(|record| TrustedFile {
        state: state(&record.path, &record.blake3),
        path: record.path,
        blake3: record.blake3,
        trusted_at: record.trusted_at,
    });
    TrustedFiles {
        files: files.collect(),
    }
}

/// Trust in a configuration file.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileTrust {
    /// Path of the file.
    path: PathBuf,
    /// BLAKE3 hash of its content.
    blake3: String,
    /// Whether this content is trusted at this path.
    trusted: bool,
    /// Whether the content has changed since it was trusted.
    changed: bool,
    /// Settings of the file that need trust.
    settings: Vec<SensitiveSetting>,
}

/// A setting that applies only from a trusted file.
#[derive(Serialize, JsonSchema)]
struct SensitiveSetting {
    /// Name, such as `store.url`.
    name: &'static str,
    /// Value as text.
    value: String,
    /// Line in the file, from 1.
    line: usize,
}

impl Render for FileTrust {
    fn human(&self) -> String {
        let state = match (self.trusted, self.changed) {
            (true, _) => "trusted".green().to_string(),
            (false, true) => "changed since it was trusted".yellow().to_string(),
            (false, false) => "not trusted".yellow().to_string(),
        };
        let mut text = format!("{}  {state}", printable_path(&self.path).bold());
        if self.settings.is_empty() {
            text.push_str("\nit has no settings that need trust");
        }
        for setting in &self.settings {
            let _ = write!(
                text,
                "\n  line {:>3}  {} = {}",
                setting.line,
                setting.name,
                printable(&setting.value)
            );
        }
        let _ = write!(text, "\nblake3 {}", self.blake3);
        text
    }
}

/// Result of revoking trust.
#[derive(Serialize, JsonSchema)]
pub(super) struct RevokedTrust {
    /// Path of the file.
    path: PathBuf,
    /// Always true.
    revoked: bool,
}

impl Render for RevokedTrust {
    fn human(&self) -> String {
        format!("{} is no longer trusted", printable_path(&self.path))
    }
}

/// Files that have been trusted.
#[derive(Serialize, JsonSchema)]
pub(super) struct TrustedFiles {
    /// One entry per file.
    files: Vec<TrustedFile>,
}

/// A file that has been trusted.
#[derive(Serialize, JsonSchema)]
struct TrustedFile {
    /// Path of the file.
    path: PathBuf,
    /// Whether the record still applies to the file.
    state: &'static str,
    /// BLAKE3 hash of the trusted content.
    blake3: String,
    /// Time of the decision.
    trusted_at: String,
}

impl Render for TrustedFiles {
    fn human(&self) -> String {
        if self.files.is_empty() {
            return "no trusted files".into();
        }
        let rows = self.files.iter().map(|file| {
            vec![
                printable_path(&file.path),
                file.state.into(),
                file.trusted_at.clone(),
            ]
        });
        table(&["file", "state", "trusted at"], &[], rows)
    }
}
