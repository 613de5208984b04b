//! Format of the built-in weights file, version 1. All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `SATIETYW` |
//! | 4 | version, u32 |
//! | 4 | length of the header, u32 |
//! | … | header: JSON with `model`, `source_sha256`, `config` (names of Hugging Face's `config.json`), `tensors` |
//! | … | the tensors in the header's order, without gaps |
//!
//! An entry of `tensors` has `name`, `shape` and `encoding`: `f32` stores the values row by row; `i8g64`
//! stores one int8 level per value, row by row, followed by one f16 scale for each 64 values of a row; value
//! = level x scale. Written by `cargo xtask quantize`.
use std::collections::BTreeMap;

use half::f16;
use serde::Deserialize;

use super::config::Config;
use super::quantized::QuantizedRows;
use super::weights::{GROUP, Table, Tensors};

/// Parsed file; tensors are still in stored form.
pub(crate) struct WeightsFile {
    pub(crate) config: Config,
    tensors: BTreeMap<String, Stored>,
}

struct Stored {
    shape: Vec<usize>,
    encoding: Encoding,
    bytes: &'static [u8],
}

#[derive(Clone, Copy, Deserialize)]
enum Encoding {
    #[serde(rename = "f32")]
    Floats,
    #[serde(rename = "i8g64")]
    Levels,
}

impl WeightsFile {
    pub(crate) fn parse(file: &'static [u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Header {
            config: Config,
            tensors: Vec<Entry>,
        }
        #[derive(Deserialize)]
        struct Entry {
            name: String,
            shape: Vec<usize>,
            encoding: Encoding,
        }
        let rest = file
            .strip_prefix(b"SATIETYW")
            .ok_or("not a weights file (wrong magic number)")?;
        let (version, rest) = number(rest)?;
        if version != 1 {
            return Err(format!("unsupported format version {version} (expected 1)"));
        }
        let (length, rest) = number(rest)?;
        let (header, mut data) = rest.split_at_checked(length).ok_or("truncated header")?;
        let header: Header = serde_json::from_slice(header).map_err(|error| format!("header: {error}"))?;
        header.config.check()?;

        let mut tensors = BTreeMap::new();
        for Entry {
            name,
            shape,
            encoding,
        } in header.tensors
        {
            let values = shape
                .iter()
                .try_fold(1usize, |product, size| product.checked_mul(*size));
            let values = values
                .filter(|values| *values < 1 << 32)
                .ok_or_else(|| format!("tensor {name} is too large"))?;
            let bytes = match encoding {
                Encoding::Floats => values * 4,
                Encoding::Levels if shape.last().is_some_and(|last| last % GROUP == 0) => {
                    values + values / GROUP * 2
                }
                Encoding::Levels => {
                    return Err(format!("tensor {name} is not divisible into groups of {GROUP}"));
                }
            };
            let (bytes, after) = data
                .split_at_checked(bytes)
                .ok_or_else(|| format!("truncated in tensor {name}"))?;
            data = after;
            tensors.insert(
                name,
                Stored {
                    shape,
                    encoding,
                    bytes,
                },
            );
        }
        if !data.is_empty() {
            return Err(format!("{} unexpected bytes after the last tensor", data.len()));
        }
        Ok(Self {
            config: header.config,
            tensors,
        })
    }

    fn get(&self, name: &str, shape: &[usize]) -> Result<&Stored, String> {
        let stored = self
            .tensors
            .get(name)
            .ok_or_else(|| format!("missing tensor {name}"))?;
        if stored.shape != shape {
            return Err(format!(
                "tensor {name} has shape {:?}, expected {shape:?}",
                stored.shape
            ));
        }
        Ok(stored)
    }
}

fn number(bytes: &[u8]) -> Result<(usize, &[u8]), String> {
    let (number, rest) = bytes.split_first_chunk::<4>().ok_or("truncated header")?;
    Ok((u32::from_le_bytes(*number) as usize, rest))
}

impl Stored {
    fn levels_and_scales(&self) -> (&'static [u8], &'static [u8]) {
        self.bytes.split_at(self.shape.iter().product())
    }
}

impl Tensors for WeightsFile {
    fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let stored = self.get(name, shape)?;
        Ok(match stored.encoding {
            Encoding::Floats => {
                let (values, _) = stored.bytes.as_chunks::<4>();
                values.iter().map(|value| f32::from_le_bytes(*value)).collect()
            }
            Encoding::Levels => {
                let (levels, scales) = stored.levels_and_scales();
                let mut values = vec![0.0; levels.len()];
                let (scales, _) = scales.as_chunks::<2>();
                for ((values, levels), scale) in values
                    .chunks_exact_mut(GROUP)
                    .zip(levels.chunks_exact(GROUP))
                    .zip(scales)
                {
                    let scale = f16::from_le_bytes(*scale).to_f32();
                    for (value, level) in values.iter_mut().zip(levels) {
                        *value = f32::from(level.cast_signed()) * scale;
                    }
                }
                values
            }
        })
    }

    fn quantized(&self, name: &str, shape: &[usize]) -> Result<Option<QuantizedRows<'_>>, String> {
        let stored = self.get(name, shape)?;
        Ok(match stored.encoding {
            Encoding::Floats => None,
            Encoding::Levels => {
                let (levels, scales) = stored.levels_and_scales();
                Some(QuantizedRows { levels, scales })
            }
        })
    }

    fn table(&self, name: &str, rows: usize, columns: usize) -> Result<Table, String> {
        let stored = self.get(name, &[rows, columns])?;
        Ok(match stored.encoding {
            Encoding::Floats => Table::Floats {
                values: self.floats(name, &[rows, columns])?,
                columns,
            },
            Encoding::Levels => {
                let (levels, scales) = stored.levels_and_scales();
                Table::Levels {
                    levels,
                    scales,
                    columns,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "intermediate_size": 4,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 4, "num_attention_heads": 2, "num_hidden_layers": 1,
        "vocab_size": 4}"#;

    fn file(version: u32, tensors: &str, data: &[u8]) -> &'static [u8] {
        let header = format!(r#"{{"config": {CONFIG}, "tensors": {tensors}}}"#);
        let length = u32::try_from(header.len()).unwrap().to_le_bytes();
        [
            b"SATIETYW",
            &version.to_le_bytes()[..],
            &length,
            header.as_bytes(),
            data,
        ]
        .concat()
        .leak()
    }

    fn complaint(file: &'static [u8]) -> String {
        WeightsFile::parse(file).err().unwrap()
    }

    #[test]
    fn both_encodings_match_values_computed_by_hand() {
        let tensors = r#"[{"name": "a", "shape": [2], "encoding": "f32"}, {"name": "b", "shape": [1, 64], "encoding": "i8g64"}]"#;
        let mut data = [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
        data.extend((0..64u8).map(|i| i.wrapping_sub(32)));
        // 0x3800 is 0.5 in f16.
        data.extend([0x00, 0x38]);
        let file = WeightsFile::parse(file(1, tensors, &data)).unwrap();
        assert_eq!(file.floats("a", &[2]).unwrap(), [1.5, -2.0]);
        let values = file.floats("b", &[1, 64]).unwrap();
        assert_eq!((values[0], values[32], values[63]), (-16.0, 0.0, 15.5));
        let mut row = vec![1.0; 64];
        file.table("b", 1, 64).unwrap().add_row(0, &mut row);
        assert_eq!((row[0], row[63]), (-15.0, 16.5));
        assert_eq!(
            file.floats("a", &[3]).unwrap_err(),
            "tensor a has shape [2], expected [3]"
        );
        assert_eq!(file.floats("c", &[3]).unwrap_err(), "missing tensor c");
    }

    #[test]
    fn errors_name_the_broken_part_of_the_file() {
        let one = r#"[{"name": "a", "shape": [2], "encoding": "f32"}]"#;
        assert!(complaint(b"PK").contains("magic"));
        assert!(complaint(b"SATIETYW\x01").contains("truncated header"));
        assert!(complaint(file(2, "[]", b"")).contains("format version 2 (expected 1)"));
        assert_eq!(complaint(file(1, one, &[0; 7])), "truncated in tensor a");
        assert_eq!(
            complaint(file(1, one, &[0; 9])),
            "1 unexpected bytes after the last tensor"
        );
        assert!(
            complaint(file(
                1,
                r#"[{"name": "a", "shape": [2], "encoding": "f64"}]"#,
                b""
            ))
            .contains("f64")
        );
        assert!(
            complaint(file(
                1,
                r#"[{"name": "a", "shape": [3, 65], "encoding": "i8g64"}]"#,
                b""
            ))
            .contains("groups")
        );
        let huge = r#"[{"name": "a", "shape": [4294967296, 4294967296], "encoding": "f32"}]"#;
        assert!(complaint(file(1, huge, b"")).contains("too large"));
    }

    #[test]
    fn every_truncated_file_is_an_error() {
        let whole = file(1, r#"[{"name": "a", "shape": [2], "encoding": "f32"}]"#, &[0; 8]);
        assert!((0..whole.len()).all(|end| WeightsFile::parse(&whole[..end]).is_err()));
    }
}
