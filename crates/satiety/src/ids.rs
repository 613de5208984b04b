//! Ids: time-ordered UUIDs with a prefix that says what they name.
//!
//! Making a UUID needs a clock, so callers bring it.

use uuid::Uuid;

/// `evt-019a…`: the prefix and the UUID as 32 hexadecimal digits, so that ids of one kind sort by time.
pub fn prefixed(prefix: &str, uuid: Uuid) -> String {
    format!("{prefix}-{}", uuid.simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_what_it_names() {
        let uuid = Uuid::from_u128(0x019a_8000_0000_7000_8000_0000_0000_0001);
        assert_eq!(prefixed("evt", uuid), "evt-019a8000000070008000000000000001");
    }
}
