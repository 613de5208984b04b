//! A/B tests of the search: features, the sequential test with its boundaries, shadow runs, the checklist.

use satiety::experiment::{Check, Decision, GraduationVerdict};
use satiety_engine::ab::{AbFeatures, AbStatus, ShadowSummary};

use super::shell::{badge, command, figure, frame, nothing, percent, segment};
use satiety_report::charts::{Ranged, intervals};
use satiety_report::html::{Html, escape, link, paragraph, section, table, table_of, verdict};
use satiety_report::series::{Lines, Series, Threshold, lines};

/// All features.
pub(super) fn all(found: &AbFeatures) -> String {
    if found.features.is_empty() {
        let hint = nothing(
            "No feature is under test.",
            "satiety ab start NAME --pipeline FILE",
        );
        return frame("/ab", "A/B tests", &[hint]);
    }
    let rows = found.features.iter().map(|feature| {
        vec![
            link(
                &format!("/ab/{}", segment(&feature.feature_id)),
                &feature.feature_id,
            ),
            status(&feature.status),
            escape(&format!("{} %", feature.rollout_percent)),
            escape(&feature.samples.to_string()),
            escape(
                &feature
                    .mrr_delta
                    .map_or_else(|| "–".into(), |delta| format!("{delta:+.3}")),
            ),
            decision(feature.decision),
            escape(&feature.description),
        ]
    });
    let header = [
        "feature",
        "state",
        "rollout",
        "compared",
        "change of MRR",
        "test",
        "what it is",
    ];
    let mut body = vec![table_of(&header, &[2, 3, 4], rows)];
    for (feature, why) in &found.unfit {
        body.push(verdict("bad", &format!("{feature} fits no longer:"), why));
    }
    frame("/ab", "A/B tests", &body)
}

fn status(word: &str) -> Html {
    let class = match word {
        "graduated" => "good",
        "rejected" => "bad",
        "paused" => "unsure",
        _ => "plain",
    };
    badge(class, word)
}

fn decision(decision: Decision) -> Html {
    match decision {
        Decision::Continue => badge("plain", "undecided"),
        Decision::AcceptTreatment => badge("good", "better"),
        Decision::AcceptControl => badge("bad", "not better"),
    }
}

/// One feature.
pub(super) fn one(found: &AbStatus) -> String {
    let (class, word) = match found.checklist.verdict {
        GraduationVerdict::Graduate => ("good", "It may graduate."),
        GraduationVerdict::Refuse => ("bad", "It may not graduate."),
        GraduationVerdict::Undecided => ("unsure", "It may not graduate yet."),
    };
    let mut body = vec![verdict(class, word, &found.feature.description)];
    body.push(Html(format!(
        "<p>{} {}</p>",
        status(&found.status),
        decision(found.test.decision)
    )));
    body.push(evidence(found));
    if let (Some(delta), Some(bounds)) = (found.test.mrr_delta, found.test.interval) {
        body.push(intervals(
            "Change of the reciprocal rank, with an interval that holds at all times",
            &[Ranged {
                label: found.feature.feature_id.clone(),
                value: delta,
                interval: Some((bounds.low, bounds.high)),
                hint: format!("{delta:+.3} ({:+.3} to {:+.3})", bounds.low, bounds.high),
            }],
        ));
    }
    body.push(section("What it takes to graduate", &[checklist(found)]));
    body.push(section("Shadow runs", &[shadow(&found.shadow)]));
    if found.status == "running" {
        body.push(section(
            "Decide",
            &[command(&format!(
                "satiety ab graduate {}",
                found.feature.feature_id
            ))],
        ));
    }
    frame("/ab", &format!("Feature {}", found.feature.feature_id), &body)
}

/// The evidence beside the boundaries that it must cross.
fn evidence(found: &AbStatus) -> Html {
    let test = &found.test;
    let last = test.history.len().max(1);
    let places: Vec<String> = (1..=test.history.len())
        .map(|point| (test.samples * point as u64 / last as u64).to_string())
        .collect();
    let told = paragraph(&format!(
        "{} queries compared, a decision from {} on. Log-evidence {}, e-value {}, p {}.",
        test.samples,
        test.min_samples,
        figure(test.log_likelihood_ratio),
        figure(test.e_value),
        figure(test.p_value)
    ));
    let chart = lines(&Lines {
        title: "Evidence for the feature, and where it decides".into(),
        axis: "queries compared",
        places,
        series: vec![Series::new(
            "log-evidence",
            test.history.iter().map(|value| Some(*value)).collect(),
        )],
        thresholds: vec![
            Threshold {
                name: "better above".into(),
                value: test.upper_bound,
            },
            Threshold {
                name: "not better below".into(),
                value: test.lower_bound,
            },
        ],
        range: None,
    });
    section("The sequential test", &[told, chart])
}

fn checklist(found: &AbStatus) -> Html {
    let rows = found.checklist.checks.iter().map(|check| {
        let mark = match check.check {
            Check::Pass => badge("good", "holds"),
            Check::Fail => badge("bad", "does not hold"),
            Check::Undecided => badge("unsure", "not known yet"),
        };
        vec![escape(&check.name.replace('_', " ")), mark, escape(&check.reason)]
    });
    table_of(&["condition", "state", "why"], &[], rows)
}

fn shadow(summary: &ShadowSummary) -> Html {
    let ms = |value: Option<[f64; 2]>| {
        value.map_or_else(
            || "–".into(),
            |[middle, high]| format!("{middle:.1} ms in the middle, 95 % below {high:.1} ms"),
        )
    };
    let [identical, minor, major, incompatible] = summary.classes;
    let rows = [
        (
            "questions run with both pipelines",
            summary.counts.runs.to_string(),
        ),
        ("counted by the test", summary.counted.to_string()),
        (
            "not counted: not known yet what was relevant, or decided before",
            summary.counts.open.to_string(),
        ),
        ("failed or ran out of time", summary.counts.failed.to_string()),
        (
            "the lists were",
            format!("{identical} times identical, {minor} minor, {major} major, {incompatible} incompatible"),
        ),
        ("same first result", percent(summary.top_result_agreement)),
        ("overlap of the lists (Jaccard)", figure(summary.mean_set_overlap)),
        (
            "agreement of their order (Kendall's tau)",
            figure(summary.mean_rank_correlation),
        ),
        ("time as it is", ms(summary.control_latency_ms)),
        ("time with the feature", ms(summary.treatment_latency_ms)),
        ("last failure", summary.last_failure.clone().unwrap_or_default()),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    table(
        &["what", "found"],
        &[],
        rows.map(|(name, value)| vec![name.to_owned(), value]),
    )
}
