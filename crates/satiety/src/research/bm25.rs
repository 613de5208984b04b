//! Ranking documents by BM25 (Robertson and Walker 1994; the idf of Lucene, which is never negative). The same documents
//! and query always give the same list: ties go to the earlier document.

use rustc_hash::FxHashMap;

use super::terms::terms;

/// How quickly more of the same word stops counting.
const K1: f64 = 1.2;
/// How much longer documents are held back.
const B: f64 = 0.75;

/// Documents, searchable by words.
///
/// ```
/// use satiety::research::Bm25;
/// let index = Bm25::new(["wings bend when heated", "pancakes bend too"]);
/// assert_eq!(index.search("heated wings", 5)[0].0, 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Bm25 {
    postings: FxHashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    mean_length: f64,
}

impl Bm25 {
    /// Indexes documents in the order in which they come.
    pub fn new<T: AsRef<str>>(documents: impl IntoIterator<Item = T>) -> Self {
        let mut index = Self::default();
        for (number, text) in (0_u32..).zip(documents) {
            let mut counts: FxHashMap<String, u32> = FxHashMap::default();
            let mut length = 0;
            for term in terms(text.as_ref()) {
                *counts.entry(term).or_default() += 1;
                length += 1;
            }
            let mut counts: Vec<(String, u32)> = counts.into_iter().collect();
            counts.sort_unstable();
            for (term, count) in counts {
                index.postings.entry(term).or_default().push((number, count));
            }
            index.lengths.push(length);
        }
        let total: u64 = index.lengths.iter().map(|length| u64::from(*length)).sum();
        index.mean_length = total as f64 / index.lengths.len().max(1) as f64;
        index
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The best `count` documents with their scores, best first; documents without any of the words are left out.
    pub fn search(&self, query: &str, count: usize) -> Vec<(usize, f64)> {
        let mut wanted = terms(query);
        wanted.sort_unstable();
        wanted.dedup();
        let documents = self.lengths.len() as f64;
        let mut scores: FxHashMap<u32, f64> = FxHashMap::default();
        for term in &wanted {
            let Some(postings) = self.postings.get(term) else {
                continue;
            };
            let with = postings.len() as f64;
            let idf = (1.0 + (documents - with + 0.5) / (with + 0.5)).ln();
            for (document, count) in postings {
                let length = self.lengths.get(*document as usize).copied().unwrap_or(0);
                let share = f64::from(length) / self.mean_length.max(1.0);
                let count = f64::from(*count);
                *scores.entry(*document).or_default() +=
                    idf * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * share));
            }
        }
        let mut found: Vec<(usize, f64)> = scores
            .into_iter()
            .map(|(document, score)| (document as usize, score))
            .collect();
        found.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(count);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // By hand: two documents of 3 and 2 terms, mean 2.5; "wing" in one, "bend" in both.
    #[test]
    fn scores_are_those_of_the_formula() {
        let index = Bm25::new(["wings bend heated", "pancakes bend"]);
        let found = index.search("wing bends", 10);
        let part = |with: f64, length: f64| {
            (1.0 + (2.0 - with + 0.5) / (with + 0.5)).ln() * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * length / 2.5))
        };
        assert_eq!(found[0].0, 0);
        assert!((found[0].1 - (part(1.0, 3.0) + part(2.0, 3.0))).abs() < 1e-12);
        assert!((found[1].1 - part(2.0, 2.0)).abs() < 1e-12);
    }

    #[test]
    fn ties_go_to_the_earlier_document_and_strangers_are_left_out() {
        let index = Bm25::new(["same words", "other things entirely", "same words"]);
        let found: Vec<usize> = index
            .search("same words", 10)
            .into_iter()
            .map(|found| found.0)
            .collect();
        assert_eq!(found, [0, 2]);
        assert_eq!(index.search("same words", 1).len(), 1);
        assert!(index.search("the of and", 10).is_empty());
        assert!(Bm25::new(Vec::<String>::new()).search("x", 3).is_empty());
    }
}
