//! Parses arbitrary bytes as judgments and runs in the format of `trec_eval`. The result does not depend on how the bytes
//! are split into chunks and the lines into parts, and every parsed run can be evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use satiety::retrieval::{
    Dedup, EvaluationOptions, FileFormat, OrderOptions, QrelsReader, RetrievalResult, Run, RunPart, RunReader, Ties,
    default_measures, evaluate,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((&shape, bytes)) = bytes.split_first() else { return };
    let options = OrderOptions {
        ties: if shape & 1 == 0 { Ties::Trec } else { Ties::Rank },
        dedup: if shape & 2 == 0 { Dedup::Refuse } else { Dedup::First },
    };
    let chunk = usize::from(shape >> 2) + 1;
    let whole = run(bytes, bytes.len().max(1), options);
    same(&whole, &run(bytes, chunk, options), "chunks");
    let cut = bytes.iter().skip(bytes.len() / 2).position(|byte| *byte == b'\n');
    if let Some(cut) = cut {
        let parts = bytes.split_at(bytes.len() / 2 + cut + 1);
        same(&whole, &in_parts(parts, options), "parts");
    }
    let mut reader = QrelsReader::trec();
    let qrels = bytes.chunks(chunk).try_for_each(|chunk| reader.push(chunk)).and_then(|()| reader.finish(options));
    if let (Ok(qrels), Ok(run)) = (qrels, whole) {
        for options in [EvaluationOptions::default(), EvaluationOptions::trec()] {
            let found = evaluate(&qrels, &run, &default_measures(), &options);
            for query in 0..found.queries().len() {
                assert!(found.row(query).iter().flatten().all(|value| (0.0..=1.0 + 1e-9).contains(value)));
            }
        }
    }
});

fn run(bytes: &[u8], chunk: usize, options: OrderOptions) -> RetrievalResult<Run> {
    let mut reader = RunReader::trec();
    bytes.chunks(chunk).try_for_each(|chunk| reader.push(chunk))?;
    reader.finish(options)
}

fn in_parts((first, second): (&[u8], &[u8]), options: OrderOptions) -> RetrievalResult<Run> {
    let read = |number, bytes| {
        let mut reader = RunReader::part(FileFormat::Trec, number);
        reader.push(bytes)?;
        reader.end(options)
    };
    let first = read(0, first)?;
    let second = read(1, second).map_err(|error| error.after(first.lines()))?;
    RunPart::join(vec![first, second])
}

fn same(one: &RetrievalResult<Run>, other: &RetrievalResult<Run>, what: &str) {
    match (one, other) {
        (Ok(one), Ok(other)) => {
            assert_eq!((one.len(), one.queries()), (other.len(), other.queries()), "{what}");
            assert_eq!(format!("{:?}", lists(one)), format!("{:?}", lists(other)), "{what}");
        }
        (one, other) => assert_eq!(one.as_ref().err(), other.as_ref().err(), "{what}"),
    }
}

/// Documents of queries that are likely to occur in the input.
fn lists(run: &Run) -> Vec<Vec<&str>> {
    ["q", "q1", "q2", "1", "2", "a", "b"].iter().map(|query| run.documents(query).collect()).collect()
}
