//! Packed logs of Inspect: untrusted ZIP archives, decompressed within limits.

use std::io::{Read, Seek};

use satiety::bench::SuiteError;
use zip::ZipArchive;

use crate::EngineError;

/// Size limit of all decompressed members together: a small file must not exhaust the memory.
const UNPACKED: u64 = 1 << 30;
/// Maximum compression ratio of a log larger than `LITTLE` when decompressed.
const RATIO: u64 = 200;
/// Decompressed size that is always allowed, whatever the ratio.
const LITTLE: u64 = 64 << 20;
/// Maximum number of members.
const MEMBERS: usize = 200_000;

/// An `.eval` file.
pub(crate) struct ZipLog<R> {
    archive: ZipArchive<R>,
    names: Vec<String>,
    /// Path as given by the user, for messages.
    place: String,
    /// Number of bytes that may still be decompressed.
    left: u64,
}

impl<R: Read + Seek> ZipLog<R> {
    /// Opens an archive of `size` bytes.
    pub(crate) fn open(place: String, reader: R, size: u64) -> Result<Self, EngineError> {
        let damaged = |cause: zip::result::ZipError| EngineError::Packed {
            path: place.clone(),
            cause: std::io::Error::other(cause),
        };
        let archive = ZipArchive::new(reader).map_err(damaged)?;
        if archive.len() > MEMBERS {
            return Err(EngineError::Invalid {
                message: format!("cannot read {place}: more than {MEMBERS} members"),
                hint: "export the log without its samples".into(),
            });
        }
        let mut names: Vec<String> = Vec::new();
        for name in archive.file_names() {
            names.push(name.map_err(damaged)?.into_owned());
        }
        Ok(Self {
            archive,
            names,
            place,
            left: UNPACKED.min(size.saturating_mul(RATIO).max(LITTLE)),
        })
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Names of the members in a directory, ordered by the numbers in them.
    pub(crate) fn below(&self, directory: &str) -> Vec<String> {
        let numbered = |name: &String| {
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            (digits.parse::<u64>().unwrap_or(0), name.clone())
        };
        let mut found: Vec<String> = self
            .names
            .iter()
            .filter(|name| name.starts_with(directory) && !name.ends_with('/'))
            .cloned()
            .collect();
        found.sort_by_key(numbered);
        found
    }

    /// Reads a member, decompressed, if it fits into the budget of all members. The declared size of a member
    /// is not trusted.
    pub(crate) fn read(&mut self, name: &str) -> Result<String, EngineError> {
        let place = format!("{}: {name}", self.place);
        let packed = |cause: std::io::Error| EngineError::Packed {
            path: place.clone(),
            cause,
        };
        let other = |cause: zip::result::ZipError| packed(std::io::Error::other(cause));
        let mut bytes = Vec::new();
        let plain = self.archive.by_name(name).map_err(other)?;
        plain
            .take(self.left + 1)
            .read_to_end(&mut bytes)
            .map_err(packed)?;
        let length = bytes.len() as u64;
        if length > self.left {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot decompress {place}: its members exceed {RATIO} times its size or {} MB in total",
                    UNPACKED >> 20
                ),
                hint: "export the log without its events".into(),
            });
        }
        self.left -= length;
        String::from_utf8(bytes).map_err(|_| {
            EngineError::Suite(SuiteError::Syntax {
                file: place,
                reason: "not UTF-8 text".into(),
            })
        })
    }
}
