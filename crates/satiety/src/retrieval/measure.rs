//! Retrieval measures: names such as `ndcg@10`, and their values for one query. Formulas follow `trec_eval`
//! unless documented otherwise; a threshold defines which grades are relevant.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RetrievalError, Tier};

/// A retrieval measure with an optional cutoff, such as `ndcg@10`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Measure {
    /// Kind of the measure.
    pub kind: Kind,
    /// Number of results to evaluate; all if absent.
    pub cutoff: Option<NonZeroUsize>,
}

/// Kind of a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// `mrr`: reciprocal rank of the first relevant document (`trec_eval`: `recip_rank`).
    Mrr,
    /// `ndcg`: normalized discounted cumulative gain with gain 2^grade − 1 (Burges et al. 2005).
    Ndcg,
    /// `ndcg_linear`: normalized discounted cumulative gain with the grade as gain (`trec_eval`: `ndcg`,
    /// `ndcg_cut`).
    NdcgLinear,
    /// `recall`: share of the relevant documents that were returned.
    Recall,
    /// `p` (also `P` and `precision`): share of the results that are relevant; missing results count as
    /// irrelevant.
    Precision,
    /// `map`: average precision, the mean over the relevant documents of the precision at their ranks.
    Map,
    /// `success`: 1 if any relevant document was returned, otherwise 0.
    Success,
    /// `rbp(p)`: rank-biased precision with persistence p (Moffat and Zobel 2008).
    Rbp(f64),
    /// `bpref`: binary preference of relevant over judged irrelevant documents (Buckley and Voorhees 2004).
    Bpref,
    /// `judged`: share of the results with a judgment; absent without results.
    Judged,
    /// `importance_recall`: recall with documents weighted by tier (4, 3, 2, 1, ½).
    ImportanceRecall,
    /// `tier_p(critical)`: share of the results of a tier that are relevant; absent without such results.
    TierPrecision(Tier),
    /// `constitutional`: 1 if all constitutional documents were returned, otherwise 0.
    Constitutional,
    /// `constitutional_share`: share of the constitutional documents that were returned.
    ConstitutionalShare,
    /// `chain`: share of the query's causal chain that was returned; absent for queries without one.
    Chain,
    /// `ils`: intra-list similarity by folder, 1 − folders / results; absent without results.
    ListSimilarity,
}

impl Kind {
    /// Whether the measure needs tiers, folders or causal chains in addition to judgments.
    pub fn needs_facts(self) -> bool {
        matches!(
            self,
            Self::ImportanceRecall
                | Self::TierPrecision(_)
                | Self::Constitutional
                | Self::ConstitutionalShare
                | Self::Chain
                | Self::ListSimilarity
        )
    }
}

/// Examples of all measures, for error messages.
const NAMES: &str = "mrr@10, ndcg@10, ndcg_linear@10, recall@100, p@5, map, success@5, rbp(0.8), bpref, judged@10, \
     importance_recall@10, tier_p(critical)@10, constitutional@5, constitutional_share@5, chain@10, ils@10";

impl FromStr for Measure {
    type Err = RetrievalError;

    fn from_str(name: &str) -> Result<Self, RetrievalError> {
        let wrong = |reason: String| RetrievalError::Measure {
            name: name.into(),
            reason,
        };
        let (stem, cutoff) = match name.split_once('@') {
            None => (name, None),
            Some((stem, cutoff)) => {
                let cutoff = cutoff
                    .parse()
                    .map_err(|_| wrong(format!("cutoff `{cutoff}` is not an integer of at least 1")))?;
                (stem, Some(cutoff))
            }
        };
        let kind = match stem {
            "mrr" => Kind::Mrr,
            "ndcg" => Kind::Ndcg,
            "ndcg_linear" => Kind::NdcgLinear,
            "recall" => Kind::Recall,
            "p" | "P" | "precision" => Kind::Precision,
            "map" => Kind::Map,
            "success" => Kind::Success,
            "bpref" => Kind::Bpref,
            "judged" => Kind::Judged,
            "importance_recall" => Kind::ImportanceRecall,
            "constitutional" => Kind::Constitutional,
            "constitutional_share" => Kind::ConstitutionalShare,
            "chain" => Kind::Chain,
            "ils" => Kind::ListSimilarity,
            _ if stem.starts_with("tier_p(") => {
                let tier = stem
                    .strip_prefix("tier_p(")
                    .and_then(|rest| rest.strip_suffix(')'))
                    .unwrap_or_default();
                let found = Tier::ALL.into_iter().find(|known| known.name() == tier);
                Kind::TierPrecision(found.ok_or_else(|| {
                    wrong(format!(
                        "unknown tier `{tier}` (expected one of: {})",
                        Tier::ALL.map(Tier::name).join(", ")
                    ))
                })?)
            }
            _ => match stem.strip_prefix("rbp(").and_then(|rest| rest.strip_suffix(')')) {
                Some(p) => match p.parse::<f64>() {
                    Ok(p) if p > 0.0 && p < 1.0 => Kind::Rbp(p),
                    _ => {
                        return Err(wrong(format!(
                            "persistence `{p}` is not a number between 0 and 1"
                        )));
                    }
                },
                None => return Err(wrong(format!("expected one of: {NAMES}"))),
            },
        };
        if kind == Kind::Bpref && cutoff.is_some() {
            return Err(wrong("bpref does not take a cutoff".into()));
        }
        Ok(Self { kind, cutoff })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Mrr => f.write_str("mrr"),
            Kind::Ndcg => f.write_str("ndcg"),
            Kind::NdcgLinear => f.write_str("ndcg_linear"),
            Kind::Recall => f.write_str("recall"),
            Kind::Precision => f.write_str("p"),
            Kind::Map => f.write_str("map"),
            Kind::Success => f.write_str("success"),
            Kind::Rbp(p) => write!(f, "rbp({p})"),
            Kind::Bpref => f.write_str("bpref"),
            Kind::Judged => f.write_str("judged"),
            Kind::ImportanceRecall => f.write_str("importance_recall"),
            Kind::TierPrecision(tier) => write!(f, "tier_p({})", tier.name()),
            Kind::Constitutional => f.write_str("constitutional"),
            Kind::ConstitutionalShare => f.write_str("constitutional_share"),
            Kind::Chain => f.write_str("chain"),
            Kind::ListSimilarity => f.write_str("ils"),
        }?;
        self.cutoff.map_or(Ok(()), |cutoff| write!(f, "@{cutoff}"))
    }
}

impl TryFrom<String> for Measure {
    type Error = RetrievalError;

    fn try_from(name: String) -> Result<Self, RetrievalError> {
        name.parse()
    }
}

impl From<Measure> for String {
    fn from(measure: Measure) -> Self {
        measure.to_string()
    }
}

/// Default measures of an evaluation. Agents read three to five results, at most ten; 20 shows more of the
/// ranking, and `judged` the coverage of the judgments.
pub fn default_measures() -> Vec<Measure> {
    let measure = |kind, cutoff| Measure {
        kind,
        cutoff: NonZeroUsize::new(cutoff),
    };
    vec![
        measure(Kind::Mrr, 5),
        measure(Kind::Mrr, 10),
        measure(Kind::Ndcg, 5),
        measure(Kind::Ndcg, 10),
        measure(Kind::Ndcg, 20),
        measure(Kind::Recall, 5),
        measure(Kind::Recall, 10),
        measure(Kind::Judged, 10),
    ]
}

/// Default measures of a comparison. There are few of them, because each one reduces the power of the others.
pub fn decisive_measures() -> Vec<Measure> {
    [Kind::Ndcg, Kind::Mrr, Kind::Recall]
        .map(|kind| Measure {
            kind,
            cutoff: NonZeroUsize::new(10),
        })
        .to_vec()
}

/// Grades of one query.
#[derive(Debug, Default)]
pub(super) struct Ranked {
    /// Grades of the results in rank order; `None` for unjudged results.
    pub(super) grades: Vec<Option<i32>>,
    /// Positive grades of all judged documents, best first.
    pub(super) ideal: Vec<i32>,
    /// Number of judged relevant documents.
    pub(super) relevant: usize,
    /// Number of judged irrelevant documents; negative grades are neither.
    pub(super) irrelevant: usize,
    /// Minimum grade of a relevant document.
    pub(super) threshold: i32,
}

impl Ranked {
    /// Adds the grade of a judged document.
    #[inline]
    pub(super) fn judge(&mut self, grade: i32) {
        if grade >= self.threshold {
            self.relevant += 1;
        } else if grade >= 0 {
            self.irrelevant += 1;
        }
        if grade > 0 {
            self.ideal.push(grade);
        }
    }

    /// Value of a measure; `None` if the judgments contain nothing relevant.
    pub(super) fn value(&self, measure: Measure, discounts: &mut Discounts) -> Option<f64> {
        let cutoff = measure.cutoff.map_or(usize::MAX, NonZeroUsize::get);
        let top = &self.grades[..self.grades.len().min(cutoff)];
        // Without a cutoff, the depth is the length of the list.
        let depth = measure.cutoff.map_or(top.len(), NonZeroUsize::get);
        let share = |count: usize| {
            if depth == 0 {
                0.0
            } else {
                count as f64 / depth as f64
            }
        };
        if measure.kind == Kind::Judged {
            let judged = top.iter().flatten().count();
            return (!top.is_empty()).then(|| judged as f64 / top.len() as f64);
        }
        if let Kind::Ndcg | Kind::NdcgLinear = measure.kind {
            let gain = if measure.kind == Kind::Ndcg {
                exponential
            } else {
                f64::from
            };
            let ideal = &self.ideal[..self.ideal.len().min(cutoff)];
            let best = discounts.sum(ideal.iter().map(|grade| Some(*grade)), gain);
            return (best > 0.0).then(|| discounts.sum(top.iter().copied(), gain) / best);
        }
        if self.relevant == 0 {
            return None;
        }
        let is_relevant = |grade: &Option<i32>| grade.is_some_and(|grade| grade >= self.threshold);
        let found = || top.iter().filter(|grade| is_relevant(grade)).count();
        Some(match measure.kind {
            Kind::Mrr => top
                .iter()
                .position(is_relevant)
                .map_or(0.0, |index| 1.0 / (index + 1) as f64),
            Kind::Recall => found() as f64 / self.relevant as f64,
            Kind::Precision => share(found()),
            Kind::Success => f64::from(u8::from(top.iter().any(is_relevant))),
            Kind::Map => self.average_precision(top),
            Kind::Rbp(p) => {
                let mut weight = 1.0 - p;
                let mut sum = 0.0;
                for grade in top {
                    if is_relevant(grade) {
                        sum += weight;
                    }
                    weight *= p;
                }
                sum
            }
            Kind::Bpref => self.bpref(),
            // Computed above, or from facts.
            _ => return None,
        })
    }

    fn average_precision(&self, top: &[Option<i32>]) -> f64 {
        let (mut found, mut sum) = (0, 0.0);
        for (index, grade) in top.iter().enumerate() {
            if grade.is_some_and(|grade| grade >= self.threshold) {
                found += 1;
                sum += f64::from(found) / (index + 1) as f64;
            }
        }
        sum / self.relevant as f64
    }

    /// With R relevant and N judged irrelevant documents: mean over relevant r of 1 − min(irrelevant above r,
    /// R) / min(N, R).
    fn bpref(&self) -> f64 {
        let bound = self.irrelevant.min(self.relevant);
        let (mut above, mut sum) = (0_usize, 0.0);
        for grade in self.grades.iter().flatten() {
            if *grade >= self.threshold {
                let lost = if above == 0 {
                    0.0
                } else {
                    above.min(self.relevant) as f64 / bound as f64
                };
                sum += 1.0 - lost;
            } else if *grade >= 0 {
                above += 1;
            }
        }
        sum / self.relevant as f64
    }
}

fn exponential(grade: i32) -> f64 {
    f64::from(grade).exp2() - 1.0
}

/// log2(rank + 1), computed once for each rank.
#[derive(Debug, Default)]
pub(super) struct Discounts(Vec<f64>);

impl Discounts {
    /// Discounted cumulative gain of grades in rank order.
    fn sum(&mut self, grades: impl ExactSizeIterator<Item = Option<i32>>, gain: impl Fn(i32) -> f64) -> f64 {
        while self.0.len() < grades.len() {
            self.0.push(((self.0.len() + 2) as f64).log2());
        }
        grades
            .zip(&self.0)
            .filter_map(|(grade, discount)| {
                grade
                    .filter(|grade| *grade > 0)
                    .map(|grade| gain(grade) / discount)
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_as_they_are_typed() {
        for name in [
            "mrr",
            "mrr@10",
            "ndcg@10",
            "ndcg_linear",
            "ndcg_linear@10",
            "map",
            "map@100",
            "recall@100",
            "p@5",
            "success@5",
            "rbp(0.8)",
            "rbp(0.95)@20",
            "bpref",
            "judged@10",
            "importance_recall@5",
            "tier_p(critical)@10",
            "constitutional@5",
            "constitutional_share@5",
            "chain@10",
            "ils@10",
        ] {
            assert_eq!(name.parse::<Measure>().unwrap().to_string(), name);
        }
        assert_eq!(default_measures().len(), 8);
        for alias in ["precision@10", "P@10"] {
            assert_eq!(alias.parse::<Measure>().unwrap().to_string(), "p@10");
        }
    }

    #[test]
    fn invalid_measures_are_rejected() {
        for (name, expected) in [
            ("ndgc@10", "invalid measure `ndgc@10`: expected one of: mrr@10"),
            (
                "p@0",
                "invalid measure `p@0`: cutoff `0` is not an integer of at least 1",
            ),
            (
                "p@",
                "invalid measure `p@`: cutoff `` is not an integer of at least 1",
            ),
            (
                "rbp(1)",
                "invalid measure `rbp(1)`: persistence `1` is not a number between 0 and 1",
            ),
            ("rbp", "invalid measure `rbp`: expected one of:"),
            (
                "tier_p(vital)@5",
                "invalid measure `tier_p(vital)@5`: unknown tier `vital` (expected one of: temporary, normal",
            ),
            (
                "bpref@5",
                "invalid measure `bpref@5`: bpref does not take a cutoff",
            ),
        ] {
            let error = name.parse::<Measure>().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    /// Results 3, unjudged, 0, 2 of judgments 3, 2, 2, 1, 0 at threshold 2, by hand.
    #[test]
    fn values_by_hand() {
        let ranked = Ranked {
            grades: vec![Some(3), None, Some(0), Some(2)],
            ideal: vec![3, 2, 2, 1],
            relevant: 3,
            irrelevant: 2,
            threshold: 2,
        };
        let mut discounts = Discounts::default();
        let mut check = |name: &str, expected: f64| {
            let value = ranked.value(name.parse().unwrap(), &mut discounts).unwrap();
            assert!(
                (value - expected).abs() < 1e-12,
                "{name}: {value}, not {expected}"
            );
        };
        check("mrr", 1.0);
        check("recall@1", 1.0 / 3.0);
        check("recall", 2.0 / 3.0);
        check("p@5", 2.0 / 5.0);
        check("p", 2.0 / 4.0);
        check("map", (1.0 + 2.0 / 4.0) / 3.0);
        check("success@1", 1.0);
        check("judged@2", 0.5);
        check("judged", 0.75);
        check("judged@10", 0.75);
        check("rbp(0.5)", 0.5 + 0.0625);
        // The first has no irrelevant document above it, the second one of min(2, 3).
        check("bpref", (1.0 + 0.5) / 3.0);
        let log = f64::log2;
        let best = 7.0 + 3.0 / log(3.0) + 3.0 / log(4.0) + 1.0 / log(5.0);
        check("ndcg", (7.0 + 3.0 / log(5.0)) / best);
        let best = 3.0 + 2.0 / log(3.0);
        check("ndcg_linear@2", 3.0 / best);
    }

    #[test]
    fn nothing_to_find_is_not_zero() {
        let ranked = Ranked {
            grades: vec![Some(1), None],
            ideal: vec![1],
            relevant: 0,
            irrelevant: 1,
            threshold: 2,
        };
        let mut discounts = Discounts::default();
        let mut value = |name: &str| ranked.value(name.parse().unwrap(), &mut discounts);
        assert_eq!(value("recall@5"), None);
        assert_eq!(value("mrr"), None);
        assert_eq!(value("ndcg@5"), Some(1.0));
        assert_eq!(value("judged@2"), Some(0.5));
    }
}
