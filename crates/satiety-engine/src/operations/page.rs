//! Cursor pagination of lists: loaded completely and then cut, or read after the last key.

use schemars::JsonSchema;
use serde::Deserialize;

use super::CallError;

/// Default number of entries per page.
const DEFAULT_LIMIT: u32 = 50;

/// Page of a list.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageRequest {
    /// `next_cursor` of the previous page.
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9]{1,9}\\.[!-~]{1,256}$"))]
    pub cursor: Option<String>,
    /// Maximum number of entries per page; 50 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
}

impl PageRequest {
    /// Entries per page, with the default applied.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(DEFAULT_LIMIT)
    }

    /// Number of entries to load from a list of at most `all`: the first page does not need the rest.
    pub fn needed(&self, all: u32) -> u32 {
        match self.cursor {
            Some(_) => all,
            None => self.limit() + 1,
        }
    }

    /// Returns the page that the cursor points to, and the cursor of the next page. A cursor holds the
    /// position and the key of the last entry of the previous page; if that entry was removed, the position
    /// is used.
    pub fn cut<T>(
        &self,
        all: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, Option<String>), CallError> {
        let begin = match &self.cursor {
            None => 0,
            Some(cursor) => {
                let (position, last) = parse_cursor(cursor)?;
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

    /// Returns the key of the last entry of the previous page, for lists in order of their keys.
    pub fn after(&self) -> Result<Option<&str>, CallError> {
        let place = self.cursor.as_deref().map(parse_cursor).transpose()?;
        Ok(place.map(|(_, last)| last))
    }

    /// Returns the page and the cursor of the next one, from the entries after [`Self::after`]: all of them, or one
    /// more than the page has.
    pub fn cut_after<T>(
        &self,
        mut entries: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<(Vec<T>, Option<String>), CallError> {
        let begin = match &self.cursor {
            Some(cursor) => parse_cursor(cursor)?.0,
            None => 0,
        };
        let limit = self.limit() as usize;
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries
            .last()
            .filter(|_| more)
            .map(|entry| format!("{}.{}", begin.saturating_add(entries.len()), key(entry)));
        Ok((entries, next))
    }
}

/// Splits a cursor into the position and the key of the last entry of the previous page.
fn parse_cursor(cursor: &str) -> Result<(usize, &str), CallError> {
    let (position, last) = cursor.split_once('.').ok_or_else(no_cursor)?;
    Ok((position.parse().map_err(|_| no_cursor())?, last))
}

pub(super) fn no_cursor() -> CallError {
    CallError::Invalid {
        place: "cursor".into(),
        message: "`cursor` was not issued by this list".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_contiguous() {
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
        assert_eq!(
            rest,
            ["k3", "k4"],
            "a cursor must survive the deletion of its entry"
        );
        assert!(page(Some("elsewhere".into()), 3).cut(all, |entry| entry).is_err());
    }

    #[test]
    fn pages_of_a_list_in_order_of_its_keys_are_contiguous() {
        let all: Vec<String> = (0..7).map(|number| format!("k.{number}")).collect();
        let mut page = PageRequest {
            cursor: None,
            limit: Some(3),
        };
        let mut seen = Vec::new();
        loop {
            let after = page.after().unwrap().unwrap_or_default().to_owned();
            let found = all.iter().filter(|key| **key > after).take(4).cloned();
            let (entries, next) = page.cut_after(found.collect(), |entry| entry).unwrap();
            seen.extend(entries);
            page.cursor = next;
            if page.cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
        page.cursor = Some("elsewhere".into());
        assert!(page.after().is_err());
        assert!(page.cut_after(all, |entry| entry).is_err());
    }
}
