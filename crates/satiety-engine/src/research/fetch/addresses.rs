//! Public address check: everything else is a private network, this machine, or unroutable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Checks that an address may be fetched; the error is the reason why not.
pub fn check(address: IpAddr, allow_private: bool) -> Result<(), &'static str> {
    let reason = match address {
        IpAddr::V4(address) => not_public_v4(address),
        IpAddr::V6(address) => not_public_v6(address),
    };
    match reason {
        Some("multicast" | "unspecified" | "broadcast") => Err(reason.unwrap_or_default()),
        Some(reason) if !allow_private => Err(reason),
        _ => Ok(()),
    }
}

/// Returns true for names that always mean this machine or the local network.
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('.') && name.parse::<u32>().is_err()
        || [
            "localhost",
            "local",
            "internal",
            "lan",
            "home.arpa",
            "intranet",
            "corp",
            "home",
        ]
        .iter()
        .any(|ending| name == *ending || name.ends_with(&format!(".{ending}")))
}

fn not_public_v4(address: Ipv4Addr) -> Option<&'static str> {
    let [a, b, c, _] = address.octets();
    if address == Ipv4Addr::BROADCAST {
        return Some("broadcast");
    }
    Some(match (a, b, c) {
        (0, ..) => "unspecified",
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => "private",
        (127, ..) => "loopback",
        (100, 64..=127, _) => "shared by carriers",
        (169, 254, _) => "link-local",
        (224..=239, ..) => "multicast",
        (192, 0, 0 | 2)
        | (192, 88, 99)
        | (198, 18..=19, _)
        | (198, 51, 100)
        | (203, 0, 113)
        | (240.., ..) => "reserved",
        _ => return None,
    })
}

fn not_public_v6(address: Ipv6Addr) -> Option<&'static str> {
    let segments = address.segments();
    // An IPv4 address embedded in an IPv6 address is checked as that address.
    if let Some(inner) = inner_v4(address) {
        return not_public_v4(inner);
    }
    Some(match segments {
        [0, 0, 0, 0, 0, 0, 0, 0] => "unspecified",
        [0, 0, 0, 0, 0, 0, 0, 1] => "loopback",
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => "private",
        [0xfe80..=0xfebf, ..] => "link-local",
        [0xff00..=0xffff, ..] => "multicast",
        // Documentation; Teredo, ORCHID and benchmarking (tunnels and experiments); then unassigned ranges.
        [0x2001, 0x0db8 | 0x0000..=0x01ff, ..] | [0x3fff, ..] => "reserved",
        [0x2000..=0x3ffe, ..] => return None,
        _ => "reserved",
    })
}

/// Returns the IPv4 address inside `::ffff:a.b.c.d`, `::a.b.c.d`, `64:ff9b::a.b.c.d` and `2002:aabb:ccdd::`.
fn inner_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let from = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(from(high, low)),
        [0x64, 0xff9b, 1, ..] => Some(Ipv4Addr::LOCALHOST),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_allowed() {
        for (address, reason) in [
            ("127.0.0.1", "loopback"),
            ("127.255.255.254", "loopback"),
            ("0.0.0.0", "unspecified"),
            ("0.1.2.3", "unspecified"),
            ("10.1.2.3", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.1.1", "private"),
            ("169.254.169.254", "link-local"),
            ("100.64.0.1", "shared by carriers"),
            ("100.127.255.255", "shared by carriers"),
            ("192.0.0.1", "reserved"),
            ("198.18.0.1", "reserved"),
            ("203.0.113.7", "reserved"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.255", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("::", "unspecified"),
            ("::1", "loopback"),
            ("fc00::1", "private"),
            ("fdff::1", "private"),
            ("fe80::1", "link-local"),
            ("fec0::1", "private"),
            ("ff02::1", "multicast"),
            ("::ffff:127.0.0.1", "loopback"),
            ("::ffff:10.0.0.1", "private"),
            ("::ffff:0:192.168.0.1", "private"),
            ("::127.0.0.1", "loopback"),
            ("64:ff9b::10.0.0.1", "private"),
            ("64:ff9b:1::1", "loopback"),
            ("2002:7f00:1::", "loopback"),
            ("2002:c0a8:101::1", "private"),
            ("2001::1", "reserved"),
            ("2001:db8::1", "reserved"),
            ("100::1", "reserved"),
            ("4000::1", "reserved"),
        ] {
            assert_eq!(check(address.parse().unwrap(), false), Err(reason), "{address}");
        }
        for address in [
            "1.1.1.1",
            "93.184.215.14",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
        ] {
            assert_eq!(check(address.parse().unwrap(), false), Ok(()), "{address}");
        }
    }

    #[test]
    fn multicast_and_unspecified_addresses_are_never_allowed() {
        assert!(check("127.0.0.1".parse().unwrap(), true).is_ok());
        assert!(check("fd00::1".parse().unwrap(), true).is_ok());
        assert!(check("224.0.0.1".parse().unwrap(), true).is_err());
        assert!(check("0.0.0.0".parse().unwrap(), true).is_err());
        assert!(check("::".parse().unwrap(), true).is_err());
    }

    #[test]
    fn local_host_names_are_refused() {
        for name in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "router",
            "x.home.arpa",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in ["example.org", "localhost.example.org", "notlocal.com"] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
