//! `satiety config`: every setting with its value and source.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::args::Config;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, Render};
use crate::settings::catalogue::{KEYS, default_file};
use crate::settings::{IgnoredSetting, Origin, Settings};
use crate::table::table;

pub(super) fn run(command: &Config, settings: &Settings, printer: &Printer) -> Result<Exit, Failure> {
    match command {
        Config::Show { default: true } => printer.text(&default_file())?,
        Config::Show { default: false } => printer.answer(&listing(settings))?,
    }
    Ok(Exit::Done)
}

/// All settings.
#[derive(Serialize, JsonSchema)]
pub(super) struct SettingList {
    /// Configuration file in use.
    file: Option<PathBuf>,
    /// Settings in the order of the reference page.
    settings: Vec<Setting>,
    /// Settings of the file that are ignored until it is trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ignored: Vec<IgnoredSetting>,
    #[serde(skip)]
    warning: Option<String>,
}

/// A setting.
#[derive(Serialize, JsonSchema)]
struct Setting {
    /// Name, such as `store.url`.
    name: &'static str,
    /// Value as text; a password in an address is masked.
    value: String,
    /// Source of the value.
    origin: Origin,
}

fn listing(settings: &Settings) -> SettingList {
    let list = KEYS.iter().filter_map(|key| {
        let value = settings.values.get(key.name)?;
        // The parsed URL is displayed without its password.
        let text = if key.name == "store.url" {
            settings.store.to_string()
        } else if let ("store.read_url", Some(url)) = (key.name, &settings.store_options.read_url) {
            url.to_string()
        } else {
            value.text.clone()
        };
        Some(Setting {
            name: key.name,
            value: text,
            origin: value.origin.clone(),
        })
    });
    SettingList {
        file: settings.file.clone(),
        settings: list.collect(),
        ignored: settings
            .ignored
            .as_ref()
            .map(|ignored| ignored.settings.clone())
            .unwrap_or_default(),
        warning: settings.ignored.as_ref().map(ToString::to_string),
    }
}

impl Render for SettingList {
    fn human(&self) -> String {
        let rows = self.settings.iter().map(|setting| {
            vec![
                setting.name.into(),
                setting.value.clone(),
                setting.origin.to_string(),
            ]
        });
        let mut text = table(&["setting", "value", "origin"], &[], rows);
        if let Some(warning) = &self.warning {
            text = format!("{text}\n\n{warning}");
        }
        text
    }
}
