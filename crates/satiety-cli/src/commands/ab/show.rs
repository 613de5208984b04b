//! How answers about features look to a person.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::experiment::{Check, Checklist, GraduationVerdict, Standing};
use satiety_engine::ab::{AbChanged, AbChecked, AbFeatures, AbStatus, ShadowSummary};

use crate::printer::Render;
use crate::table::{sparkline, table};

impl Render for AbChanged {
    fn human(&self) -> String {
        let feature = &self.feature;
        let mut text = format!("{} is {}", feature.feature_id.bold(), self.status.bold());
        if let Some(reason) = &self.reason {
            let _ = write!(text, ": {reason}");
        }
        if self.status == "running" {
            let _ = write!(
                text,
                "\n{} % of sessions get it; {} % of queries are run with both pipelines in the shadow",
                feature.rollout_percent,
                if feature.shadow_enabled {
                    feature.shadow_percent
                } else {
                    0.0
                }
            );
        }
        text
    }
}

impl Render for AbFeatures {
    fn human(&self) -> String {
        if self.features.is_empty() {
            return "no features; `satiety ab start NAME --pipeline JSON` begins with one".into();
        }
        let rows = self.features.iter().map(|one| {
            vec![
                one.feature_id.clone(),
                one.status.clone(),
                format!("{} %", one.rollout_percent),
                one.samples.to_string(),
                signed(one.mrr_delta),
                one.decision.name().into(),
                one.description.clone(),
            ]
        });
        let header = ["feature", "status", "rollout", "compared", "mrr", "test", ""];
        let mut text = table(&header, &[2, 3, 4], rows);
        for (feature, problem) in &self.unfit {
            let _ = write!(text, "\n{feature} graduated and no longer fits: {problem}");
        }
        text
    }
}

impl Render for AbStatus {
    fn human(&self) -> String {
        let feature = &self.feature;
        let mut text = format!("{}  {}", feature.feature_id.bold(), self.status);
        if let Some(reason) = &self.reason {
            let _ = write!(text, " ({reason})");
        }
        if !feature.description.is_empty() {
            let _ = write!(text, "\n{}", feature.description);
        }
        let change = serde_json::to_string(&feature.pipeline).unwrap_or_default();
        let _ = write!(text, "\n{}\n", change.dimmed());
        text.push_str(&test(&self.test));
        text.push_str(&shadow(&self.shadow));
        text.push_str(&checklist(&self.checklist));
        text
    }
}

impl Render for AbChecked {
    fn human(&self) -> String {
        let mut text = self.status.human();
        if self.graduated {
            let _ = write!(
                text,
                "\n{} is the default of all searches now",
                self.status.feature.feature_id.bold()
            );
        }
        text
    }
}

fn signed(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:+.3}"))
}

fn test(standing: &Standing) -> String {
    let mut text = format!(
        "\ntest       {} ({}), {} of at least {} queries compared\n",
        standing.decision.name().bold(),
        standing.method.name(),
        standing.samples,
        standing.min_samples
    );
    let (low, high) = (standing.lower_bound, standing.upper_bound);
    let evidence = standing
        .log_likelihood_ratio
        .map_or_else(|| "burn-in".into(), |evidence| format!("{evidence:+.2}"));
    let _ = write!(text, "evidence   {evidence}  in {low:.2} … {high:+.2}");
    if let Some(value) = standing.e_value {
        let _ = write!(text, "  e = {value:.3}");
    }
    if let Some(value) = standing.p_value {
        let _ = write!(text, "  p = {value:.4}");
    }
    if !standing.history.is_empty() && high > low {
        let points: Vec<f64> = standing
            .history
            .iter()
            .map(|point| (point - low) / (high - low))
            .collect();
        let _ = write!(text, "\n           {}", sparkline(&points));
    }
    if let (Some(delta), Some(interval)) = (standing.mrr_delta, standing.interval) {
        let _ = write!(
            text,
            "\nmrr@5      {} → {}  {delta:+.3}  in {:+.3} … {:+.3} at all times at once",
            number(standing.control_mrr),
            number(standing.treatment_mrr),
            interval.low,
            interval.high
        );
    }
    text.push('\n');
    text
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}

fn shadow(summary: &ShadowSummary) -> String {
    let counts = summary.counts;
    let mut text = format!(
        "\nshadow     {} runs: {} counted, {} open, {} failed\n",
        counts.runs, summary.counted, counts.open, counts.failed
    );
    if let Some(overlap) = summary.mean_set_overlap {
        let [identical, minor, major, incompatible] = summary.classes;
        let _ = writeln!(
            text,
            "lists      tau {}, overlap {overlap:.2}, same first result {}; {identical} identical, {minor} minor, {major} major, {incompatible} incompatible",
            number(summary.mean_rank_correlation),
            number(summary.top_result_agreement),
        );
    }
    if let (Some([p50, p95]), Some([new50, new95])) =
        (summary.control_latency_ms, summary.treatment_latency_ms)
    {
        let _ = writeln!(
            text,
            "time       p50 {p50:.2} → {new50:.2} ms, p95 {p95:.2} → {new95:.2} ms"
        );
    }
    if let Some(reason) = &summary.last_failure {
        let _ = writeln!(text, "failure    {reason}");
    }
    text
}

fn checklist(list: &Checklist) -> String {
    let verdict = match list.verdict {
        GraduationVerdict::Graduate => "may graduate",
        GraduationVerdict::Refuse => "may not graduate",
        GraduationVerdict::Undecided => "cannot be told yet",
    };
    let rows = list.checks.iter().map(|one| {
        let check = match one.check {
            Check::Pass => "yes",
            Check::Fail => "NO",
            Check::Undecided => "?",
        };
        vec![check.into(), one.name.clone(), one.reason.clone()]
    });
    format!(
        "\nchecklist  {}\n{}",
        verdict.bold(),
        table(&["", "", ""], &[], rows).trim_start_matches('\n')
    )
}
