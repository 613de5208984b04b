//! Facts about documents and queries besides judgments: tiers, folders, equivalence classes of documents, and
//! causal chains.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Document, EvalQuery, Kind, Measure, RetrievalError, Tier, memory};

/// Facts about documents and queries, for measures that need more than judgments.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    tiers: FxHashMap<String, Tier>,
    folders: FxHashMap<String, String>,
    classes: FxHashMap<String, u32>,
    class_names: FxHashMap<String, u32>,
    constitutional: Vec<String>,
    chains: FxHashMap<String, Vec<String>>,
}

impl Facts {
    /// Adds the facts of a document.
    pub fn add_document(&mut self, document: Document) {
        let Document {
            id,
            tier,
            folder,
            class,
            parent,
            ..
        } = document;
        if let Some(folder) = folder {
            self.folders.insert(id.clone(), folder);
        }
        // Parts and their parent form an equivalence class named by the id of the parent.
        if let Some(parent) = &parent {
            let number = self.class_number(class.as_ref().unwrap_or(parent));
            self.classes.entry(parent.clone()).or_insert(number);
        }
        if let Some(class) = class.or(parent) {
            let number = self.class_number(&class);
            self.classes.insert(id.clone(), number);
        }
        if let Some(tier) = tier {
            if tier == Tier::Constitutional {
                self.constitutional.push(id.clone());
            }
            self.tiers.insert(id, tier);
        }
    }

    /// Adds the facts of a query.
    pub fn add_query(&mut self, query: &EvalQuery) {
        if !query.causal_chain.is_empty() {
            self.chains
                .insert(query.query_id.clone(), query.causal_chain.clone());
        }
    }

    /// Checks that the facts a measure needs are present.
    pub fn check(&self, measure: Measure) -> Result<(), RetrievalError> {
        let missing = match measure.kind {
            Kind::ImportanceRecall | Kind::TierPrecision(_) if self.tiers.is_empty() => {
                "no document has a tier"
            }
            Kind::Constitutional | Kind::ConstitutionalShare if self.constitutional.is_empty() => {
                "no document has the tier `constitutional`"
            }
            Kind::ListSimilarity if self.folders.is_empty() => "no document has a folder",
            Kind::Chain if self.chains.is_empty() => "no query has a causal chain",
            _ => return Ok(()),
        };
        Err(RetrievalError::NeedsFacts {
            measure: measure.to_string(),
            missing,
        })
    }

    /// Number of the equivalence class of a document.
    pub(super) fn class(&self, document: &str) -> Option<u32> {
        self.classes.get(document).copied()
    }

    /// Whether any equivalence classes are known.
    pub fn has_classes(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Value of a measure that needs facts; `None` if it is undefined for the query.
    pub(super) fn value(
        &self,
        measure: Measure,
        query: &str,
        results: &[&str],
        relevant: &[&str],
    ) -> Option<f64> {
        let k = measure.cutoff.map_or(usize::MAX, std::num::NonZeroUsize::get);
        let tier = |document: &str| self.tiers.get(document).copied().unwrap_or(Tier::Normal);
        let constitutional = || -> Vec<&str> { self.constitutional.iter().map(String::as_str).collect() };
        match measure.kind {
            Kind::ImportanceRecall => {
                let weighted: Vec<(&str, Tier)> = relevant
                    .iter()
                    .map(|document| (*document, tier(document)))
                    .collect();
                memory::importance_weighted_recall(results, &weighted, k)
            }
            Kind::TierPrecision(wanted) => {
                let ranked: Vec<(&str, Tier)> = results
                    .iter()
                    .map(|document| (*document, tier(document)))
                    .collect();
                let found = memory::tier_precision(&ranked, relevant, k);
                found
                    .into_iter()
                    .find_map(|(tier, value)| (tier == wanted).then_some(value))
            }
            Kind::Constitutional => memory::constitutional_surfacing(results, &constitutional(), k)
                .map(|found| f64::from(u8::from(found.strict))),
            Kind::ConstitutionalShare => {
                memory::constitutional_surfacing(results, &constitutional(), k).map(|found| found.fraction)
            }
            Kind::Chain => {
                let chain: Vec<&str> = self.chains.get(query)?.iter().map(String::as_str).collect();
                memory::causal_chain_completeness(results, &chain, k)
            }
            Kind::ListSimilarity => {
                // A document without a folder counts as a folder of its own.
                let folders: Vec<&str> = results
                    .iter()
                    .map(|document| self.folders.get(*document).map_or(*document, String::as_str))
                    .collect();
                memory::intra_list_similarity(&folders, k)
            }
            _ => None,
        }
    }

    fn class_number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.class_names.get(name) {
            return *number;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "there are fewer classes than documents, of which there are fewer than 2^32"
        )]
        let number = self.class_names.len() as u32;
        self.class_names.insert(name.into(), number);
        number
    }
}

/// Grades of one query in which each equivalence class counts once: its best grade, at its first member.
#[derive(Debug, Default)]
pub(super) struct ClassGrades {
    best: FxHashMap<u32, i32>,
    met: FxHashSet<u32>,
}

impl ClassGrades {
    /// Resets the state for the next query.
    pub(super) fn clear(&mut self) {
        self.best.clear();
        self.met.clear();
    }

    /// Adds the grade of a judged document.
    pub(super) fn judge(&mut self, class: u32, grade: i32) {
        let best = self.best.entry(class).or_insert(grade);
        *best = grade.max(*best);
    }

    /// Best grade of each judged class, in any order.
    pub(super) fn grades(&self) -> impl Iterator<Item = i32> {
        self.best.values().copied()
    }

    /// Grade of the next result of a class. Later members of a class keep their rank and count as judged, but
    /// as neither relevant nor irrelevant, which a negative grade expresses.
    pub(super) fn meet(&mut self, class: u32) -> Option<i32> {
        let grade = self.best.get(&class).copied();
        if self.met.insert(class) {
            grade
        } else {
            grade.map(|_| -1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retrieval::{
        EvaluationOptions, OrderOptions, Qrels, QrelsReader, Run, RunReader, evaluate, evaluate_with,
    };

    fn read(qrels: &str, run: &str) -> (Qrels, Run) {
        let mut judged = QrelsReader::trec();
        judged.push(qrels.as_bytes()).unwrap();
        let mut ranked = RunReader::trec();
        ranked.push(run.as_bytes()).unwrap();
        let order = OrderOptions::default();
        (judged.finish(order).unwrap(), ranked.finish(order).unwrap())
    }

    fn measures(names: &[&str]) -> Vec<Measure> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    fn document(id: &str) -> Document {
        Document {
            id: id.into(),
            ..Document::default()
        }
    }

    /// a and b are parts of w; the list is b, a, x, c. The class counts once, at rank 1, with its best grade
    /// 3; a keeps rank 2 without adding anything. So the two relevant items (the class and c) are at ranks 1
    /// and 4.
    #[test]
    fn an_equivalence_class_counts_once() {
        let (qrels, run) = read(
            "q 0 a 3\nq 0 b 2\nq 0 c 2\nq 0 x 0\n",
            "q Q0 b 1 4 t\nq Q0 a 2 3 t\nq Q0 x 3 2 t\nq Q0 c 4 1 t\n",
        );
        let mut facts = Facts::default();
        for part in ["a", "b"] {
            facts.add_document(Document {
                parent: Some("w".into()),
                ..document(part)
            });
        }
        let asked = measures(&["mrr", "recall@3", "p@4", "map", "judged", "ndcg@4", "bpref"]);
        let options = EvaluationOptions::default();
        let found = evaluate_with(&qrels, &run, &asked, &options, &facts).unwrap();
        let log = f64::log2;
        let ndcg = (7.0 + 3.0 / log(5.0)) / (7.0 + 3.0 / log(3.0));
        // map: (1/1 + 2/4) / 2. bpref: x is the one irrelevant document, above c: (1 + (1 - 1/min(1, 2))) /
        // 2.
        let expected = [1.0, 0.5, 0.5, 0.75, 1.0, ndcg, 0.5];
        for ((found, expected), measure) in found.row(0).iter().zip(expected).zip(&asked) {
            let found = found.unwrap();
            assert!(
                (found - expected).abs() < 1e-12,
                "{measure}: {found}, not {expected}"
            );
        }
        // The parent counts for its parts.
        let (qrels, run) = read("q 0 a 2\nq 0 b 2\n", "q Q0 w 1 1 t\n");
        let found = evaluate_with(&qrels, &run, &measures(&["recall", "p"]), &options, &facts).unwrap();
        assert_eq!(found.row(0), [Some(1.0), Some(1.0)]);
    }

    #[test]
    fn classes_of_one_change_nothing() {
        let (qrels, run) = read(
            "q 0 a 3\nq 0 b -1\nq 0 c 1\nq 0 d 0\n",
            "q Q0 b 1 4 t\nq Q0 d 2 3 t\nq Q0 x 3 2 t\nq Q0 a 4 1 t\nq Q0 c 5 0 t\n",
        );
        let mut facts = Facts::default();
        for id in ["a", "b", "c", "d", "x"] {
            facts.add_document(Document {
                class: Some(format!("class of {id}")),
                ..document(id)
            });
        }
        let asked = measures(&[
            "mrr", "recall@3", "p@4", "map", "judged", "ndcg", "bpref", "rbp(0.8)",
        ]);
        let options = EvaluationOptions::trec();
        assert_eq!(
            evaluate_with(&qrels, &run, &asked, &options, &facts).unwrap(),
            evaluate(&qrels, &run, &asked, &options)
        );
    }

    #[test]
    fn measures_with_facts_by_hand() {
        let (qrels, run) = read(
            "q 0 a 3\nq 0 b 2\nq 0 z 2\n",
            "q Q0 a 1 3 t\nq Q0 n 2 2 t\nq Q0 b 3 1 t\n",
        );
        let mut facts = Facts::default();
        for (id, tier, folder) in [
            ("a", Tier::Constitutional, "x"),
            ("z", Tier::Constitutional, "x"),
            ("b", Tier::Critical, "y"),
            ("n", Tier::Critical, "x"),
        ] {
            facts.add_document(Document {
                tier: Some(tier),
                folder: Some(folder.into()),
                ..document(id)
            });
        }
        facts.add_query(&EvalQuery {
            query_id: "q".into(),
            causal_chain: vec!["a".into(), "b".into(), "m".into()],
            ..EvalQuery::default()
        });
        let asked = measures(&[
            "importance_recall@3",
            "tier_p(critical)@3",
            "constitutional@3",
            "constitutional_share@3",
            "chain@3",
            "ils@3",
            "tier_p(normal)@3",
        ]);
        let options = EvaluationOptions::default();
        let found = evaluate_with(&qrels, &run, &asked, &options, &facts).unwrap();
        // 4 + 3 of 4 + 4 + 3; one of two critical results is relevant; one of two constitutional memories was
        // found.
        let third = 1.0 / 3.0;
        let expected = [7.0 / 11.0, 0.5, 0.0, 0.5, 2.0 * third, third];
        for ((found, expected), measure) in found.row(0).iter().zip(expected).zip(&asked) {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{measure}: {found:?}");
        }
        assert_eq!(found.row(0)[6], None);
    }

    #[test]
    fn a_measure_without_its_facts_is_rejected() {
        let (qrels, run) = read("q 0 a 3\n", "q Q0 a 1 3 t\n");
        for (name, missing) in [
            ("importance_recall@5", "no document has a tier"),
            ("constitutional@5", "no document has the tier `constitutional`"),
            ("chain", "no query has a causal chain"),
            ("ils@5", "no document has a folder"),
        ] {
            let options = EvaluationOptions::default();
            let error = evaluate_with(&qrels, &run, &measures(&[name]), &options, &Facts::default());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }
}
