//! `satiety bench init`: a small suite with a target that works, to be changed into one's own.

use std::path::Path;

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
                format!("{} is there already", path.display()),
                "name a new folder; nothing was written",
            ));
        }
    }
    printer.answer(&Written {
        suite: folder.display().to_string(),
        files: write(folder)?,
    })?;
    Ok(Exit::Done)
}

/// Writes the files, and says where.
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

#[derive(Serialize)]
struct Written {
    suite: String,
    files: Vec<String>,
}

impl Render for Written {
    fn human(&self) -> String {
        format!(
            "wrote {}\nrun it: satiety bench run {}\nthen accept it: satiety bench baseline latest --suite {} --reason \"first run\"",
            self.files.join(", "),
            self.suite,
            self.suite
        )
    }
}
