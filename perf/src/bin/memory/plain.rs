//! Naive reference implementations: BM25 over whole texts by its formula, and cosines of all vectors.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rust_stemmers::{Algorithm, Stemmer};

/// Common stop words (the list of Lucene's English analyser).
const STOPWORDS: &str = "a an and are as at be but by for if in into is it no not of on or such that the their then there \
     these they this to was will with";

/// BM25 with k1 = 1.2 and b = 0.75 over stemmed words.
pub(crate) struct Bm25 {
    stemmer: Stemmer,
    postings: HashMap<String, Vec<(usize, f64)>>,
    lengths: Vec<f64>,
}

impl Bm25 {
    pub(crate) fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut index = Self {
            stemmer: Stemmer::create(Algorithm::English),
            postings: HashMap::new(),
            lengths: Vec::new(),
        };
        for (at, text) in texts.enumerate() {
            let words = index.words(text);
            let mut counts: BTreeMap<String, f64> = BTreeMap::new();
            index.lengths.push(words.len() as f64);
            for word in words {
                *counts.entry(word).or_default() += 1.0;
            }
            for (word, count) in counts {
                index.postings.entry(word).or_default().push((at, count));
            }
        }
        index
    }

    fn words(&self, text: &str) -> Vec<String> {
        let stop: BTreeSet<&str> = STOPWORDS.split_whitespace().collect();
        let lower = text.to_lowercase();
        lower
            .split(|character: char| !character.is_alphanumeric())
            .filter(|word| !word.is_empty() && !stop.contains(word))
            .map(|word| self.stemmer.stem(word).into_owned())
            .collect()
    }

    pub(crate) fn search(&self, query: &str, most: usize) -> Vec<usize> {
        let all = self.lengths.len() as f64;
        let mean = self.lengths.iter().sum::<f64>() / all;
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for word in self.words(query) {
            let list = self.postings.get(&word).map(Vec::as_slice).unwrap_or_default();
            let having = list.len() as f64;
            let rare = (1.0 + (all - having + 0.5) / (having + 0.5)).ln();
            for (at, count) in list {
                let long = 0.25 + 0.75 * self.lengths[*at] / mean;
                *scores.entry(*at).or_default() += rare * count * 2.2 / (count + 1.2 * long);
            }
        }
        let mut found: Vec<(usize, f64)> = scores.into_iter().collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.into_iter().take(most).map(|(at, _)| at).collect()
    }
}

/// Nearest vectors by exhaustive comparison.
pub(crate) fn nearest(vectors: &[Vec<f32>], query: &[f32], most: usize) -> Vec<(usize, f32)> {
    let cosine = |vector: &Vec<f32>| vector.iter().zip(query).map(|(a, b)| a * b).sum::<f32>();
    let mut found: Vec<(usize, f32)> = vectors.iter().map(cosine).enumerate().collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    found.truncate(most);
    found
}
