//! YAML texts as values: the only place that knows the parser (cargo feature `yaml`).

use serde::de::DeserializeOwned;

/// Reads YAML 1.2.
#[cfg(feature = "yaml")]
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

#[cfg(not(feature = "yaml"))]
pub(crate) fn parse<T: DeserializeOwned>(_: &str) -> Result<T, String> {
    Err("this build reads no YAML (cargo feature `yaml`)".to_owned())
}
