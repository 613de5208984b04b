//! Expected values from sentence-transformers 6.2.0 (torch 2.15.0, tokenizers 0.23.3), made by
//! `python perf/peers/minilm_reference.py MODEL_FOLDER crates/satiety-models/tests/it`.
use serde::Deserialize;

/// One sentence and what the reference makes of it.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
    /// The first 16 of 384.
    pub(crate) components: Vec<f32>,
    /// With all rows above this one.
    pub(crate) cosines_with_earlier: Vec<f32>,
}

pub(crate) fn rows() -> Vec<Row> {
    serde_json::from_str(include_str!("reference.json")).unwrap()
}

pub(crate) fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.text.as_str()).collect()
}

pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The largest difference between our pair cosines and the reference's, over all pairs of rows.
pub(crate) fn largest_cosine_error(rows: &[Row], vectors: &[Vec<f32>]) -> f32 {
    let mut largest = 0.0f32;
    for (i, row) in rows.iter().enumerate() {
        for (j, expected) in row.cosines_with_earlier.iter().enumerate() {
            largest = largest.max((dot(&vectors[i], &vectors[j]) - expected).abs());
        }
    }
    largest
}
