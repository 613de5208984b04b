//! Compares the built-in model with the reference.
use proptest::prelude::*;
use satiety_models::Embedder as _;
use satiety_models::minilm::MiniLm;

use crate::reference::{dot, largest_cosine_error, rows, texts};

#[test]
fn tokens_match_the_reference_tokenizer() {
    let model = MiniLm::builtin().unwrap();
    let rows = rows();
    assert!(rows.len() >= 40);
    for row in rows {
        assert_eq!(model.tokens(&row.text), row.tokens, "{:?}", row.text);
    }
}

#[test]
fn pair_cosines_are_within_the_quantization_error() {
    let rows = rows();
    let vectors = MiniLm::builtin().unwrap().encode(&texts(&rows));
    let error = largest_cosine_error(&rows, &vectors);
    assert!(error < 0.015, "{error}");
    for (row, vector) in rows.iter().zip(&vectors) {
        for (found, expected) in vector.iter().zip(&row.components) {
            assert!(
                (found - expected).abs() < 0.015,
                "{:?}: {found} {expected}",
                row.text
            );
        }
    }
}

#[test]
fn a_control_token_written_as_text_is_text() {
    let tokens = MiniLm::builtin().unwrap().tokens("a [SEP] b");
    assert_eq!(tokens.iter().filter(|token| **token == 102).count(), 1);
}

#[test]
fn the_id_matches_the_weights() {
    assert!(MiniLm::builtin_is_intact());
    let model = MiniLm::builtin().unwrap();
    assert!(model.id().to_string().starts_with("minilm-l6-v2-int8:"));
    assert!(model.id().to_string().ends_with(":mean"));
    assert_eq!(model.dimension(), 384);
}

#[test]
fn batching_and_threads_do_not_change_a_vector() {
    let model = MiniLm::builtin().unwrap();
    let rows = rows();
    let texts = texts(&rows);
    let together = model.encode_on(&texts, 1);
    assert_eq!(together, model.encode_on(&texts, 3));
    for (text, vector) in texts.iter().zip(&together) {
        assert_eq!(model.encode(&[text])[0], *vector, "{text:?}");
    }
}

#[tokio::test]
async fn async_embedding_matches_and_empty_input_is_empty() {
    let model = MiniLm::builtin().unwrap();
    assert_eq!(
        model.embed(&["warm cache"]).await.unwrap(),
        model.encode(&["warm cache"])
    );
    assert!(model.embed(&[]).await.unwrap().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_gives_a_unit_vector(text in any::<String>()) {
        let vectors = MiniLm::builtin().unwrap().encode(&[&text]);
        prop_assert!((dot(&vectors[0], &vectors[0]) - 1.0).abs() < 1e-5);
    }
}
