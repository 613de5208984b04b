//! Reads judgments and runs from files, plain or compressed. A large plain file is split at line ends and
//! parsed in parallel; the result is identical to that of one thread, including the line numbers of errors.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use satiety::retrieval::{
    FileFormat, GradedRun, GradedRunPart, GradingReader, OrderOptions, Qrels, QrelsPart, QrelsReader,
    RetrievalError, Run, RunPart, RunReader, Trace, TraceReader,
};

use super::Rankings;
use super::exported::{answer_lines, judgment_lines};
use crate::EngineError;
use crate::database::stored_export::ExportedName;

/// Buffer size per thread in bytes.
const CHUNK_BYTES: usize = 1 << 18;
/// Minimum bytes per part: for less, another thread costs more than it saves.
const MIN_PART_BYTES: u64 = if cfg!(test) { 1 << 14 } else { 2 << 20 };
/// Maximum number of parts; more threads would only wait for memory bandwidth.
const MAX_PARTS: usize = 64;

/// Contents of a run file.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) run: Run,
    /// Pipeline traces of the searches, if the file has them.
    pub(super) traces: Vec<Trace>,
}

/// Reads the judgments and all runs in parallel.
pub(super) fn read(rankings: &Rankings) -> Result<(Qrels, Vec<Answers>), EngineError> {
    let order = rankings.order;
    let threads = threads();
    let (qrels, runs) = std::thread::scope(|scope| {
        let runs: Vec<_> = rankings
            .runs
            .iter()
            .map(|path| scope.spawn(move || run_with(path, order, threads)))
            .collect();
        let qrels = qrels_with(&rankings.qrels, order, threads);
        (qrels, runs.into_iter().map(joined).collect::<Vec<_>>())
    });
    Ok((qrels?, runs.into_iter().collect::<Result<_, _>>()?))
}

/// Reads the judgments, and then grades the runs while it reads them, which takes a fraction of the memory.
/// `None` if a file has to be read as a whole: because of its order, or because of an error, which reading it as
/// a whole reports. The files must be [regular](are_regular_files).
pub(super) fn read_graded(rankings: &Rankings) -> Option<(Qrels, Vec<GradedRun>)> {
    let threads = threads();
    let qrels = qrels_with(&rankings.qrels, rankings.order, threads).ok()?;
    let runs = rankings
        .runs
        .iter()
        .map(|path| graded_run_with(path, &qrels, rankings.order, threads))
        .collect::<Option<_>>()?;
    Some((qrels, runs))
}

/// Whether all files can be read several times, and no run has traces.
pub(super) fn are_regular_files(rankings: &Rankings) -> bool {
    let is_regular = |path: &Path| fs_err::metadata(path).is_ok_and(|about| about.is_file());
    judgments_file(&rankings.qrels).is_ok_and(|path| is_regular(&path))
        && rankings
            .runs
            .iter()
            .all(|path| format(path) != FileFormat::JsonLines && is_regular(path))
}

fn graded_run_with(path: &Path, qrels: &Qrels, order: OrderOptions, threads: usize) -> Option<GradedRun> {
    let format = format(path);
    let lines = |part: &Option<GradedRunPart>| part.as_ref().map_or(0, GradedRunPart::lines);
    let parts = read_parts(path, threads, lines, |number, range| {
        let mut reader = GradingReader::part(format, number, qrels, order);
        read_range(path, range, |chunk| reader.push(chunk))?;
        Ok(reader.end()?)
    });
    GradedRun::join(parts.ok()?.into_iter().collect::<Option<_>>()?, qrels)
}

pub(super) fn read_qrels(path: &Path, order: OrderOptions) -> Result<Qrels, EngineError> {
    qrels_with(path, order, threads())
}

pub(super) fn read_run(path: &Path, order: OrderOptions) -> Result<Answers, EngineError> {
    run_with(path, order, threads())
}

fn threads() -> usize {
    let cores = available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    cores.min(MAX_PARTS)
}

fn qrels_with(path: &Path, order: OrderOptions, threads: usize) -> Result<Qrels, EngineError> {
    if let Some(exported) = exported(path) {
        let lines = judgment_lines(&exported)?;
        let mut reader = QrelsReader::new(FileFormat::JsonLines);
        let read = reader.push(lines.as_bytes()).and_then(|()| reader.finish(order));
        return read.map_err(|problem| wrong(path, problem));
    }
    let path = &judgments_file(path)?;
    let format = format(path);
    let parts = read_parts(path, threads, QrelsPart::lines, |number, range| {
        let mut reader = QrelsReader::part(format, number);
        read_range(path, range, |chunk| reader.push(chunk))?;
        Ok(reader.end(order)?)
    })?;
    QrelsPart::join(parts).map_err(|problem| wrong(path, problem))
}

fn run_with(path: &Path, order: OrderOptions, threads: usize) -> Result<Answers, EngineError> {
    if let Some(exported) = exported(path) {
        let lines = answer_lines(&exported)?;
        let mut reader = RunReader::new(FileFormat::JsonLines);
        let read = reader.push(lines.as_bytes()).and_then(|()| reader.finish(order));
        return Ok(Answers {
            run: read.map_err(|problem| wrong(path, problem))?,
            traces: Vec::new(),
        });
    }
    let format = format(path);
    let tells_more = format == FileFormat::JsonLines;
    let lines = |(part, _): &(RunPart, Vec<Trace>)| part.lines();
    let parts = read_parts(path, threads, lines, |number, range| {
        let mut reader = RunReader::part(format, number);
        let mut traces = TraceReader::default();
        read_range(path, range, |chunk| {
            reader.push(chunk)?;
            if tells_more { traces.push(chunk) } else { Ok(()) }
        })?;
        Ok((reader.end(order)?, traces.finish()?))
    })?;
    let (parts, traces): (Vec<RunPart>, Vec<Vec<Trace>>) = parts.into_iter().unzip();
    Ok(Answers {
        run: RunPart::join(parts).map_err(|problem| wrong(path, problem))?,
        traces: traces.into_iter().flatten().collect(),
    })
}

/// Error while reading a part.
#[derive(Debug)]
enum Failure {
    File(EngineError),
    /// Line numbers are relative to the part.
    Content(RetrievalError),
}

impl From<RetrievalError> for Failure {
    fn from(problem: RetrievalError) -> Self {
        Self::Content(problem)
    }
}

/// Reads the parts of a file in parallel; the first failure in file order is returned.
fn read_parts<T: Send>(
    path: &Path,
    threads: usize,
    lines: impl Fn(&T) -> u64,
    read: impl Fn(u16, Option<Range<u64>>) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, EngineError> {
    let ranges = split_file(path, threads).map_err(|cause| EngineError::file("read", path, cause))?;
    let found: Vec<Result<T, Failure>> = if ranges.is_empty() {
        vec![read(0, None)]
    } else {
        let read = &read;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(ranges)
                .map(|(number, range)| scope.spawn(move || read(number, Some(range))))
                .collect();
            threads.into_iter().map(joined).collect()
        })
    };
    let (mut parts, mut before) = (Vec::with_capacity(found.len()), 0);
    for part in found {
        let part = part.map_err(|failure| match failure {
            Failure::File(error) => error,
            Failure::Content(problem) => wrong(path, problem.after(before)),
        })?;
        before += lines(&part);
        parts.push(part);
    }
    Ok(parts)
}

/// Splits a large plain file at line ends; empty if it is read in one go.
fn split_file(path: &Path, threads: usize) -> std::io::Result<Vec<Range<u64>>> {
    let format = format(path);
    let is_packed = packing(path).is_some();
    if threads < 2 || is_packed || path == Path::new("-") || !format.has_parts() {
        return Ok(Vec::new());
    }
    let mut file = fs_err::File::open(path)?;
    let about = file.metadata()?;
    let parts = (about.len() / MIN_PART_BYTES).min(threads as u64);
    if !about.is_file() || parts < 2 {
        return Ok(Vec::new());
    }
    let mut ends = Vec::new();
    for part in 1..parts {
        let wanted = about.len() / parts * part;
        file.seek(SeekFrom::Start(wanted))?;
        if let Some(rest) = until_line_end(&mut file, format.longest_line())? {
            ends.push(wanted + rest);
        }
    }
    ends.push(about.len());
    ends.dedup();
    let starts: Vec<u64> = std::iter::once(0).chain(ends.iter().copied()).collect();
    Ok(starts.iter().zip(ends).map(|(&start, end)| start..end).collect())
}

/// Returns the number of bytes up to and including the next line end; `None` if the line is too long, which
/// the parser reports.
fn until_line_end(file: &mut impl Read, longest: usize) -> std::io::Result<Option<u64>> {
    let mut buffer = [0; 4096];
    let mut passed = 0;
    while passed <= longest {
        let count = match file.read(&mut buffer) {
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0 {
            return Ok(None);
        }
        if let Some(end) = buffer[..count].iter().position(|byte| *byte == b'\n') {
            return Ok(Some((passed + end + 1) as u64));
        }
        passed += count;
    }
    Ok(None)
}

/// A Parquet export, or a run in one.
fn exported(path: &Path) -> Option<ExportedName> {
    ExportedName::parse(path.to_str()?)
}

/// Finds the judgments of a directory: BEIR's `qrels/test.tsv`, `qrels.tsv`, or the only table in `qrels`. A
/// file is returned as is.
fn judgments_file(path: &Path) -> Result<PathBuf, EngineError> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let folder = path.join("qrels");
    for known in [folder.join("test.tsv"), path.join("qrels.tsv")] {
        if known.exists() {
            return Ok(known);
        }
    }
    let failed = |cause| EngineError::file("read", &folder, cause);
    let mut tables = Vec::new();
    for entry in fs_err::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == "tsv") {
            tables.push(path);
        }
    }
    match <[PathBuf; 1]>::try_from(tables) {
        Ok([only]) => Ok(only),
        Err(tables) => Err(EngineError::WhichJudgments {
            folder: name(&folder),
            count: tables.len(),
        }),
    }
}

/// Returns the compression of a file by its name.
#[derive(Debug, Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
}

fn packing(path: &Path) -> Option<Packing> {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("gz") => Some(Packing::Gzip),
        Some("zst") => Some(Packing::Zstd),
        _ => None,
    }
}

/// Returns the format of a file by its name, compressed or not.
pub(super) fn format(path: &Path) -> FileFormat {
    let plain = match packing(path) {
        Some(_) => path.with_extension(""),
        None => path.into(),
    };
    match plain.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => FileFormat::Csv,
        Some("tsv") => FileFormat::Tsv,
        Some("jsonl") => FileFormat::JsonLines,
        _ => FileFormat::Trec,
    }
}

/// Reads a file in chunks, decompressing it according to its name; `-` is standard input.
pub(super) fn read_chunks(
    path: &Path,
    take: impl FnMut(&[u8]) -> Result<(), RetrievalError>,
) -> Result<(), EngineError> {
    read_range(path, None, take).map_err(|failure| match failure {
        Failure::File(error) => error,
        Failure::Content(problem) => wrong(path, problem),
    })
}

/// Maximum decompression ratio, beyond a minimum size; and the limit for a compressed pipe.
const MAX_RATIO: u64 = 300;
const MIN_LIMIT: u64 = 64 << 20;
const MAX_PIPE_BYTES: u64 = 64 << 30;

/// Reads a file or a part of it.
fn read_range(
    path: &Path,
    range: Option<Range<u64>>,
    mut take: impl FnMut(&[u8]) -> Result<(), RetrievalError>,
) -> Result<(), Failure> {
    let failed = |cause| Failure::File(EngineError::file("read", path, cause));
    let plain: Box<dyn Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        let mut file = fs_err::File::open(path).map_err(failed)?;
        match range {
            Some(range) => {
                file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
                Box::new(file.take(range.end - range.start))
            }
            None => Box::new(file),
        }
    };
    let packing = packing(path);
    // A file with a higher ratio cannot be a ranking.
    let mut left = match packing {
        Some(_) => fs_err::metadata(path).map_or(MAX_PIPE_BYTES, |found| {
            found.len().saturating_mul(MAX_RATIO).max(MIN_LIMIT)
        }),
        None => u64::MAX,
    };
    let mut source: Box<dyn Read> = match packing {
        Some(Packing::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(plain)),
        #[cfg(feature = "imports")]
        Some(Packing::Zstd) => Box::new(zstd::Decoder::new(plain).map_err(failed)?),
        #[cfg(not(feature = "imports"))]
        Some(Packing::Zstd) => {
            return Err(Failure::File(EngineError::Packed {
                path: path.display().to_string(),
                cause: std::io::Error::other(crate::feature_disabled("Zstandard", "imports")),
            }));
        }
        None => plain,
    };
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(cause) if packing.is_some() => {
                return Err(Failure::File(EngineError::Packed {
                    path: name(path),
                    cause,
                }));
            }
            Err(cause) => return Err(failed(cause)),
        };
        left = match left.checked_sub(count as u64) {
            Some(left) => left,
            None => {
                return Err(Failure::File(EngineError::Packed {
                    path: name(path),
                    cause: std::io::Error::other(format!(
                        "it decompresses to more than {MAX_RATIO} times its size"
                    )),
                }));
            }
        };
        take(&buffer[..count])?;
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(super) fn wrong(path: &Path, problem: RetrievalError) -> EngineError {
    EngineError::Ranking {
        name: name(path),
        problem,
    }
}

pub(super) fn name(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use satiety::retrieval::{EvaluationOptions, evaluate, evaluate_graded_run};

    use super::*;

    /// Queries whose lines are partly apart, with ties, comments and empty lines.
    fn run_of(lines: usize) -> String {
        let mut text = String::new();
        for line in 0..lines {
            let query = if line % 997 == 0 { 7 } else { line / 90 };
            let _ = writeln!(
                text,
                "query-{query} Q0 document-{line} {} {} a-long-tag-to-fill-the-file",
                line % 90,
                line % 13
            );
            if line % 1000 == 0 {
                text.push_str("\n# note\n");
            }
        }
        text
    }

    #[test]
    fn one_thread_and_many_agree() {
        let folder = tempfile::tempdir().unwrap();
        let (qrels_path, run_path) = (folder.path().join("qrels"), folder.path().join("run"));
        let text = run_of(4_000);
        fs_err::write(&run_path, &text).unwrap();
        let mut qrels = String::new();
        for line in (0..4_000).step_by(3) {
            let _ = writeln!(qrels, "query-{} 0 document-{line} {}", line / 90, line % 4);
        }
        fs_err::write(&qrels_path, &qrels).unwrap();
        let order = OrderOptions::default();
        let measures = ["map", "ndcg@10", "bpref"].map(|name| name.parse().unwrap());
        let values = |threads| {
            let qrels = qrels_with(&qrels_path, order, threads).unwrap();
            let run = run_with(&run_path, order, threads).unwrap().run;
            evaluate(&qrels, &run, &measures, &EvaluationOptions::default())
        };
        let one = values(1);
        assert!(
            split_file(&run_path, 5).unwrap().len() >= 3,
            "{} bytes",
            text.len()
        );
        for threads in [2, 3, 5] {
            assert!(values(threads) == one, "{threads} threads");
        }
    }

    #[test]
    fn graded_runs_have_the_values_of_whole_runs() {
        let folder = tempfile::tempdir().unwrap();
        let (qrels_path, run_path) = (folder.path().join("qrels"), folder.path().join("run"));
        let (mut run, mut qrels) = (String::new(), String::new());
        for line in 0..4_000 {
            let query = line / 90;
            let _ = writeln!(
                run,
                "query-{query} Q0 document-{line} {} {} a-long-tag-to-fill-the-file",
                line % 90,
                line % 13
            );
            if line % 3 == 0 {
                let _ = writeln!(qrels, "query-{query} 0 document-{line} {}", line % 4);
            }
        }
        fs_err::write(&run_path, &run).unwrap();
        fs_err::write(&qrels_path, &qrels).unwrap();
        let order = OrderOptions::default();
        let measures = ["map", "ndcg@10", "bpref"].map(|name| name.parse().unwrap());
        let options = EvaluationOptions::default();
        let qrels = qrels_with(&qrels_path, order, 1).unwrap();
        let whole = run_with(&run_path, order, 1).unwrap().run;
        let expected = evaluate(&qrels, &whole, &measures, &options);
        for threads in [1, 2, 3, 5] {
            let graded = graded_run_with(&run_path, &qrels, order, threads).unwrap();
            let found = evaluate_graded_run(&qrels, &graded, &measures, &options);
            assert!(found == expected, "{threads} threads");
        }
        // Lines of a query that are apart, duplicates and errors: the file is read as a whole.
        for wrong in [
            run_of(4_000),
            format!("{run}query-5 Q0 document-1 x\n"),
            format!("{run}query-44 Q0 document-3999 1 1 t\n"),
        ] {
            fs_err::write(&run_path, wrong).unwrap();
            for threads in [1, 3] {
                assert!(graded_run_with(&run_path, &qrels, order, threads).is_none());
            }
        }
    }

    #[test]
    fn errors_have_the_same_line_for_any_number_of_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let good = run_of(4_000);
        let long = "x".repeat(1 << 20);
        for (wrong, expected) in [
            ("query-5 Q0 document-1 x", "line 4010: expected 6 fields"),
            ("query-5 Q0 a 1 NaN t", "line 4010: score `NaN` is not a number"),
            (
                "query-43 Q0 document-3900 1 1 t",
                "line 4010: duplicate document `document-3900` for query `query-43`",
            ),
            (long.as_str(), "line 4010 is longer than 65535 bytes"),
        ] {
            fs_err::write(&path, format!("{good}\n{wrong}\n")).unwrap();
            let one = run_with(&path, OrderOptions::default(), 1)
                .unwrap_err()
                .to_string();
            for threads in [2, 3, 5] {
                let found = run_with(&path, OrderOptions::default(), threads).unwrap_err();
                assert_eq!(found.to_string(), one);
            }
            assert!(one.contains(expected), "{one}");
        }
    }

    #[test]
    fn parts_cover_the_file_and_end_at_line_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let text = run_of(4_000);
        fs_err::write(&path, &text).unwrap();
        let ranges = split_file(&path, 4).unwrap();
        let mut next = 0;
        for range in &ranges {
            assert_eq!(range.start, next);
            next = range.end;
            assert_eq!(text.as_bytes()[usize::try_from(range.end).unwrap() - 1], b'\n');
        }
        assert_eq!(next, text.len() as u64);
        assert!(split_file(&path, 1).unwrap().is_empty());
        fs_err::write(folder.path().join("run.csv"), &text).unwrap();
        assert!(split_file(&folder.path().join("run.csv"), 4).unwrap().is_empty());
    }
}
