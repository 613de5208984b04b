//! The native formats: a transcript as one JSON object, or a trace as JSON Lines.

use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_json::Value;

use super::super::wire::{Round, Transcript};
use super::json::{self, Line};
use super::{InputError, json::Cursor};

pub(super) fn transcript(text: &str) -> Result<Transcript, InputError> {
    let mut transcript: Transcript = json::typed(text, 1)?;
    sort_rounds(&mut transcript.rounds);
    Ok(transcript)
}

/// Like [`transcript`], for JSON that was already parsed.
pub(super) fn transcript_value(value: &Value) -> Option<Transcript> {
    let mut transcript = Transcript::deserialize(value).ok()?;
    sort_rounds(&mut transcript.rounds);
    Some(transcript)
}

/// Parses a trace. Unknown keys of the header are preserved; lines of other types are ignored.
pub(super) fn trace(lines: &[Line<'_>]) -> Result<Transcript, InputError> {
    let mut transcript = Transcript::default();
    for line in lines {
        let cursor = Cursor::new(&line.value, line.number);
        if !line.value.is_object() {
            return Err(cursor.expected("an object"));
        }
        match cursor.optional_string("type")? {
            Some("transcript_header") => {
                // Parse the header as a transcript without rounds.
                let mut header = line.value.clone();
                if let Some(object) = header.as_object_mut() {
                    object.remove("type");
                    object.entry("rounds").or_insert_with(|| Value::Array(Vec::new()));
                }
                let header: Transcript = json::typed(&header.to_string(), line.number)?;
                let rounds = std::mem::take(&mut transcript.rounds);
                transcript = header;
                transcript.rounds.splice(0..0, rounds);
            }
            Some("round") => {
                let mut round: Round = json::typed(line.text, line.number)?;
                round.extra.remove("type");
                transcript.rounds.push(round);
            }
            _ => {}
        }
    }
    sort_rounds(&mut transcript.rounds);
    Ok(transcript)
}

/// Sorts rounds by number. If a number occurs twice, numbers do not define an order and the list is left
/// unchanged.
fn sort_rounds(rounds: &mut [Round]) {
    let numbers: BTreeSet<u32> = rounds.iter().map(|round| round.round).collect();
    if numbers.len() == rounds.len() {
        rounds.sort_by_key(|round| round.round);
    }
}
