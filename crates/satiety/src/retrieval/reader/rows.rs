//! Adds lines of tables and JSON Lines to a list. The module `tables` parses cells and values.

use super::FileFormat;
use crate::retrieval::RetrievalResult;
use crate::retrieval::builder::Builder;
use crate::retrieval::lists::Scored;
use crate::retrieval::tables::{self, AnsweredQuery, Columns, Found, JudgedQuery};

/// Parses a line of judgments; the first line of a table is its header.
pub(super) fn judgments(
    builder: &mut Builder<i32>,
    columns: &mut Option<Columns>,
    format: FileFormat,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    match (format, columns) {
        _ if line.trim_ascii().is_empty() => Ok(()),
        (FileFormat::JsonLines, _) => {
            let found: JudgedQuery = tables::json(number, line)?;
            builder.begin_query(found.query.text().as_bytes())?;
            builder.set_shared_line(number)?;
            for judgment in found.judgments {
                if let Some(relevance) = judgment.relevance {
                    builder.add(judgment.document.text().as_bytes(), relevance)?;
                }
            }
            Ok(())
        }
        (_, columns @ None) => {
            *columns = Some(Columns::of_judgments(number, text(line), separator(format))?);
            Ok(())
        }
        (_, Some(columns)) => {
            let row = columns.row(number, text(line), separator(format))?;
            let grade = row.grade(number)?;
            builder.select_query(row.query.as_bytes())?;
            builder.set_line(number)?;
            builder.add(row.document.as_bytes(), grade)
        }
    }
}

/// The line is valid UTF-8, as checked by `Lines`.
fn text(line: &[u8]) -> &str {
    std::str::from_utf8(line).unwrap_or_default()
}

/// Parses a line of a run; the first line of a table is its header.
#[expect(
    clippy::cast_possible_truncation,
    reason = "trec_eval compares 32-bit scores; ranks are counted"
)]
pub(super) fn results(
    builder: &mut Builder<Scored>,
    unranked: &mut Option<u64>,
    columns: &mut Option<Columns>,
    format: FileFormat,
    number: u64,
    line: &[u8],
) -> RetrievalResult<()> {
    match (format, columns) {
        _ if line.trim_ascii().is_empty() => Ok(()),
        (FileFormat::JsonLines, _) => {
            let found: AnsweredQuery = tables::json(number, line)?;
            builder.begin_query(found.query.text().as_bytes())?;
            builder.set_shared_line(number)?;
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
            *columns = Some(Columns::of_run(number, text(line), separator(format))?);
            Ok(())
        }
        (_, Some(columns)) => {
            let row = columns.row(number, text(line), separator(format))?;
            let score = row.score(number)? as f32;
            let rank = row.rank().unwrap_or_else(|| {
                unranked.get_or_insert(number);
                u32::MAX
            });
            builder.select_query(row.query.as_bytes())?;
            builder.set_line(number)?;
            builder.add(row.document.as_bytes(), Scored { score, rank })
        }
    }
}

fn separator(format: FileFormat) -> char {
    if format == FileFormat::Tsv { '\t' } else { ',' }
}
