//! The line format of `trec_eval`: fields are separated by any whitespace, lines end with LF or CRLF, empty
//! lines and lines that begin with `#` are ignored. A fast path parses lines with single separators eight
//! bytes at a time; all other lines, including invalid ones, take the slow path.

use super::lines::Count;
use crate::retrieval::builder::{Builder, Value};
use crate::retrieval::fast_parse::{self, Ends};
use crate::retrieval::lists::Scored;
use crate::retrieval::{RetrievalError, RetrievalResult, score};

/// Parses a block of lines as judgments.
pub(super) fn judgments(
    builder: &mut Builder<i32>,
    lines: &mut Count,
    ends: &mut Ends,
    block: &[u8],
) -> RetrievalResult<()> {
    let mut last = Last::default();
    let mut cursor = Cursor::new(ends, block);
    while !cursor.is_done() {
        let plain = cursor.plain::<4>().and_then(|plain| {
            let grade = grade_within(block, plain.start(3), plain.ends[3])?;
            Some((grade, plain))
        });
        let start = cursor.start;
        let Some((grade, plain)) = plain else {
            let line = cursor.skip();
            let number = lines.next(line.len())?;
            last = Last::default();
            judgment(builder, number, line)?;
            continue;
        };
        let number = lines.next(plain.next - start - 1)?;
        last.select_query(builder, block, start, plain.ends[0])?;
        builder.set_line(number)?;
        builder.add_within(block, plain.start(2), plain.ends[2], grade)?;
        cursor.pass(&plain);
    }
    Ok(())
}

/// Parses a block of lines as results; sets `unranked` to the first line whose rank is not an integer.
pub(super) fn results(
    builder: &mut Builder<Scored>,
    unranked: &mut Option<u64>,
    lines: &mut Count,
    ends: &mut Ends,
    block: &[u8],
) -> RetrievalResult<()> {
    let mut last = Last::default();
    let mut cursor = Cursor::new(ends, block);
    while !cursor.is_done() {
        let plain = cursor.plain::<6>().and_then(|plain| {
            let rank = fast_parse::digits(
                fast_parse::word(block, plain.start(3)),
                plain.ends[3] - plain.start(3),
            )?;
            let score = score::parse_within(block, plain.start(4)..plain.ends[4])?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "eight digits; trec_eval compares 32-bit scores"
            )]
            let scored = Scored {
                score: score as f32,
                rank: rank as u32,
            };
            (!score.is_nan()).then_some((scored, plain))
        });
        let start = cursor.start;
        let Some((scored, plain)) = plain else {
            let line = cursor.skip();
            let number = lines.next(line.len())?;
            last = Last::default();
            result(builder, unranked, number, line)?;
            continue;
        };
        let number = lines.next(plain.next - start - 1)?;
        last.select_query(builder, block, start, plain.ends[0])?;
        builder.set_line(number)?;
        builder.add_within(block, plain.start(2), plain.ends[2], scored)?;
        cursor.pass(&plain);
    }
    Ok(())
}

/// A line for the fast path: fields separated by a single space or tab.
struct Plain<const N: usize> {
    ends: [usize; N],
    /// Start of the next line.
    next: usize,
    /// Number of field ends in the line.
    count: usize,
}

impl<const N: usize> Plain<N> {
    /// Start of a field other than the first.
    #[inline]
    fn start(&self, field: usize) -> usize {
        self.ends[field - 1] + 1
    }
}

/// Position in a block of lines.
struct Cursor<'a> {
    block: &'a [u8],
    /// Remaining field ends.
    ends: &'a [u32],
    /// Start of the current line.
    start: usize,
}

impl<'a> Cursor<'a> {
    fn new(ends: &'a mut Ends, block: &'a [u8]) -> Self {
        Self {
            block,
            ends: ends.find(block),
            start: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.start > self.block.len()
    }

    /// The current line, if it qualifies for the fast path.
    #[inline]
    fn plain<const N: usize>(&self) -> Option<Plain<N>> {
        let ends = self.ends.first_chunk::<N>()?.map(|end| end as usize);
        let mut start = self.start;
        let mut fits = self.block.get(start) != Some(&b'#');
        for (field, &end) in ends.iter().enumerate() {
            fits &= end > start;
            fits &= field + 1 == N || matches!(self.block.get(end), Some(b' ' | b'\t'));
            start = end + 1;
        }
        let (next, count) = match self.block.get(ends[N - 1]) {
            Some(b'\n') | None => (start, N),
            Some(b'\r') if matches!(self.block.get(start), Some(b'\n') | None) => (start + 1, N + 1),
            _ => return None,
        };
        fits.then_some(Plain { ends, next, count })
    }

    #[inline]
    fn pass<const N: usize>(&mut self, plain: &Plain<N>) {
        self.start = plain.next;
        self.ends = self.ends.get(plain.count..).unwrap_or_default();
    }

    /// Returns the current line and moves to the next one.
    fn skip(&mut self) -> &'a [u8] {
        let rest = &self.block[self.start..];
        let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
        self.start += line.len() + 1;
        let passed = self
            .ends
            .iter()
            .take_while(|end| (**end as usize) < self.start)
            .count();
        self.ends = &self.ends[passed..];
        line
    }
}

/// A short query id of the last fast-path line: most lines have the same query as the line before.
#[derive(Default)]
struct Last {
    head: u64,
    length: usize,
}

impl Last {
    #[inline]
    fn select_query<T: Value>(
        &mut self,
        builder: &mut Builder<T>,
        block: &[u8],
        start: usize,
        end: usize,
    ) -> RetrievalResult<()> {
        let length = end - start;
        let head = fast_parse::first(fast_parse::word(block, start), length);
        if length <= 8 && length == self.length && head == self.head {
            return Ok(());
        }
        *self = Self { head, length };
        builder.select_query(&block[start..end])
    }
}

#[inline]
fn grade_within(block: &[u8], start: usize, end: usize) -> Option<i32> {
    let negative = block.get(start) == Some(&b'-');
    let start = start + usize::from(negative);
    let value = fast_parse::digits(fast_parse::word(block, start), end - start)?;
    let value = i32::try_from(value).ok()?;
    Some(if negative { -value } else { value })
}

/// Parses a line of judgments on the slow path.
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
                "expected 4 fields (query, iteration, document, grade), got {}",
                Fields(line).count()
            ),
        ));
    };
    let grade = std::str::from_utf8(grade)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| {
            let text = String::from_utf8_lossy(grade);
            RetrievalError::at(number, format!("grade `{text}` is not an integer"))
        })?;
    builder.select_query(query)?;
    builder.set_line(number)?;
    builder.add(document, grade)
}

/// Parses a line of a run on the slow path.
fn result(
    builder: &mut Builder<Scored>,
    unranked: &mut Option<u64>,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    let mut fields = Fields(line);
    let Some(query) = fields.next() else { return Ok(()) };
    if query[0] == b'#' {
        return Ok(());
    }
    let (Some(_q0), Some(document), Some(rank), Some(text)) =
        (fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(wrong_width(number, line));
    };
    // The tag is optional, but must be the last field.
    if fields.next().is_some() && fields.next().is_some() {
        return Err(wrong_width(number, line));
    }
    let score = match score::parse(text) {
        Some(score) if !score.is_nan() => score,
        _ => {
            let text = String::from_utf8_lossy(text);
            return Err(RetrievalError::at(
                number,
                format!("score `{text}` is not a number"),
            ));
        }
    };
    let rank = parse_rank(rank).unwrap_or_else(|| {
        unranked.get_or_insert(number);
        u32::MAX
    });
    builder.select_query(query)?;
    builder.set_line(number)?;
    #[expect(clippy::cast_possible_truncation, reason = "trec_eval compares 32-bit scores")]
    let score = score as f32;
    builder.add(document, Scored { score, rank })
}

#[cold]
fn wrong_width(number: u64, line: &[u8]) -> RetrievalError {
    RetrievalError::at(
        number,
        format!(
            "expected 6 fields (query, Q0, document, rank, score, tag), got {}",
            Fields(line).count()
        ),
    )
}

#[inline]
fn parse_rank(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    text.iter().try_fold(0_u32, |value, byte| match byte {
        b'0'..=b'9' => Some(value * 10 + u32::from(byte - b'0')),
        _ => None,
    })
}

/// Fields separated by whitespace as defined by `isspace` in C.
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
    // One comparison rejects most bytes.
    byte <= b' ' && matches!(byte, b' ' | b'\t'..=b'\r')
}
