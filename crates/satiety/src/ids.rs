//! Ids: time-ordered UUIDs with a prefix that names the kind of object.
//!
//! Creating a UUID needs a clock, so callers pass it in.

/// Formats an id such as `evt-019a…`: the prefix and the UUID as 32 hexadecimal digits. Ids of one kind sort
/// by time.
pub fn prefixed(prefix: &str, uuid: impl AsRef<[u8]>) -> String {
    format!("{prefix}-{}", crate::harness::approval::to_hex(uuid.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_a_prefix() {
        let uuid = 0x019a_8000_0000_7000_8000_0000_0000_0001_u128.to_be_bytes();
        assert_eq!(prefixed("evt", uuid), "evt-019a8000000070008000000000000001");
    }
}
