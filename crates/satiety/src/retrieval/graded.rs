//! Runs that are graded while they are read: the results of a query are compared with the judgments as soon as
//! its lines have ended, and only the grades are kept. A run of ten million lines takes a tenth of the memory.
//!
//! This requires files whose lines are grouped by query and without duplicate documents. Other files are
//! refused without an explanation, see [`GradedRun::join`]: callers then read them as a whole, which also
//! reports errors with their lines.

use super::builder::Builder;
use super::index::{Index, Queries};
use super::lists::{OrderOptions, Qrels, Run, Scored};
use super::reader::RunPart;

/// Code of a result without a judgment.
const UNJUDGED: i16 = i16::MIN;

/// A run as grades of its results, best result first.
#[derive(Debug)]
pub struct GradedRun {
    /// All queries; only those at the ends of the parts of the file have lists.
    pub(super) rest: Run,
    grades: Vec<Vec<i16>>,
    /// By position of the query in the judgments: part, begin and end of its grades.
    places: Vec<Option<(u32, u32, u32)>>,
}

impl GradedRun {
    /// Joins the parts of a file, in file order. `None` if the run has to be read as a whole.
    pub fn join(parts: Vec<GradedRunPart>, qrels: &Qrels) -> Option<Self> {
        let mut places = vec![None; qrels.queries()];
        let (mut grades, mut rest) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        let mut others = Queries::default();
        for (number, part) in (0_u32..).zip(parts) {
            for (query, begin, end) in part.graded.lists {
                let place = places.get_mut(query as usize)?;
                if place.replace((number, begin, end)).is_some() {
                    return None;
                }
            }
            for position in 0..part.graded.unknown.len() {
                let known = others.len();
                others.intern(part.graded.unknown.bytes(position)).ok()?;
                if others.len() == known {
                    return None;
                }
            }
            grades.push(part.graded.values);
            rest.push(part.rest);
        }
        let rest = RunPart::join(rest).ok()?;
        let lists = rest.lists();
        for position in (0..rest.queries()).filter(|position| !lists.list(*position).is_empty()) {
            let name = lists.queries.bytes(position);
            let judged = qrels.lists().queries.position(name);
            if others.position(name).is_some() || judged.is_some_and(|judged| places[judged].is_some()) {
                return None;
            }
        }
        Some(Self { rest, grades, places })
    }

    /// Grades of the results of the query at a position of the judgments, `None` for those without a judgment;
    /// absent if the query was not graded.
    pub(super) fn grades(&self, query: usize) -> Option<impl Iterator<Item = Option<i32>>> {
        let (part, begin, end) = self.places.get(query).copied().flatten()?;
        let codes = &self.grades[part as usize][begin as usize..end as usize];
        Some(
            codes
                .iter()
                .map(|code| (*code != UNJUDGED).then(|| i32::from(*code))),
        )
    }
}

/// A part of a [`GradedRun`].
#[derive(Debug)]
pub struct GradedRunPart {
    pub(super) graded: Grades,
    /// The first and the last query of the part, which others may continue.
    pub(super) rest: RunPart,
}

impl GradedRunPart {
    /// Number of lines of the part.
    pub fn lines(&self) -> u64 {
        self.rest.lines()
    }
}

/// Grades of the queries of a part that are complete.
#[derive(Debug, Default)]
pub(super) struct Grades {
    /// Position in the judgments, begin and end in `values`.
    lists: Vec<(u32, u32, u32)>,
    values: Vec<i16>,
    /// Queries without judgments.
    unknown: Queries,
    results: Index,
    judged: Index,
}

impl Grades {
    /// Grades the queries of a builder that are complete, except the first, and removes their results. `None`
    /// if the run has to be read as a whole.
    pub(super) fn take_complete(
        &mut self,
        builder: &mut Builder<Scored>,
        qrels: &Qrels,
        options: OrderOptions,
    ) -> Option<()> {
        let lists = qrels.lists();
        let (unknown, grades) = (&mut self.unknown, &mut self.values);
        let (judged, found) = (&mut self.judged, &mut self.lists);
        builder.take_complete(options, &mut self.results, |name, items, ids| {
            let Some(query) = lists.queries.position(name) else {
                let known = unknown.len();
                unknown.intern(name).ok()?;
                // A query that occurs again may have duplicates.
                return (unknown.len() > known).then_some(());
            };
            let judgments = lists.list(query);
            judged.clear(judgments.len());
            for (at, item) in judgments.iter().enumerate() {
                judged.find_or_add(item.hash, at, |_| false);
            }
            let begin = u32::try_from(grades.len()).ok()?;
            for item in items {
                let id = item.id(ids);
                let grade = judged
                    .find(item.hash, |at| lists.id(&judgments[at]) == id)
                    .map(|at| judgments[at].value);
                let code = match grade {
                    None => UNJUDGED,
                    Some(grade) => i16::try_from(grade).ok().filter(|code| *code != UNJUDGED)?,
                };
                grades.push(code);
            }
            found.push((
                u32::try_from(query).ok()?,
                begin,
                u32::try_from(grades.len()).ok()?,
            ));
            Some(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::super::{Dedup, EvaluationOptions, Measure, QrelsReader, RunReader, Ties, Unjudged, evaluate};
    use super::super::{FileFormat, evaluate_graded_run};
    use super::*;

    /// Reads a run in parts and chunks, graded.
    fn graded(parts: &[&str], chunk: usize, qrels: &Qrels, order: OrderOptions) -> Option<GradedRun> {
        let parts = (0..)
            .zip(parts)
            .map(|(number, text)| {
                let mut reader = RunReader::part(FileFormat::Trec, number);
                let mut grades = Grades::default();
                for bytes in text.as_bytes().chunks(chunk) {
                    reader.push_graded(bytes, &mut grades, qrels, order).ok()??;
                }
                reader.end_graded(grades, order).ok()
            })
            .collect::<Option<Vec<_>>>()?;
        GradedRun::join(parts, qrels)
    }

    fn whole(parts: &[&str], order: OrderOptions) -> Option<Run> {
        let mut reader = RunReader::trec();
        reader.push(parts.concat().as_bytes()).ok()?;
        reader.finish(order).ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn grades_while_reading_give_the_values_of_the_whole_run(
            lines in proptest::collection::vec((0..9_u32, 0..12_u32, 0..5_u32), 0..80),
            judgments in proptest::collection::btree_map((0..7_u32, 0..12_u32), -1..4_i32, 1..30),
            is_grouped in any::<bool>(),
            cut in 0..80_usize,
            chunk in 1..400_usize,
            by_rank in any::<bool>(),
            keeps_first in any::<bool>(),
            condensed in any::<bool>(),
        ) {
            let mut lines = lines;
            if is_grouped {
                lines.sort_by_key(|line| line.0);
            }
            let lines: Vec<String> = (1..)
                .zip(&lines)
                .map(|(rank, (query, document, score))| format!("q{query} Q0 d{document} {rank} {score} t\n"))
                .collect();
            let (head, tail) = lines.split_at(cut.min(lines.len()));
            let (head, tail) = (head.concat(), tail.concat());
            let mut text = String::new();
            for ((query, document), grade) in &judgments {
                writeln!(text, "q{query} 0 d{document} {grade}").unwrap();
            }
            let order = OrderOptions {
                ties: if by_rank { Ties::Rank } else { Ties::Trec },
                dedup: if keeps_first { Dedup::First } else { Dedup::Refuse },
            };
            let mut reader = QrelsReader::trec();
            reader.push(text.as_bytes()).unwrap();
            let qrels = reader.finish(order).unwrap();
            let options = EvaluationOptions {
                unjudged: if condensed { Unjudged::Condensed } else { Unjudged::Irrelevant },
                ..EvaluationOptions::trec()
            };
            let measures: Vec<Measure> = ["ndcg@5", "map", "bpref", "judged@3", "mrr"].map(|name| name.parse().unwrap()).into();
            let parts = [head.as_str(), tail.as_str()];
            let expected = whole(&parts, order).map(|run| evaluate(&qrels, &run, &measures, &options));
            if let Some(run) = graded(&parts, chunk, &qrels, order) {
                let found = evaluate_graded_run(&qrels, &run, &measures, &options);
                prop_assert_eq!(Some(found), expected);
            } else {
                let has_duplicates = expected.is_none();
                prop_assert!(has_duplicates || !is_grouped, "a grouped run without duplicates was refused");
            }
        }
    }
}
