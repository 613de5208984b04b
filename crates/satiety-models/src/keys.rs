//! API key policy: decides to which addresses a key may be sent. A provider's key gives access to a paid
//! account, so it is bound to the provider and not to the address configured for a model.
use std::fmt;

use reqwest::Url;

/// Origin of an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AddressOrigin {
    /// Set by the user with a flag, an environment variable, the user's configuration file or a trusted file.
    /// Keys are sent there.
    Given,
    /// Set by a third party: a suite, a target description or a request. Only the provider's own hosts get
    /// its key.
    #[default]
    Described,
}

/// Owner of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOwner {
    OpenAi,
    Anthropic,
    /// The address itself: the key was configured together with it, such as `key_env` of a target.
    Address,
}

impl KeyOwner {
    /// Owner of the key in this environment variable.
    pub fn from_variable(name: &str) -> Self {
        match name {
            "OPENAI_API_KEY" => Self::OpenAi,
            "ANTHROPIC_API_KEY" => Self::Anthropic,
            _ => Self::Address,
        }
    }

    /// Hosts that the key belongs to.
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

    /// Checks whether the key may be sent to an address.
    pub fn check_destination(self, address: &Url, origin: AddressOrigin) -> Result<(), KeyRefusal> {
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

/// Reason why a key is not sent to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The host does not belong to the provider.
    ForeignHost {
        owner: KeyOwner,
        /// Host that would have received the key.
        host: String,
    },
    /// The key would cross a network unencrypted.
    PlainText { host: String },
}

impl fmt::Display for KeyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignHost { owner, host } => write!(
                f,
                "{} is only sent to {}, not to {host}, because the address comes from a file or a request; set it with a flag, \
                 an environment variable or your configuration file, or configure a separate key",
                owner.variable(),
                owner.hosts().first().copied().unwrap_or_default(),
            ),
            Self::PlainText { host } => {
                write!(
                    f,
                    "API keys are not sent to {host} over plain HTTP; use an https:// address"
                )
            }
        }
    }
}

/// Whether an address is on this machine.
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
        owner.check_destination(&Url::parse(url).unwrap(), origin).is_ok()
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
