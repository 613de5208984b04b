//! Providers of a configuration: which there are, and which of them a case runs with.

use serde_json::{Map, Value, json};

use super::{Importer, Prompt};

/// A provider, as an object with `id`, `label`, `config`, `prompts` and `transform`.
#[derive(Debug, Clone)]
pub(super) struct Provider(Map<String, Value>);

/// Keys of a provider that are understood, or that only concern promptfoo's own output.
const KEYS: [&str; 9] = [
    "id",
    "label",
    "config",
    "prompts",
    "transform",
    "delay",
    "env",
    "inputs",
    "description",
];

impl Provider {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }

    /// Name in reports: the label, or else the id.
    pub(super) fn name(&self) -> &str {
        self.text("label").or_else(|| self.text("id")).unwrap_or_default()
    }

    /// What prompt functions get to know about the provider.
    pub(super) fn summary(&self) -> Value {
        json!({"id": self.text("id"), "label": self.text("label")})
    }

    /// Whether tests with this `providers` filter run with the provider.
    fn is_selected(&self, filter: Option<&Value>) -> bool {
        let Some(Value::Array(wanted)) = filter else {
            return true;
        };
        let names: Vec<&str> = ["label", "id"].iter().filter_map(|key| self.text(key)).collect();
        wanted.iter().filter_map(Value::as_str).any(|wanted| {
            let prefix = wanted.strip_suffix('*');
            names.iter().any(|name| {
                *name == wanted
                    || prefix.is_some_and(|prefix| name.starts_with(prefix))
                    || name
                        .strip_prefix(wanted)
                        .is_some_and(|rest| rest.starts_with(':'))
            })
        })
    }

    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

impl Importer<'_> {
    /// Reads providers from a text, an object or a list, or from files.
    pub(super) fn read_providers(&mut self, value: Option<&Value>, place: &str) -> Vec<Provider> {
        let list = match value {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(items)) => items.clone(),
            Some(one) => vec![one.clone()],
        };
        let mut providers = Vec::new();
        for (index, item) in list.iter().enumerate() {
            let place = format!("{place}[{index}]");
            match item {
                Value::String(reference) if is_settings_file(reference) => {
                    match self.resolve_reference(Some(item)) {
                        Some(inner) => providers.extend(self.read_providers(Some(&inner), &place)),
                        None => self
                            .losses
                            .push_deciding(place, format!("cannot read {reference}")),
                    }
                }
                Value::String(id) => providers.extend(self.provider(json!({"id": id}), &place)),
                Value::Object(fields) if fields.get("id").is_some_and(Value::is_string) => {
                    providers.extend(self.provider(item.clone(), &place));
                }
                // An object whose only key is the id.
                Value::Object(fields) if fields.len() == 1 => {
                    for (id, options) in fields {
                        let mut options = options.as_object().cloned().unwrap_or_default();
                        options.entry("id").or_insert_with(|| json!(id));
                        providers.extend(self.provider(Value::Object(options), &place));
                    }
                }
                _ => self.losses.push_deciding(place, "provider has no `id`"),
            }
        }
        providers
    }

    fn provider(&mut self, value: Value, place: &str) -> Option<Provider> {
        let Value::Object(mut fields) = value else {
            return None;
        };
        self.losses.unknown_keys(&format!("{place}."), &fields, &KEYS);
        if let Some(Value::String(id)) = fields.get_mut("id") {
            let rendered = super::template::render(id, &Map::new(), &self.env);
            *id = rendered.unwrap_or_else(|_| id.clone());
            let id = id.clone();
            let reference = ["file://", "python:"]
                .iter()
                .find_map(|prefix| id.strip_prefix(prefix));
            match reference
                .filter(|name| super::calls::is_code(name))
                .map(|name| self.code_reference(name))
            {
                Some(Ok(found)) => {
                    let function = found.function.map(|name| format!(":{name}"));
                    let file = format!("{}{}", found.file, function.unwrap_or_default());
                    fields.insert("file".to_owned(), json!(file));
                }
                Some(Err(reason)) => {
                    fields.insert("problem".to_owned(), json!(reason));
                    self.losses.push_deciding(place, reason);
                }
                None => {}
            }
        }
        match fields.get("transform").and_then(Value::as_str) {
            None | Some("") => {
                fields.remove("transform");
            }
            Some(text) => {
                let parsed = self.transform(text).map(|program| json!([program]));
                match parsed {
                    Ok(program) => {
                        fields.insert("transforms".to_owned(), program);
                        fields.remove("transform");
                    }
                    Err(reason) => self.losses.push_deciding(format!("{place}.transform"), reason),
                }
            }
        }
        Some(Provider(fields))
    }

    /// Names of the providers that a test runs with; `None` if with all of them.
    pub(super) fn providers_of(
        &mut self,
        test: &Map<String, Value>,
        prompt: &Prompt,
        place: &str,
    ) -> Option<Vec<String>> {
        if let Some(own) = test.get("provider").filter(|own| !own.is_null()) {
            let own = self.read_providers(Some(own), &format!("{place}.provider"));
            let mut names = Vec::new();
            for provider in own {
                let is_known = self.providers.iter().any(|known| known.0 == provider.0);
                let mut provider = provider;
                if !is_known {
                    // Tests may use the same id with other options.
                    let copies = self
                        .providers
                        .iter()
                        .filter(|known| known.name() == provider.name());
                    if let copies @ 1.. = copies.count() {
                        let label = format!("{} ({})", provider.name(), copies + 1);
                        provider.0.insert("label".to_owned(), json!(label));
                    }
                    self.providers.push(provider.clone());
                    self.own_providers.insert(provider.name().to_owned());
                }
                names.push(provider.name().to_owned());
            }
            return Some(names);
        }
        let allowed: Vec<String> = self
            .providers
            .iter()
            .filter(|provider| !self.own_providers.contains(provider.name()))
            .filter(|provider| provider.is_selected(test.get("providers")))
            .filter(|provider| prompt.is_selected(provider.0.get("prompts")))
            .map(|provider| provider.name().to_owned())
            .collect();
        let all = self.providers.len() - self.own_providers.len();
        (allowed.len() < all).then_some(allowed)
    }
}

/// Whether a provider is a file with settings rather than code.
fn is_settings_file(reference: &str) -> bool {
    let ending = super::test_files::file_extension(reference);
    reference.starts_with("file://") && matches!(ending.as_str(), "yaml" | "yml" | "json")
}
