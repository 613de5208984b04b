//! `satiety config`: every setting, its value and where that comes from.

use std::path::PathBuf;

use serde::Serialize;

use crate::args::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::catalogue::{KEYS, default_file};
use crate::settings::{Origin, Settings};
use crate::table::table;

pub(super) fn run(command: &Config, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Config::Show { default: true } => printer.text(&default_file())?,
        Config::Show { default: false } => printer.answer(&shown(settings))?,
    }
    Ok(Exit::Done)
}

#[derive(Serialize)]
struct Shown {
    file: Option<PathBuf>,
    settings: Vec<Setting>,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    origin: Origin,
}

fn shown(settings: &Settings) -> Shown {
    let list = KEYS.iter().filter_map(|key| {
        let value = settings.values.get(key.name)?;
        // The parsed URL prints itself without its password.
        let text = if key.name == "store.url" {
            settings.store.to_string()
        } else {
            value.text.clone()
        };
        Some(Setting {
            name: key.name,
            value: text,
            origin: value.origin.clone(),
        })
    });
    Shown {
        file: settings.file.clone(),
        settings: list.collect(),
    }
}

impl Render for Shown {
    fn human(&self) -> String {
        let rows = self.settings.iter().map(|setting| {
            vec![
                setting.name.into(),
                setting.value.clone(),
                setting.origin.to_string(),
            ]
        });
        table(&["setting", "value", "origin"], &[], rows)
    }
}
