//! Where an API key may go. A provider's key is worth money and opens an account, so it follows the provider, not the
//! address that happens to be written beside a model's name.
use std::fmt;

use reqwest::Url;

/// Who decided on an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressOrigin {
    /// The user: a flag, an environment variable, the user's own configuration file, or a file the user trusts. Keys
    /// go there.
    Given,
    /// Somebody else: a suite, a target's description, a request. Only the provider's own hosts get its key.
    #[default]
    Described,
}

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOwner {
    /// `OPENAI_API_KEY`.
    OpenAi,
    /// `ANTHROPIC_API_KEY`.
    Anthropic,
    /// The address itself: the key was named together with it, such as `key_env` of a target.
    Address,
}

impl KeyOwner {
    /// The owner of a key by the environment variable that holds it.
    pub fn of_variable(name: &str) -> Self {
        match name {
            "OPENAI_API_KEY" => Self::OpenAi,
            "ANTHROPIC_API_KEY" => Self::Anthropic,
            _ => Self::Address,
        }
    }

    /// The hosts the key belongs to.
    fn hosts(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["api.openai.com", "eu.api.openai.com", "us.api.openai.com"],
            Self::Anthropic => &["api.anthropic.com"],
            Self::Address => &[],
        }
    }

    fn variable(self) -> &'static str {
        match self {
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Address => "the key",
        }
    }

    /// Whether the key may be sent to an address, and why not.
    pub fn may_be_sent(self, address: &Url, origin: AddressOrigin) -> Result<(), KeyRefusal> {
        if origin == AddressOrigin::Given {
            return Ok(());
        }
        let host = address.host_str().unwrap_or_default();
        if self != Self::Address && !(address.scheme() == "https" && self.hosts().contains(&host)) {
            return Err(KeyRefusal::ForeignHost {
                owner: self,
                host: host.to_owned(),
            });
        }
        if address.scheme() != "https" && !is_loopback(address) {
            return Err(KeyRefusal::PlainText {
                host: host.to_owned(),
            });
        }
        Ok(())
    }
}

/// Why a key is not sent to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The host is not one of the provider's.
    ForeignHost {
        /// Whose key it is.
        owner: KeyOwner,
        /// The host that would have got it.
        host: String,
    },
    /// The key would cross a network unencrypted.
    PlainText {
        /// The host that would have got it.
        host: String,
    },
}

impl fmt::Display for KeyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignHost { owner, host } => write!(
                f,
                "{} is sent to {} only, not to {host}: the address comes from a file or a request; give it with a flag, \
                 an environment variable or your own configuration file, or name a key of its own",
                owner.variable(),
                owner.hosts().first().copied().unwrap_or_default(),
            ),
            Self::PlainText { host } => {
                write!(
                    f,
                    "a key is not sent to {host} over plain http; use an https:// address"
                )
            }
        }
    }
}

/// Whether an address stays on this machine.
pub(crate) fn is_loopback(address: &Url) -> bool {
    let host = address.host_str().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<std::net::IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(owner: KeyOwner, url: &str, origin: AddressOrigin) -> bool {
        owner.may_be_sent(&Url::parse(url).unwrap(), origin).is_ok()
    }

    #[test]
    fn a_providers_key_goes_to_its_own_hosts_and_to_given_addresses() {
        use AddressOrigin::{Described, Given};
        for (url, described) in [
            ("https://api.openai.com/v1", true),
            ("https://API.OpenAI.com:443/v1", true),
            ("http://api.openai.com/v1", false),
            ("https://api.openai.com.evil.example/v1", false),
            ("https://api.openai.com@evil.example/v1", false),
            ("https://evil.example/api.openai.com", false),
            ("https://api.anthropic.com", false),
            ("http://127.0.0.1:9/v1", false),
            ("http://localhost:9/v1", false),
        ] {
            assert_eq!(sent(KeyOwner::OpenAi, url, Described), described, "{url}");
            assert!(sent(KeyOwner::OpenAi, url, Given), "{url}");
        }
        assert!(sent(KeyOwner::Anthropic, "https://api.anthropic.com", Described));
        assert!(!sent(KeyOwner::Anthropic, "https://api.openai.com/v1", Described));
    }

    #[test]
    fn a_key_of_an_address_does_not_cross_a_network_unencrypted() {
        use AddressOrigin::Described;
        for (url, fine) in [
            ("https://models.example/v1", true),
            ("http://models.example/v1", false),
            ("http://127.0.0.1:8000", true),
            ("http://[::1]:8000", true),
            ("http://[::ffff:127.0.0.1]:8000", true),
            ("http://localhost:8000", true),
            ("http://localhost.evil.example", false),
            ("http://10.0.0.7", false),
        ] {
            assert_eq!(sent(KeyOwner::Address, url, Described), fine, "{url}");
        }
    }
}
