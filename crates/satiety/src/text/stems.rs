//! English stems, remembered. Texts have few words and say them often, and the stemmer's rules cost more than anything
//! else that is done to a word. What is remembered changes no answer.

use std::cell::RefCell;
use std::sync::Arc;

use rust_stemmers::{Algorithm, Stemmer};
use rustc_hash::FxHashMap;

/// How many words a thread remembers before it begins anew, and the longest of them: together less than a megabyte.
const MOST: usize = 4096;
const LONGEST: usize = 32;

thread_local! {
    static KNOWN: RefCell<FxHashMap<Box<str>, Arc<str>>> = RefCell::default();
}

/// The stem of a lowercase word.
pub(crate) fn stem(word: &str) -> Arc<str> {
    if word.len() > LONGEST {
        return find(word);
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(stem) = known.get(word) {
            return stem.clone();
        }
        if known.len() >= MOST {
            known.clear();
        }
        let stem = find(word);
        known.insert(word.into(), stem.clone());
        stem
    })
}

fn find(word: &str) -> Arc<str> {
    Stemmer::create(Algorithm::English).stem(word).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_would_be_found() {
        let long = "a".repeat(LONGEST + 1);
        for word in ["caches", "caching", "caches", "", "naïve", &long] {
            assert_eq!(stem(word), find(word), "{word}");
        }
        for number in 0..2 * MOST {
            stem(&format!("word{number}"));
        }
        assert!(KNOWN.with_borrow(|known| known.len()) <= MOST);
        assert_eq!(&*stem("caching"), "cach");
    }
}
