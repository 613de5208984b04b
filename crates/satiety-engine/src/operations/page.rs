//! Pages of lists that are made whole and cut.

use schemars::JsonSchema;
use serde::Deserialize;

use super::CallError;

/// Entries on a page unless the request says otherwise.
const DEFAULT_LIMIT: u32 = 50;

/// A page of a list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageRequest {
    /// `next_cursor` of the page before.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    pub cursor: Option<String>,
    /// Entries on a page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
}

impl PageRequest {
    /// Entries on the page.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// How many entries of a list of at most `all` are needed: without a cursor the beginning is enough.
    pub fn needed(&self, all: u32) -> u32 {
        match self.cursor {
            Some(_) => all,
            None => self.limit() + 1,
        }
    }

    /// The part of a list that the cursor points to, and the cursor of the next part. A cursor has the position and the key
    /// of the last entry before: where that entry is gone, the position is good enough.
    pub fn cut<T>(
        &self,
        all: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, Option<String>), CallError> {
        let begin = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let (position, last) = cursor.split_once('.').ok_or_else(no_cursor)?;
                let position: usize = position.parse().map_err(|_| no_cursor())?;
                let found = all.iter().position(|entry| key(entry) == last);
                found.map_or(position, |found| found + 1)
            }
        };
        let limit = self.limit() as usize;
        let more = all.len() > begin.saturating_add(limit);
        let entries: Vec<T> = all.into_iter().skip(begin).take(limit).collect();
        let next = entries
            .last()
            .filter(|_| more)
            .map(|entry| format!("{}.{}", begin + entries.len(), key(entry)));
        Ok((entries, next))
    }
}

pub(super) fn no_cursor() -> CallError {
    CallError::Invalid {
        place: "cursor".into(),
        message: "`cursor` is not one that this list gave out".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_without_gaps() {
        let all: Vec<String> = (0..7).map(|number| format!("k{number}")).collect();
        let page = |cursor: Option<String>, limit: u32| PageRequest {
            cursor,
            limit: Some(limit),
        };
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let (entries, next) = page(cursor, 3).cut(all.clone(), |entry| entry).unwrap();
            seen.extend(entries);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
        let (rest, _) = page(Some("3.gone".into()), 2)
            .cut(all.clone(), |entry| entry)
            .unwrap();
        assert_eq!(rest, ["k3", "k4"], "an entry that is gone leaves its position");
        assert!(page(Some("elsewhere".into()), 3).cut(all, |entry| entry).is_err());
    }
}
