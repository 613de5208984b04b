//! Pages as files that open offline: the same pages of a run or a comparison, linked to each other with relative links,
//! with stylesheet and script beside them. Links to pages that are not exported lose their address, and forms are left
//! out, since there is no server.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use satiety_engine::Engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::ErrorPage;
use super::bench;
use super::shell;
use super::table::Address;

/// Maximum number of exported pages.
const MAX_PAGES: usize = 50_000;

/// What to export.
#[derive(Debug, Clone)]
pub enum Selection {
    /// A run with its cases and results.
    Run(String),
    /// A comparison of runs, the first of which is the baseline, with the pages of these runs.
    Comparison(Vec<String>),
}

/// Exported pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportedPages {
    /// Directory that the files were written to.
    pub directory: String,
    /// File to open first.
    pub index: String,
    /// Number of pages.
    pub pages: usize,
    /// Total size of all files in bytes.
    pub bytes: u64,
    /// Number of linked pages that were left out because there are too many.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde needs")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Error of an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    #[error("cannot write the pages: {0}")]
    Write(std::io::Error),
    /// The run is missing, or the store does not answer.
    #[error("{0}")]
    Page(String),
}

impl From<ErrorPage> for ExportError {
    fn from(page: ErrorPage) -> Self {
        Self::Page(page.words)
    }
}

/// A page that can be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Run {
        id: String,
        address: Address,
    },
    Case {
        id: String,
        case: String,
        address: Address,
    },
    Comparison {
        address: Address,
    },
}

/// Writes the pages of a selection to a directory, which is created if it is missing.
pub async fn export(
    engine: &Engine,
    selection: &Selection,
    directory: &Path,
) -> Result<ExportedPages, ExportError> {
    let mut export = Export::new(engine, selection, directory);
    export.write_assets()?;
    export.run().await?;
    Ok(ExportedPages {
        directory: directory.display().to_string(),
        index: directory.join("index.html").display().to_string(),
        pages: export.files.len(),
        bytes: export.bytes,
        left_out: export.left_out,
    })
}

struct Export<'a> {
    engine: &'a Engine,
    directory: &'a Path,
    /// Runs whose pages are exported.
    runs: Vec<String>,
    /// File of each page, by its address.
    files: BTreeMap<String, String>,
    queue: VecDeque<(String, Target)>,
    bytes: u64,
    left_out: usize,
}

impl<'a> Export<'a> {
    fn new(engine: &'a Engine, selection: &Selection, directory: &'a Path) -> Self {
        let mut export = Self {
            engine,
            directory,
            runs: Vec::new(),
            files: BTreeMap::new(),
            queue: VecDeque::new(),
            bytes: 0,
            left_out: 0,
        };
        let target = match selection {
            Selection::Run(id) => {
                export.runs.push(id.clone());
                Target::Run {
                    id: id.clone(),
                    address: Address::new(format!("/bench/runs/{id}"), Vec::new()),
                }
            }
            Selection::Comparison(runs) => {
                export.runs.clone_from(runs);
                let roles = std::iter::once("baseline").chain(std::iter::repeat("candidate"));
                let pairs = roles.zip(runs).map(|(role, run)| (role.to_owned(), run.clone()));
                Target::Comparison {
                    address: Address::new("/bench/compare", pairs.collect()),
                }
            }
        };
        let key = match &target {
            Target::Run { address, .. } | Target::Case { address, .. } | Target::Comparison { address } => {
                address.text()
            }
        };
        export.files.insert(key.clone(), "index.html".into());
        export.queue.push_back((key, target));
        export
    }

    async fn run(&mut self) -> Result<(), ExportError> {
        while let Some((key, target)) = self.queue.pop_front() {
            let page = match &target {
                Target::Run { id, address } => {
                    let head = self.engine.bench().run_head(id).await.map_err(ErrorPage::from)?;
                    bench::run_page(self.engine, &head, address, None).await?
                }
                Target::Case { id, case, address } => {
                    bench::case_page(self.engine, id, case, address).await?
                }
                Target::Comparison { address } => {
                    bench::comparison_page(self.engine, address.clone()).await?
                }
            };
            let page = self.offline(&page);
            let name = self.files.get(&key).cloned().unwrap_or_default();
            self.write(&name, &page)?;
        }
        Ok(())
    }

    fn write_assets(&mut self) -> Result<(), ExportError> {
        // The icon is beside the stylesheet.
        let style = super::style_text().replace("/assets/icon.svg", "icon.svg");
        for (name, text) in [
            ("assets/style.css", style.as_str()),
            ("assets/dashboard.js", super::SCRIPT),
            ("assets/icon.svg", super::ICON),
        ] {
            self.write(name, text)?;
        }
        Ok(())
    }

    fn write(&mut self, name: &str, text: &str) -> Result<(), ExportError> {
        let path = self.directory.join(name);
        let written = path.parent().map_or(Ok(()), fs_err::create_dir_all);
        let written = written.and_then(|()| fs_err::write(&path, text));
        written.map_err(ExportError::Write)?;
        self.bytes += text.len() as u64;
        Ok(())
    }

    /// A page without a server: relative links, no menu, no forms.
    fn offline(&mut self, page: &str) -> String {
        let page = without(page, "<header class=\"site\">", "</header>");
        let page = without(&page, "<footer>", "</footer>");
        let page = without(&page, "<form", "</form>");
        let mut out = String::with_capacity(page.len());
        let mut rest = page.as_str();
        // Quotes in texts are escaped, so an attribute is found by its quote.
        while let Some((before, after)) = rest.split_once("=\"/") {
            let (address, tail) = after.split_once('"').unwrap_or((after, ""));
            let name_at = before.rfind(' ').unwrap_or(0);
            let (kept, name) = before.split_at(name_at);
            match name.trim() {
                "href" | "src" if address.starts_with("assets/") => {
                    out.push_str(before);
                    out.push_str("=\"");
                    out.push_str(address);
                    out.push('"');
                }
                "href" => match self.file_of(&format!("/{address}")) {
                    Some(file) => {
                        out.push_str(before);
                        out.push_str("=\"");
                        out.push_str(&file);
                        out.push('"');
                    }
                    // Without an address the link is plain text.
                    None => out.push_str(kept),
                },
                _ => out.push_str(kept),
            }
            rest = tail;
        }
        out.push_str(rest);
        let note = format!(
            "<footer>Exported by Satiety {} on {}. Links work between the exported pages only.</footer>",
            env!("CARGO_PKG_VERSION"),
            shell::moment(jiff::Timestamp::now())
        );
        out.replacen("</body>", &format!("{note}\n</body>"), 1)
    }

    /// File of a linked page, which is queued if it is new; `None` if the page is not exported.
    fn file_of(&mut self, link: &str) -> Option<String> {
        let link = link.replace("&amp;", "&").replace("&#39;", "'");
        let (link, fragment) = match link.split_once('#') {
            Some((link, fragment)) => (link.to_owned(), format!("#{fragment}")),
            None => (link, String::new()),
        };
        let target = self.target(&link)?;
        if let Some(file) = self.files.get(&link) {
            return Some(format!("{file}{fragment}"));
        }
        if self.files.len() >= MAX_PAGES {
            self.left_out += 1;
            return None;
        }
        let number = self.files.len();
        let file = match &target {
            Target::Run { id, .. } => format!("{number:05}-{}.html", slug(id)),
            Target::Case { case, .. } => format!("{number:05}-{}.html", slug(case)),
            Target::Comparison { .. } => format!("{number:05}-comparison.html"),
        };
        self.files.insert(link.clone(), file.clone());
        self.queue.push_back((link, target));
        Some(format!("{file}{fragment}"))
    }

    /// The exported page that a link leads to. Filtered and sorted lists are not exported.
    fn target(&self, link: &str) -> Option<Target> {
        let (path, query) = link.split_once('?').unwrap_or((link, ""));
        let pairs: Vec<(String, String)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect();
        let only = |names: &[&str]| pairs.iter().all(|(name, _)| names.contains(&name.as_str()));
        let parts: Vec<String> = path.split('/').skip(1).map(decoded).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            ["bench", "runs", id] if self.runs.iter().any(|run| run == id) && only(&["after"]) => {
                Some(Target::Run {
                    id: (*id).to_owned(),
                    address: Address::new(path, pairs),
                })
            }
            ["bench", "runs", id, "cases", case]
                if self.runs.iter().any(|run| run == id) && only(&["repeat", "variant"]) =>
            {
                Some(Target::Case {
                    id: (*id).to_owned(),
                    case: (*case).to_owned(),
                    address: Address::new(path, pairs),
                })
            }
            ["bench", "compare"] => {
                let named = pairs
                    .iter()
                    .filter(|(name, _)| matches!(name.as_str(), "baseline" | "candidate" | "run"));
                let named: Vec<&String> = named.map(|(_, run)| run).collect();
                let known = named.len() > 1 && named.iter().all(|run| self.runs.contains(run));
                known.then(|| Target::Comparison {
                    address: Address::new(path, pairs.clone()),
                })
            }
            _ => None,
        }
    }
}

/// Text without the parts from `start` to `end`, inclusive. Texts on pages are escaped, so they contain no tags.
fn without(page: &str, start: &str, end: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once(start) {
        out.push_str(before);
        rest = after.split_once(end).map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out
}

/// Part of a file name: letters, digits and dashes, at most 60.
fn slug(text: &str) -> String {
    let letters = text.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    });
    letters.take(60).collect()
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let code = text
            .get(at + 1..at + 3)
            .filter(|_| *byte == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_decoded_and_names_are_safe() {
        assert_eq!(decoded("a%2Fb%20c%"), "a/b c%");
        assert_eq!(slug("../Etc/päss"), "---etc-p-ss");
    }

    #[test]
    fn parts_are_removed() {
        assert_eq!(
            without("a<form x>b</form>c<form>d</form>e", "<form", "</form>"),
            "ace"
        );
    }
}
