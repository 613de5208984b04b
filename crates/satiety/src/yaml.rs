//! YAML parsing behind one function, so that no other module depends on the parser (cargo feature `yaml`).

use serde::de::DeserializeOwned;

/// Parses YAML 1.2, in which `yes`, `no`, `on` and `off` are texts.
#[cfg(feature = "yaml")]
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

#[cfg(not(feature = "yaml"))]
pub(crate) fn parse<T: DeserializeOwned>(_: &str) -> Result<T, String> {
    Err("cannot read YAML: this build lacks the cargo feature `yaml`".to_owned())
}
