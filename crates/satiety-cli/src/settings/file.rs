//! Parses `satiety.toml` with the line of each value and rejects unknown settings.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::catalogue::{KEYS, Key, nearest};
use super::{Origin, Value, set};
use crate::failure::Failure;

/// Lists that the harness reads itself, from the file next to its suites.
const KEYRING: [&str; 2] = ["harness.approvers", "harness.agent_keys"];

/// Parses the settings in a file's text.
pub(crate) fn parse(path: &Path, text: &str) -> Result<BTreeMap<&'static str, Value>, Failure> {
    let document = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Failure::bad_input(
            format!("{}:{line}: {}", path.display(), error.message()),
            "fix the TOML syntax; `satiety config show --default` prints a valid file",
        )
    })?;
    let mut values = BTreeMap::new();
    collect(path, text, "", document.get_ref(), &mut values)?;
    Ok(values)
}

fn collect(
    path: &Path,
    text: &str,
    section: &str,
    table: &DeTable<'_>,
    values: &mut BTreeMap<&'static str, Value>,
) -> Result<(), Failure> {
    for (name, value) in table {
        let line = line_of(text, name.span().start);
        let full = if section.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{section}.{}", name.get_ref())
        };
        if let DeValue::Table(inner) = value.get_ref()
            && is_section(&full)
        {
            collect(path, text, &full, inner, values)?;
            continue;
        }
        // Approver keys come only from the repository's file, so that no variable or flag can change them.
        if KEYRING.contains(&full.as_str()) {
            continue;
        }
        let Some(key) = Key::named(&full) else {
            return Err(unknown(path, line, &full));
        };
        let origin = Origin::File {
            path: path.to_path_buf(),
            line,
        };
        let Some(value) = as_text(value) else {
            let message = format!("{origin}: {full}: expected a single value, not a list or a table");
            return Err(Failure::bad_input(message, key.about));
        };
        set(values, key, &value, origin)?;
    }
    Ok(())
}

fn is_section(name: &str) -> bool {
    KEYS.iter().any(|key| {
        key.name
            .split_once('.')
            .is_some_and(|(section, _)| section == name)
    })
}

fn as_text(value: &Spanned<DeValue<'_>>) -> Option<String> {
    Some(match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

fn unknown(path: &Path, line: usize, name: &str) -> Failure {
    let sections = KEYS
        .iter()
        .filter_map(|key| key.name.split_once('.'))
        .map(|(section, _)| section);
    let near = nearest(name, KEYS.iter().map(|key| key.name).chain(sections));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => "run `satiety config show` to list all settings".into(),
    };
    Failure::bad_input(
        format!("{}:{line}: unknown setting `{name}`", path.display()),
        hint,
    )
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(Path::new("satiety.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn values_have_their_line_number() {
        let values = parse(
            Path::new("satiety.toml"),
            "# top\n[output]\n\nformat = \"json\"\n",
        )
        .unwrap();
        let format = &values["output.format"];
        assert_eq!(
            (format.text.as_str(), format.origin.to_string().as_str()),
            ("json", "satiety.toml:4")
        );
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(
            error("[store]\nulr = \"x\"\n"),
            "satiety.toml:2: unknown setting `store.ulr`"
        );
        assert_eq!(
            error("\n[weather]\n"),
            "satiety.toml:2: unknown setting `weather`"
        );
        assert_eq!(error("store = 1"), "satiety.toml:1: unknown setting `store`");
        assert_eq!(
            error("[output]\nformat = \"xml\""),
            "satiety.toml:2: output.format: unknown value `xml` (expected one of: human, json, markdown, csv, html, sarif, github)"
        );
        assert_eq!(
            error("[output]\ncolor = [1]"),
            "satiety.toml:2: output.color: expected a single value, not a list or a table"
        );
        assert!(error("[output\n").starts_with("satiety.toml:1: "));
    }
}
