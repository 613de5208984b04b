//! f32 weights from a directory: exact parity on a tiny encoder that is part of the tests, on the real model if it is
//! available (`SATIETY_TEST_MINILM=DIRECTORY`), and errors that name the file.
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use satiety_models::EmbedError;
use satiety_models::minilm::MiniLm;
use serde::Deserialize;

use crate::reference::{largest_cosine_error, rows, texts};

#[derive(Deserialize)]
struct TinyRow {
    text: String,
    tokens: Vec<u32>,
    mean: Vec<f32>,
    cls: Vec<f32>,
}

fn tiny() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tiny")
}

/// A copy of the tiny model to damage.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "vocab.txt", "model.safetensors"] {
        fs_err::copy(tiny().join(file), folder.path().join(file)).unwrap();
    }
    folder
}

fn message(folder: &Path) -> String {
    MiniLm::from_directory(folder).unwrap_err().to_string()
}

fn assert_same(found: &[f32], expected: &[f32], text: &str) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < 1e-5,
            "{text:?}: {found} is not {expected}"
        );
    }
}

#[test]
fn a_tiny_encoder_of_odd_sizes_agrees_with_transformers() {
    let rows: Vec<TinyRow> = serde_json::from_str(include_str!("tiny/reference.json")).unwrap();
    let mean = MiniLm::from_directory(&tiny()).unwrap();
    let folder = copy();
    fs_err::create_dir(folder.path().join("1_Pooling")).unwrap();
    fs_err::write(
        folder.path().join("1_Pooling/config.json"),
        r#"{"pooling_mode_cls_token": true}"#,
    )
    .unwrap();
    let cls = MiniLm::from_directory(folder.path()).unwrap();
    assert_eq!((mean.id().pooling(), cls.id().pooling()), ("mean", "cls"));
    assert_eq!(mean.dimension(), 36);
    let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
    for ((row, by_mean), by_cls) in rows.iter().zip(mean.encode(&texts)).zip(cls.encode(&texts)) {
        assert_eq!(mean.tokens(&row.text), row.tokens);
        assert_same(&by_mean, &row.mean, &row.text);
        assert_same(&by_cls, &row.cls, &row.text);
    }
}

#[test]
fn the_real_model_agrees_with_sentence_transformers() {
    let Some(folder) = std::env::var_os("SATIETY_TEST_MINILM") else {
        return;
    };
    let model = MiniLm::from_directory(Path::new(&folder)).unwrap();
    let rows = rows();
    let vectors = model.encode(&texts(&rows));
    for (row, vector) in rows.iter().zip(&vectors) {
        assert_same(&vector[..16], &row.components, &row.text);
    }
    let error = largest_cosine_error(&rows, &vectors);
    assert!(error < 1e-5, "{error}");
}

#[test]
fn a_missing_file_is_reported() {
    for file in ["config.json", "vocab.txt", "model.safetensors"] {
        let folder = copy();
        fs_err::remove_file(folder.path().join(file)).unwrap();
        let error = MiniLm::from_directory(folder.path()).unwrap_err();
        assert!(
            matches!(error, EmbedError::MissingFile { file: missing, .. } if missing == file),
            "{error}"
        );
    }
    assert!(message(Path::new("/no/such/folder")).contains("/no/such/folder: config.json not found"));
}

#[test]
fn an_invalid_configuration_names_the_field() {
    let good = fs_err::read_to_string(tiny().join("config.json")).unwrap();
    let cases = [
        (
            r#""hidden_act": "gelu""#,
            r#""hidden_act": "relu""#,
            "hidden_act is `relu`; only `gelu` is supported",
        ),
        (
            r#""model_type": "bert""#,
            r#""model_type": "mpnet""#,
            "model_type is `mpnet`",
        ),
        (
            r#""num_attention_heads": 3"#,
            r#""num_attention_heads": 5"#,
            "is not divisible by 5 attention heads",
        ),
        (
            r#""num_hidden_layers": 2"#,
            r#""num_hidden_layers": 0"#,
            "num_hidden_layers is 0",
        ),
        (
            r#""num_hidden_layers": 2"#,
            r#""num_hidden_layers": 3"#,
            "missing tensor encoder.layer.2.",
        ),
        (
            r#""vocab_size": 60"#,
            r#""vocab_size": 61"#,
            "vocab.txt: has 60 lines; config.json says vocab_size 61",
        ),
        (
            r#""hidden_size": 36"#,
            r#""hidden_size": 39"#,
            "has shape [24, 36], expected [24, 39]",
        ),
        (r#""hidden_size": 36,"#, "", "missing field `hidden_size`"),
        ("{", "", "config.json: "),
    ];
    for (from, to, expected) in cases {
        let folder = copy();
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        fs_err::write(folder.path().join("config.json"), text).unwrap();
        let found = message(folder.path());
        assert!(found.contains(expected), "{found:?} lacks {expected:?}");
    }
}

#[test]
fn invalid_weights_name_the_tensor() {
    let bytes = fs_err::read(tiny().join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let name = "encoder.layer.1.output.dense.weight";
    let write = |tensor: Option<TensorView<'_>>| {
        let folder = copy();
        let all = tensors.tensors().into_iter().filter(|(other, _)| other != name);
        let changed = tensor.map(|tensor| (name.to_owned(), tensor));
        let file = safetensors::serialize(all.chain(changed), None).unwrap();
        fs_err::write(folder.path().join("model.safetensors"), file).unwrap();
        message(folder.path())
    };
    assert!(write(None).contains("missing tensor encoder.layer.1.output.dense.weight"));
    let half = vec![0; 36 * 50 * 2];
    let found = write(Some(TensorView::new(Dtype::F16, vec![36, 50], &half).unwrap()));
    assert!(
        found.contains("output.dense.weight is F16; only F32 is supported"),
        "{found}"
    );
    let found = write(Some(
        TensorView::new(Dtype::F32, vec![50, 36], &[half.clone(), half].concat()).unwrap(),
    ));
    assert!(found.contains("has shape [50, 36], expected [36, 50]"), "{found}");
}

#[test]
fn damaged_files_are_errors() {
    for (file, bytes) in [
        ("model.safetensors", &b"garbage"[..]),
        ("model.safetensors", b""),
        ("vocab.txt", b"\xff\xfe"),
        ("vocab.txt", b"a\nb\n"),
        ("config.json", b"[]"),
        ("sentence_bert_config.json", b"{\"max_seq_length\": 0}"),
    ] {
        let folder = copy();
        fs_err::write(folder.path().join(file), bytes).unwrap();
        assert!(message(folder.path()).contains(file));
    }
    let folder = copy();
    let whole = fs_err::read(tiny().join("model.safetensors")).unwrap();
    fs_err::write(folder.path().join("model.safetensors"), &whole[..whole.len() / 2]).unwrap();
    assert!(message(folder.path()).contains("model.safetensors"));
}
