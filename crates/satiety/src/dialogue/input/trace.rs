//! The project's own shapes: a transcript in one JSON object, or a trace of JSON Lines.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::wire::{Round, Transcript};
use super::json::{self, Line};
use super::{InputError, json::Cursor};

pub(super) fn transcript(text: &str) -> Result<Transcript, InputError> {
    let mut transcript: Transcript = json::typed(text, 1)?;
    sort_rounds(&mut transcript.rounds);
    Ok(transcript)
}

/// Header and rounds of a trace; the header's other keys are kept, lines of other types are not.
pub(super) fn trace(lines: &[Line<'_>]) -> Result<Transcript, InputError> {
    let mut transcript = Transcript::default();
    for line in lines {
        let cursor = Cursor::new(&line.value, line.number);
        if !line.value.is_object() {
            return Err(cursor.expected("an object"));
        }
        match cursor.optional_string("type")? {
            Some("transcript_header") => {
                // A header is a transcript whose rounds come later.
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

/// Rounds may be written down out of order. Where a number occurs twice, the writer did not number the whole
/// conversation, and the order of the list stands.
fn sort_rounds(rounds: &mut [Round]) {
    let numbers: BTreeSet<u32> = rounds.iter().map(|round| round.round).collect();
    if numbers.len() == rounds.len() {
        rounds.sort_by_key(|round| round.round);
    }
}
