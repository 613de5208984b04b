//! Report documents for features and their tests.

use satiety::experiment::{
    Check, Checklist, Decision, GraduationVerdict, MIN_PROPOSAL_QUERIES, ProposalVerdict, Standing,
};
use satiety_report::charts::IntervalMark;
use satiety_report::document::{badge, dim, link, or_dash, percent, strong};
use satiety_report::series::{Lines, Series, Threshold};
use satiety_report::{Block, Chart, Document, Table, Text, Tone, row};

use super::{ExperimentList, ExperimentStatus, ShadowSummary, WeightProposal};

impl ExperimentList {
    /// Renders the features as a table; `address` returns the page of each if pages exist.
    pub fn document(&self, address: Option<fn(&str) -> String>) -> Document {
        if self.features.is_empty() {
            let hint = "no features; `satiety ab start NAME --pipeline JSON` starts one";
            return Block::text(hint).into();
        }
        let rows = self.features.iter().map(|one| {
            let name = match address {
                Some(address) => link(address(&one.feature_id), &one.feature_id),
                None => Text::from(&one.feature_id),
            };
            row![
                name,
                status(&one.status),
                format!("{} %", one.rollout_percent),
                one.samples,
                or_dash(one.mrr_delta, |delta| format!("{delta:+.3}")),
                decision(one.decision),
                &one.description,
            ]
        });
        let header = [
            "feature",
            "status",
            "rollout",
            "compared",
            "mrr",
            "test",
            "description",
        ];
        let mut blocks = vec![Block::Table(Table::new(&header, &[2, 3, 4], rows))];
        for (feature, problem) in &self.unfit {
            let told = format!("{feature} graduated but is no longer valid: {problem}");
            blocks.push(Block::Note(Tone::Bad, "error".into(), told.into()));
        }
        Document::new("", blocks)
    }
}

impl WeightProposal {
    /// Renders the verdict, the quality of each ratio, and the change to start.
    pub fn document(&self) -> Document {
        let proposed = &self.proposed;
        let verdict = match proposed.verdict {
            ProposalVerdict::Propose => {
                badge(Tone::Good, "propose").then(format!(" lexical : vector weight × {}", proposed.ratio))
            }
            ProposalVerdict::Keep => {
                badge(Tone::Plain, "keep").then(" the active weights: no others are better")
            }
            ProposalVerdict::NotEnoughEvidence => badge(Tone::Unsure, "not enough evidence").then(format!(
                " {} judged queries, at least {MIN_PROPOSAL_QUERIES} are needed",
                proposed.queries
            )),
        };
        let mut blocks = vec![Block::Text(verdict)];
        if let Some(gain) = proposed.gain {
            let interval = proposed.interval.map_or_else(String::new, |bounds| {
                format!(" (95 % from {:+.3} to {:+.3})", bounds.low, bounds.high)
            });
            blocks.push(Block::text(format!(
                "nDCG@10 {gain:+.3}{interval} on queries that were not used to choose, {} queries",
                proposed.queries
            )));
        }
        let mut candidates = proposed.candidates.clone();
        candidates.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let rows = candidates.iter().map(|one| {
            let name = if (one.ratio - 1.0).abs() < 1e-9 {
                "active".to_owned()
            } else {
                format!("× {}", one.ratio)
            };
            row![name, format!("{:.4}", one.ndcg)]
        });
        blocks.push(Block::Table(Table::new(
            &["lexical : vector", "nDCG@10"],
            &[1],
            rows,
        )));
        match (&self.started, &self.feature) {
            (Some(started), _) => blocks.push(Block::text(format!(
                "{} is {}; `satiety ab status {}` shows its test",
                started.feature.feature_id, started.status, started.feature.feature_id
            ))),
            (None, Some(_)) => blocks.push(Block::text(
                "`satiety ab propose --start NAME` starts it as a feature, without rollout",
            )),
            (None, None) => {}
        }
        Document::new("", blocks)
    }
}

fn status(word: &str) -> Text {
    let tone = match word {
        "graduated" => Tone::Good,
        "rejected" => Tone::Bad,
        "paused" => Tone::Unsure,
        _ => Tone::Plain,
    };
    badge(tone, word)
}

fn decision(decision: Decision) -> Text {
    match decision {
        Decision::Continue => badge(Tone::Plain, "undecided"),
        Decision::AcceptTreatment => badge(Tone::Good, "better"),
        Decision::AcceptControl => badge(Tone::Bad, "not better"),
    }
}

impl ExperimentStatus {
    /// Renders the feature with its test, its shadow runs and the graduation checklist.
    pub fn document(&self) -> Document {
        let feature = &self.feature;
        let mut title = strong(&*feature.feature_id).then("  ").then(status(&self.status));
        if let Some(reason) = &self.reason {
            title = title.then(format!(" ({reason})"));
        }
        let mut parts = Vec::new();
        if !feature.description.is_empty() {
            parts.push(Block::text(&feature.description));
        }
        let change = serde_json::to_string(&feature.pipeline).unwrap_or_default();
        parts.push(Block::Text(dim(change)));
        parts.push(graduation(&self.checklist));
        parts.push(Block::section(
            "Sequential test",
            test(&feature.feature_id, &self.test),
        ));
        parts.push(Block::section("Shadow runs", vec![shadow(&self.shadow)]));
        parts.push(Block::section(
            "Graduation checklist",
            vec![checklist(&self.checklist)],
        ));
        Document::new("", vec![Block::Section(title, parts)])
    }
}

fn graduation(list: &Checklist) -> Block {
    let met = list.checks.iter().filter(|one| one.check == Check::Pass).count();
    let (tone, word) = match list.verdict {
        GraduationVerdict::Graduate => (Tone::Good, "May graduate"),
        GraduationVerdict::Refuse => (Tone::Bad, "May not graduate"),
        GraduationVerdict::Undecided => (Tone::Unsure, "Undecided"),
    };
    let sentence = format!("{met} of {} graduation conditions are met", list.checks.len());
    Block::verdict(tone, word, sentence, &[])
}

fn test(feature_id: &str, test: &Standing) -> Vec<Block> {
    let number = |value: Option<f64>| or_dash(value, |value| format!("{value:.3}"));
    let told = strong(test.decision.name()).then(format!(
        " ({}), {} of at least {} queries compared",
        test.method.name(),
        test.samples,
        test.min_samples
    ));
    let evidence = test
        .log_likelihood_ratio
        .map_or_else(|| "burn-in".into(), |value| format!("{value:+.2}"));
    let mut fields = vec![
        ("test", Some(told)),
        (
            "evidence",
            Some(
                format!(
                    "{evidence}  in {:.2} … {:+.2}",
                    test.lower_bound, test.upper_bound
                )
                .into(),
            ),
        ),
        ("e-value", test.e_value.map(|value| format!("{value:.3}").into())),
        ("p", test.p_value.map(|value| format!("{value:.4}").into())),
    ];
    let mut parts = Vec::new();
    if let (Some(delta), Some(interval)) = (test.mrr_delta, test.interval) {
        let range = format!("{delta:+.3} ({:+.3} to {:+.3})", interval.low, interval.high);
        fields.push((
            "mrr@5",
            Some(
                format!(
                    "{} → {}  {range} (always-valid interval)",
                    number(test.control_mrr),
                    number(test.treatment_mrr)
                )
                .into(),
            ),
        ));
        parts.push(Block::Chart(Chart::Intervals(
            "Change of the reciprocal rank, with an always-valid interval".into(),
            vec![IntervalMark {
                label: feature_id.to_owned(),
                value: delta,
                interval: Some((interval.low, interval.high)),
                hint: range,
            }],
        )));
    }
    let last = test.history.len().max(1) as u64;
    let places = (1..=test.history.len() as u64).map(|point| (test.samples * point / last).to_string());
    let threshold = |name: &str, value: f64| Threshold {
        name: name.into(),
        value,
    };
    // Symmetric around zero, which means no evidence.
    let bounds = [test.lower_bound, test.upper_bound];
    let most = test.history.iter().chain(&bounds).map(|value| value.abs());
    let most = 1.05 * most.filter(|value| value.is_finite()).fold(0.0, f64::max);
    let lines = Lines {
        title: "Evidence for the feature, with decision thresholds".into(),
        axis: "queries compared",
        places: places.collect(),
        series: vec![Series::new(
            "log-evidence",
            test.history.iter().map(|value| Some(*value)).collect(),
        )],
        thresholds: vec![
            threshold("better above", test.upper_bound),
            threshold("not better below", test.lower_bound),
        ],
        range: (most > 0.0).then_some((-most, most)),
    };
    parts.insert(0, Block::Chart(Chart::Lines(lines)));
    parts.insert(0, Block::fields(fields));
    parts
}

fn shadow(summary: &ShadowSummary) -> Block {
    let number = |value: Option<f64>| value.map(|value| Text::from(format!("{value:.3}")));
    let counts = summary.counts;
    let [identical, minor, major, incompatible] = summary.classes;
    let times = summary.control_latency_ms.zip(summary.treatment_latency_ms);
    let fields = [
        (
            "runs",
            Some(
                format!(
                    "{}: {} counted, {} open, {} failed",
                    counts.runs, summary.counted, counts.open, counts.failed
                )
                .into(),
            ),
        ),
        (
            "lists",
            summary.mean_set_overlap.map(|_| {
                format!("{identical} identical, {minor} minor, {major} major, {incompatible} incompatible")
                    .into()
            }),
        ),
        (
            "same top result",
            summary
                .top_result_agreement
                .map(|share| percent(Some(share)).into()),
        ),
        ("result overlap (Jaccard)", number(summary.mean_set_overlap)),
        (
            "rank correlation (Kendall's tau)",
            number(summary.mean_rank_correlation),
        ),
        (
            "time",
            times.map(|([p50, p95], [new50, new95])| {
                format!("p50 {p50:.2} → {new50:.2} ms, p95 {p95:.2} → {new95:.2} ms").into()
            }),
        ),
        ("last failure", summary.last_failure.as_ref().map(Text::from)),
    ];
    Block::fields(fields)
}

fn checklist(list: &Checklist) -> Block {
    let rows = list.checks.iter().map(|one| {
        let mark = match one.check {
            Check::Pass => badge(Tone::Good, "yes"),
            Check::Fail => badge(Tone::Bad, "NO"),
            Check::Undecided => badge(Tone::Unsure, "?"),
        };
        row![mark, &one.name, &one.reason]
    });
    Block::Table(Table::new(&["", "condition", "reason"], &[], rows))
}
