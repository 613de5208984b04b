//! `satiety bench init`: writes a small working suite with a target, as a starting point.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};

const FILES: [(&str, &str); 4] = [
    ("suite.toml", include_str!("init/suite.toml")),
    ("cases/greet.yaml", include_str!("init/greet.yaml")),
    ("target.toml", include_str!("init/target.toml")),
    ("agent.sh", include_str!("init/agent.sh")),
];

pub(super) fn run(folder: &Path, printer: &Printer) -> Result<Exit, Failure> {
    for (name, _) in FILES {
        let path = folder.join(name);
        if path.exists() {
            return Err(Failure::bad_input(
                format!("{} already exists", path.display()),
                "choose a new directory; nothing was written",
            ));
        }
    }
    printer.answer(&WrittenSuite {
        suite: folder.display().to_string(),
        files: write(folder)?,
    })?;
    Ok(Exit::Done)
}

/// Writes the files and returns their paths.
pub(in crate::commands) fn write(folder: &Path) -> Result<Vec<String>, Failure> {
    let mut written = Vec::new();
    for (name, text) in FILES {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs_err::create_dir_all(parent)?;
        }
        fs_err::write(&path, text)?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

/// Suite that was written.
#[derive(Serialize, JsonSchema)]
pub(in crate::commands) struct WrittenSuite {
    /// Directory of the suite.
    suite: String,
    /// Paths of the written files.
    files: Vec<String>,
}

impl Render for WrittenSuite {
    fn human(&self) -> String {
        format!(
            "wrote {}\nrun it: satiety bench run {}\naccept it as the baseline: satiety bench baseline latest --suite {} --reason \"first run\"",
            self.files.join(", "),
            self.suite,
            self.suite
        )
    }
}
