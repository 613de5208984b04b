//! Judgments and runs from bytes that come piece by piece. In the form of `trec_eval`, fields stand between any white
//! space, lines end with LF or CRLF, empty lines and lines that begin with `#` are left out; tables and JSON Lines are
//! in `tables`. At most one line is kept back.

use super::lists::{Builder, OrderOptions, Qrels, Run, Scored};
use super::tables::{self, AnsweredQuery, Columns, Found, JudgedQuery};
use super::{RetrievalError, RetrievalResult, score};

/// The most bytes of a line. Ids are kept with 16-bit lengths, and no honest line comes near.
const LONGEST_LINE: usize = 65_535;
/// A line of JSON has all judgments or results of a query.
const LONGEST_JSON_LINE: usize = 16 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// As `trec_eval` reads it.
    #[default]
    Trec,
    /// With commas and a header.
    Csv,
    /// With tabs and a header, as in BEIR.
    Tsv,
    /// A query a line, as JSON.
    JsonLines,
}

impl FileFormat {
    pub(super) fn separator(self) -> char {
        if self == Self::Tsv { '\t' } else { ',' }
    }

    pub(super) fn lines(self) -> Lines {
        Lines {
            longest: if self == Self::JsonLines {
                LONGEST_JSON_LINE
            } else {
                LONGEST_LINE
            },
            ..Lines::default()
        }
    }
}

/// Reads judgments: `query iteration document grade`.
#[derive(Debug)]
pub struct QrelsReader {
    format: FileFormat,
    lines: Lines,
    builder: Builder<i32>,
    columns: Option<Columns>,
}

impl QrelsReader {
    /// For files as `trec_eval` reads them.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// For files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self {
            format,
            lines: format.lines(),
            builder: Builder::default(),
            columns: None,
        }
    }

    /// Takes the next piece of the file, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        let (builder, columns, format) = (&mut self.builder, &mut self.columns, self.format);
        self.lines.push(bytes, |number, line| {
            judgments(builder, columns, format, number, line)
        })
    }

    /// The judgments, once the file has ended.
    pub fn finish(mut self, options: OrderOptions) -> RetrievalResult<Qrels> {
        let (builder, columns, format) = (&mut self.builder, &mut self.columns, self.format);
        self.lines
            .finish(|number, line| judgments(builder, columns, format, number, line))?;
        self.builder.finish(options.dedup)
    }
}

/// A line of any format.
fn judgments(
    builder: &mut Builder<i32>,
    columns: &mut Option<Columns>,
    format: FileFormat,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    match (format, columns) {
        (FileFormat::Trec, _) => judgment(builder, number, line),
        _ if line.trim_ascii().is_empty() => Ok(()),
        (FileFormat::JsonLines, _) => {
            let found: JudgedQuery = tables::json(number, line)?;
            builder.begin(found.query.text().as_bytes())?;
            for judgment in found.judgments {
                if let Some(relevance) = judgment.relevance {
                    builder.add(judgment.document.text().as_bytes(), relevance)?;
                }
            }
            Ok(())
        }
        (_, columns @ None) => {
            *columns = Some(Columns::of_judgments(number, text(line), format.separator())?);
            Ok(())
        }
        (_, Some(columns)) => {
            let row = columns.row(number, text(line), format.separator())?;
            let grade = row.grade(number)?;
            builder.belong_to(row.query.as_bytes())?;
            builder.add(row.document.as_bytes(), grade)
        }
    }
}

/// Lines are checked before they are given out.
fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap_or_default()
}

/// Reads a run: `query Q0 document rank score tag`.
#[derive(Debug)]
pub struct RunReader {
    format: FileFormat,
    lines: Lines,
    builder: Builder<Scored>,
    columns: Option<Columns>,
    /// The first line whose rank is no number, which matters only when ranks are asked for.
    unranked: Option<u64>,
}

impl RunReader {
    /// For files as `trec_eval` reads them.
    pub fn trec() -> Self {
        Self::new(FileFormat::Trec)
    }

    /// For files of a format.
    pub fn new(format: FileFormat) -> Self {
        Self {
            format,
            lines: format.lines(),
            builder: Builder::default(),
            columns: None,
            unranked: None,
        }
    }

    /// Takes the next piece of the file, cut anywhere.
    pub fn push(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        let (builder, unranked) = (&mut self.builder, &mut self.unranked);
        if self.format == FileFormat::Trec {
            // By itself, because runs are what takes time.
            return self
                .lines
                .push(bytes, |number, line| result(builder, unranked, number, line));
        }
        let (columns, format) = (&mut self.columns, self.format);
        self.lines.push(bytes, |number, line| {
            results(builder, unranked, columns, format, number, line)
        })
    }

    /// The run, once the file has ended: sorted, and without documents that come twice.
    pub fn finish(mut self, options: OrderOptions) -> RetrievalResult<Run> {
        let (builder, unranked) = (&mut self.builder, &mut self.unranked);
        let (columns, format) = (&mut self.columns, self.format);
        self.lines
            .finish(|number, line| results(builder, unranked, columns, format, number, line))?;
        if let (Some(line), super::Ties::Rank) = (self.unranked, options.ties) {
            return Err(RetrievalError::at(line, "the rank is no whole number"));
        }
        self.builder.finish(options)
    }
}

/// A line of any format.
#[expect(
    clippy::cast_possible_truncation,
    reason = "trec_eval compares 32-bit scores; ranks are counted"
)]
fn results(
    builder: &mut Builder<Scored>,
    unranked: &mut Option<u64>,
    columns: &mut Option<Columns>,
    format: FileFormat,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    match (format, columns) {
        (FileFormat::Trec, _) => result(builder, unranked, number, line),
        _ if line.trim_ascii().is_empty() => Ok(()),
        (FileFormat::JsonLines, _) => {
            let found: AnsweredQuery = tables::json(number, line)?;
            builder.begin(found.query.text().as_bytes())?;
            for (index, found) in found.results.into_iter().enumerate() {
                let (document, score) = match found {
                    Found::Listed(document) => (document, None),
                    Found::Scored { document, score } => (document, score),
                };
                let score = score.unwrap_or(-(index as f64)) as f32;
                let rank = index as u32 + 1;
                builder.add(document.text().as_bytes(), Scored { score, rank })?;
            }
            Ok(())
        }
        (_, columns @ None) => {
            *columns = Some(Columns::of_run(number, text(line), format.separator())?);
            Ok(())
        }
        (_, Some(columns)) => {
            let row = columns.row(number, text(line), format.separator())?;
            let score = row.score(number)? as f32;
            let rank = row.rank().unwrap_or_else(|| {
                unranked.get_or_insert(number);
                u32::MAX
            });
            builder.belong_to(row.query.as_bytes())?;
            builder.add(row.document.as_bytes(), Scored { score, rank })
        }
    }
}

fn judgment(builder: &mut Builder<i32>, number: u64, line: &[u8]) -> RetrievalResult<()> {
    let mut fields = Fields(line);
    let Some(query) = fields.next() else { return Ok(()) };
    if query[0] == b'#' {
        return Ok(());
    }
    let (Some(_iteration), Some(document), Some(grade), None) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(RetrievalError::at(
            number,
            format!(
                "{} instead of 4 (query, iteration, document, grade)",
                count_of_fields(line)
            ),
        ));
    };
    let grade = std::str::from_utf8(grade)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| {
            let text = String::from_utf8_lossy(grade);
            RetrievalError::at(number, format!("the grade `{text}` is no whole number"))
        })?;
    builder.belong_to(query)?;
    builder.add(document, grade)
}

#[inline]
fn result(
    builder: &mut Builder<Scored>,
    unranked: &mut Option<u64>,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    let current = builder.current();
    let (query, mut fields) = match line.strip_prefix(current) {
        // Most lines begin like the one before.
        Some(rest) if !current.is_empty() && rest.first().is_some_and(|byte| is_space(*byte)) => {
            (None, Fields(rest))
        }
        _ => {
            let mut fields = Fields(line);
            let Some(query) = fields.next() else { return Ok(()) };
            if query[0] == b'#' {
                return Ok(());
            }
            (Some(query), fields)
        }
    };
    let (Some(_q0), Some(document), Some(rank), Some(text)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(wrong_width(number, line));
    };
    // The tag may be missing, but nothing may follow it.
    if fields.next().is_some() && fields.next().is_some() {
        return Err(wrong_width(number, line));
    }
    let score = match score::parse(text) {
        Some(score) if !score.is_nan() => score,
        _ => {
            let text = String::from_utf8_lossy(text);
            return Err(RetrievalError::at(
                number,
                format!("the score `{text}` is no number"),
            ));
        }
    };
    let rank = whole(rank).unwrap_or_else(|| {
        unranked.get_or_insert(number);
        u32::MAX
    });
    if let Some(query) = query {
        builder.belong_to(query)?;
    }
    #[expect(clippy::cast_possible_truncation, reason = "trec_eval compares 32-bit scores")]
    let score = score as f32;
    builder.add(document, Scored { score, rank })
}

#[cold]
fn wrong_width(number: u64, line: &[u8]) -> RetrievalError {
    RetrievalError::at(
        number,
        format!(
            "{} instead of 6 (query, Q0, document, rank, score, tag)",
            count_of_fields(line)
        ),
    )
}

fn count_of_fields(line: &[u8]) -> String {
    match Fields(line).count() {
        1 => "1 field".into(),
        count => format!("{count} fields"),
    }
}

#[inline]
fn whole(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    text.iter().try_fold(0_u32, |value, byte| match byte {
        b'0'..=b'9' => Some(value * 10 + u32::from(byte - b'0')),
        _ => None,
    })
}

/// Fields between white space, as C's `isspace` has it.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| !is_space(*byte))?;
        let rest = &self.0[start..];
        let end = rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(end);
        self.0 = rest;
        Some(field)
    }
}

#[inline]
fn is_space(byte: u8) -> bool {
    // Most bytes are above all of them, which one comparison tells.
    byte <= b' ' && matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Cuts bytes into lines and checks that they are text.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// Lines that are done.
    done: u64,
    /// The most bytes of a line.
    longest: usize,
}

impl Lines {
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(u64, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        if !self.begun.is_empty() {
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                return self.keep(bytes);
            };
            self.keep(&bytes[..end])?;
            let line = std::mem::take(&mut self.begun);
            self.block(&line, &mut each)?;
            bytes = &bytes[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |end| end + 1);
        let (block, rest) = bytes.split_at(whole);
        if let Some(block) = block.strip_suffix(b"\n") {
            self.block(block, &mut each)?;
        }
        self.keep(rest)
    }

    pub(super) fn finish(
        &mut self,
        mut each: impl FnMut(u64, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        let line = std::mem::take(&mut self.begun);
        if line.is_empty() {
            return Ok(());
        }
        self.block(&line, &mut each)
    }

    /// Whole lines, without the end of the last.
    fn block(
        &mut self,
        block: &[u8],
        each: &mut impl FnMut(u64, &[u8]) -> RetrievalResult<()>,
    ) -> RetrievalResult<()> {
        if let Err(error) = std::str::from_utf8(block) {
            let before = memchr::memchr_iter(b'\n', &block[..error.valid_up_to()]).count();
            return Err(RetrievalError::at(
                self.done + before as u64 + 1,
                "not UTF-8 text",
            ));
        }
        let mut start = 0;
        let ends = memchr::memchr_iter(b'\n', block).chain([block.len()]);
        for end in ends {
            self.done += 1;
            let mut line = &block[start..end];
            start = end + 1;
            if line.len() > self.longest {
                return Err(self.long(self.done));
            }
            if self.done == 1 {
                // Some editors mark UTF-8 with three bytes that belong to no id.
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            each(self.done, line)?;
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> RetrievalResult<()> {
        if self.begun.len() + bytes.len() > self.longest {
            return Err(self.long(self.done + 1));
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }

    fn long(&self, line: u64) -> RetrievalError {
        RetrievalError::LongLine {
            line,
            limit: self.longest,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::retrieval::{Dedup, Ties};

    fn run(text: &str, options: OrderOptions) -> RetrievalResult<Run> {
        let mut reader = RunReader::trec();
        reader.push(text.as_bytes())?;
        reader.finish(options)
    }

    fn qrels(text: &str) -> RetrievalResult<Qrels> {
        let mut reader = QrelsReader::trec();
        reader.push(text.as_bytes())?;
        reader.finish(OrderOptions::default())
    }

    fn documents(run: &Run, query: &str) -> Vec<String> {
        run.documents(query).map(Into::into).collect()
    }

    #[test]
    fn white_space_line_ends_comments_and_a_mark_do_not_matter() {
        let plain = qrels("q1 0 a 1\nq2 0 b 0\n").unwrap();
        let odd = qrels("\u{feff}q1\t0  a\u{b}1\r\n\r\n# note 1 2 3\n   \nq2 0 b 0").unwrap();
        for found in [plain, odd] {
            assert_eq!((found.queries(), found.len()), (2, 2));
            assert_eq!((found.query(0), found.query(1)), ("q1", "q2"));
            assert_eq!(found.grade("q1", "a"), Some(1));
            assert_eq!(found.grade("q2", "b"), Some(0));
            assert_eq!(found.grade("q2", "a"), None);
            assert_eq!(found.grade("q3", "a"), None);
        }
    }

    #[test]
    fn equal_scores_go_by_id_from_the_end_or_by_rank() {
        let text = "q Q0 a 3 1.0 t\nq Q0 c 2 1.0 t\nq Q0 b 1 1.0 t\nq Q0 d 4 2.0 t\n";
        let trec = run(text, OrderOptions::default()).unwrap();
        assert_eq!(documents(&trec, "q"), ["d", "c", "b", "a"]);
        let ranked = OrderOptions {
            ties: Ties::Rank,
            ..OrderOptions::default()
        };
        assert_eq!(documents(&run(text, ranked).unwrap(), "q"), ["d", "b", "c", "a"]);
        assert_eq!(documents(&trec, "other"), Vec::<String>::new());
    }

    #[test]
    fn scores_that_are_equal_as_32_bit_floats_are_ties() {
        let text = "q Q0 a 1 1.00000002 t\nq Q0 b 2 1.00000001 t\n";
        assert_eq!(
            documents(&run(text, OrderOptions::default()).unwrap(), "q"),
            ["b", "a"]
        );
    }

    #[test]
    fn lines_of_a_query_may_stand_apart() {
        let text = "q1 Q0 a 1 1 t\nq2 Q0 a 1 1 t\nq1 Q0 b 2 3 t\nq2 Q0 c 1 0 t\nq1 Q0 c 3 2 t";
        let run = run(text, OrderOptions::default()).unwrap();
        assert_eq!(documents(&run, "q1"), ["b", "c", "a"]);
        assert_eq!(documents(&run, "q2"), ["a", "c"]);
    }

    #[test]
    fn a_document_twice_is_refused_or_kept_once() {
        let text = "q Q0 a 1 1 t\nq Q0 b 2 2 t\nq Q0 a 3 3 t\n";
        let error = run(text, OrderOptions::default()).unwrap_err();
        assert_eq!(error.to_string(), "query `q` has document `a` twice");
        let first = OrderOptions {
            dedup: Dedup::First,
            ..OrderOptions::default()
        };
        assert_eq!(documents(&run(text, first).unwrap(), "q"), ["a", "b"]);
        assert_eq!(
            qrels("q 0 a 1\nq 0 a 1\n").unwrap_err().to_string(),
            "query `q` has document `a` twice"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| run(text, OrderOptions::default()).unwrap_err().to_string();
        let good = "q Q0 a 1 1 t\n";
        assert_eq!(
            told(&format!("{good}\nq Q0 b\n")),
            "line 3: 3 fields instead of 6 (query, Q0, document, rank, score, tag)"
        );
        assert_eq!(
            told(&format!("{good}q Q0 b 1 2 t u")),
            "line 2: 7 fields instead of 6 (query, Q0, document, rank, score, tag)"
        );
        assert_eq!(
            told(&format!("{good}q Q0 b 1 NaN t")),
            "line 2: the score `NaN` is no number"
        );
        assert_eq!(
            told(&format!("{good}q Q0 b 1 2,5 t")),
            "line 2: the score `2,5` is no number"
        );
        assert_eq!(told("\n# only a comment\n"), "there is nothing in it");
        assert_eq!(
            qrels("q 0 a 1\nq 0 b high\n").unwrap_err().to_string(),
            "line 2: the grade `high` is no whole number"
        );
        assert_eq!(
            qrels("q 0 a\n").unwrap_err().to_string(),
            "line 1: 3 fields instead of 4 (query, iteration, document, grade)"
        );
        let ranked = OrderOptions {
            ties: Ties::Rank,
            ..OrderOptions::default()
        };
        let text = format!("{good}q Q0 b first 2 t\nq Q0 c second 2 t");
        assert_eq!(
            run(&text, ranked).unwrap_err().to_string(),
            "line 2: the rank is no whole number"
        );
        assert_eq!(run(&text, OrderOptions::default()).unwrap().len(), 3);
    }

    #[test]
    fn bytes_that_are_no_text_and_endless_lines_are_refused() {
        let mut reader = RunReader::trec();
        let error = reader
            .push(b"q Q0 a 1 1 t\nq Q0 \xff 1 1 t\nq Q0 c 1 1 t\n")
            .unwrap_err();
        assert_eq!(error.to_string(), "line 2: not UTF-8 text");
        let mut reader = RunReader::trec();
        reader.push(b"q Q0 a 1 1 t\n").unwrap();
        let error = (0..100).find_map(|_| reader.push(&[b'x'; 1000]).err()).unwrap();
        assert_eq!(error.to_string(), "line 2 is longer than 65535 bytes");
        let mut reader = RunReader::trec();
        let mut long = vec![b'x'; 70_000];
        long.push(b'\n');
        assert!(matches!(
            reader.push(&long),
            Err(RetrievalError::LongLine { line: 1, .. })
        ));
    }

    #[test]
    fn tables_and_json_lines_say_the_same_as_plain_lines() {
        let read = |format, text: &str| {
            let mut reader = QrelsReader::new(format);
            reader.push(text.as_bytes()).unwrap();
            let found = reader.finish(OrderOptions::default()).unwrap();
            let of = |query| {
                found
                    .judgments(query)
                    .map(|(id, grade)| (id.to_owned(), grade))
                    .collect()
            };
            let lists: Vec<Vec<(String, i32)>> = (0..found.queries()).map(of).collect();
            lists
        };
        let expected = read(FileFormat::Trec, "q1 0 a 3\nq1 0 7 0\nq2 0 b 1\n");
        let beir = "query-id\tcorpus-id\tscore\nq1\ta\t3\r\nq1\t7\t0\n\nq2\tb\t1";
        assert_eq!(read(FileFormat::Tsv, beir), expected);
        let csv = "relevance,doc_id,query_id\n3,\"a\",q1\n0,7,q1\n1,b,\"q2\"\n";
        assert_eq!(read(FileFormat::Csv, csv), expected);
        let json = r#"{"queryId": "q1", "query": "why?", "intent": "find_decision", "category": "causal-query",
            "judgments": [{"memoryId": "a", "relevance": 3, "annotator": "x"}, {"memoryId": 7, "relevance": 0}],
            "judgmentSource": "manual", "harvestedAt": null}"#
            .replace('\n', " ");
        let json = json + "\n" + r#"{"queryId": "q2", "judgments": [{"memoryId": "b", "relevance": 1}]}"#;
        assert_eq!(read(FileFormat::JsonLines, &json), expected);

        let read = |format, text: &str| {
            let mut reader = RunReader::new(format);
            reader.push(text.as_bytes()).unwrap();
            documents(&reader.finish(OrderOptions::default()).unwrap(), "q")
        };
        let expected = ["c,d", "b", "a"];
        assert_eq!(
            read(FileFormat::Csv, "qid,docid,score\nq,a,1\nq,\"c,d\",3\nq,b,2\n"),
            expected
        );
        assert_eq!(
            read(
                FileFormat::JsonLines,
                r#"{"queryId": "q", "results": ["c,d", "b", "a"]}"#
            ),
            expected
        );
        let scored =
            r#"{"queryId": "q", "results": [{"memoryId": "a", "score": 1}, {"memoryId": "c,d", "score": 3},
            {"memoryId": "b", "score": 2}]}"#
                .replace('\n', " ");
        assert_eq!(read(FileFormat::JsonLines, &scored), expected);
    }

    #[test]
    fn what_is_wrong_in_a_table_is_told_with_its_line() {
        let told = |format, text: &str| {
            let mut reader = QrelsReader::new(format);
            let pushed = reader.push(text.as_bytes());
            pushed
                .and_then(|()| reader.finish(OrderOptions::default()))
                .unwrap_err()
                .to_string()
        };
        for (text, expected) in [
            ("a,b,c\n", "line 1: the header names no column for the query"),
            (
                "qid,docid,rel\nq,a\n",
                "line 2: 2 columns, and the header has at least 3",
            ),
            (
                "qid,docid,rel\nq,a,1.5\n",
                "line 2: the grade `1.5` is no whole number",
            ),
            (
                "qid,docid,rel\n\"q,a,1\n",
                "line 2: a quotation mark is never closed",
            ),
            (
                "qid,docid,rel\n\"q\"x,a,1\n",
                "line 2: text follows a closing quotation mark",
            ),
            (
                "qid,docid,rel\n,a,1\n",
                "line 2: the query or the document is empty",
            ),
            ("qid,docid,rel\n", "there is nothing in it"),
        ] {
            let found = told(FileFormat::Csv, text);
            assert!(found.starts_with(expected), "{found}");
        }
        let found = told(
            FileFormat::JsonLines,
            "\n{\"queryId\": \"q\", \"judgments\": [{\"memoryId\": 1, \"relevance\": \"high\"}]}",
        );
        assert!(
            found.starts_with("line 2: judgments[0].relevance: invalid type: string \"high\""),
            "{found}"
        );
        assert!(told(FileFormat::JsonLines, "{").starts_with("line 1: "));
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_does_not_matter(
            rows in proptest::collection::vec((0_u8..4, 0_u16..500, -100_i32..100), 1..60),
            piece in 1_usize..50,
        ) {
            use std::fmt::Write;
            let mut text = String::new();
            for (index, (query, document, score)) in rows.iter().enumerate() {
                let _ = writeln!(text, "q{query} Q0 d{document}x{index} {index} {score} tag");
            }
            let whole = run(&text, OrderOptions::default()).unwrap();
            let mut reader = RunReader::trec();
            for piece in text.as_bytes().chunks(piece) {
                reader.push(piece).unwrap();
            }
            let pieces = reader.finish(OrderOptions::default()).unwrap();
            for query in ["q0", "q1", "q2", "q3"] {
                prop_assert_eq!(documents(&whole, query), documents(&pieces, query));
            }
            prop_assert_eq!(whole.len(), rows.len());
        }
    }
}
