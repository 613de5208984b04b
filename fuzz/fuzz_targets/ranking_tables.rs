//! Parses arbitrary bytes as judgments and runs in tables with a header (CSV, TSV as in BEIR) and as JSON Lines. The result
//! does not depend on how the bytes are split into chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::retrieval::{FileFormat, OrderOptions, QrelsReader, RetrievalResult, RunReader};

fuzz_target!(|bytes: &[u8]| {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let piece = usize::from(piece) + 1;
    for format in [FileFormat::Csv, FileFormat::Tsv, FileFormat::JsonLines] {
        let (whole, pieces) = (qrels(format, bytes, bytes.len().max(1)), qrels(format, bytes, piece));
        assert_eq!(whole, pieces, "judgments, {format:?}");
        let (whole, pieces) = (run(format, bytes, bytes.len().max(1)), run(format, bytes, piece));
        assert_eq!(whole, pieces, "run, {format:?}");
    }
});

fn qrels(format: FileFormat, bytes: &[u8], piece: usize) -> RetrievalResult<Vec<Vec<(String, i32)>>> {
    let mut reader = QrelsReader::new(format);
    bytes.chunks(piece).try_for_each(|piece| reader.push(piece))?;
    let qrels = reader.finish(OrderOptions::default())?;
    let list = |query| qrels.judgments(query).map(|(id, grade)| (id.to_owned(), grade)).collect();
    Ok((0..qrels.queries()).map(list).collect())
}

fn run(format: FileFormat, bytes: &[u8], piece: usize) -> RetrievalResult<(usize, usize)> {
    let mut reader = RunReader::new(format);
    bytes.chunks(piece).try_for_each(|piece| reader.push(piece))?;
    let run = reader.finish(OrderOptions::default())?;
    Ok((run.queries(), run.len()))
}
