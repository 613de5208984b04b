//! How the state of the harness is shown: levels, the window, suites, signals, thresholds.

use std::fmt::Write;

use owo_colors::OwoColorize;
use satiety::bench::Direction;
use satiety::harness::{Action, Driver, Level, SignalMetrics, SignalScore, SignalSettings, score};
use satiety_engine::harness::{HarnessStatus, RecordedCycle, SuiteState, ThresholdState};

use super::changes::changes;
use super::words::{action, coloured, e_value, phase, short, trend, verdict};
use crate::printer::Render;
use crate::table::{sparkline, table};

impl Render for HarnessStatus {
    fn human(&self) -> String {
        let recorded = match self.recorded {
            Some(true) => "recorded".green().to_string(),
            Some(false) => "not the recorded one".yellow().to_string(),
            None => "not recorded yet".yellow().to_string(),
        };
        let mut text = format!(
            "harness   {}  version {} ({recorded})",
            self.folder,
            short(&self.version)
        );
        let rolling = &self.rolling_metrics;
        if let Some(newest) = self.history.last() {
            let level = Level::of(*newest, SignalSettings::default().levels);
            let _ = write!(
                text,
                "\nlevel     {}  {newest:.2}  {}  {}\nwindow    {} of 20 cycles, average {:.2}; {} HIGH or above in a row, {} CRITICAL",
                coloured(level),
                sparkline(&self.history),
                trend(rolling.saturation_trend),
                self.cycles_tracked,
                rolling.avg_saturation_score,
                rolling.consecutive_high_count,
                rolling.consecutive_critical_count,
            );
        }
        if self.unverified_cycles > 0 {
            let _ = write!(
                text,
                "\n          {} of them unverified: metrics from a file raise an alarm and lower none",
                self.unverified_cycles
            );
        }
        if self.driver == Driver::Signals {
            text.push_str("\nfollows   the five signals (harness.driver)");
        }
        let _ = write!(text, "\naction    {}", action(&self.consistency));
        suites(&mut text, &self.suites);
        match (&self.measured, &self.not_measured) {
            (Some(measured), _) => {
                let _ = write!(text, "\n\nall suites  {}", verdict(measured.verdict));
                for reason in &measured.reasons {
                    let _ = write!(text, "\n  {reason}");
                }
            }
            (None, Some(why)) => {
                let _ = write!(text, "\n\nnot measured: {why}");
            }
            (None, None) => {}
        }
        if let Some(evidence) = &self.evidence {
            let _ = write!(
                text,
                "\n  {} of {} results failed; evidence that fewer than {:.0} % fail: {}{}",
                evidence.failures,
                evidence.results,
                100.0 * evidence.rate,
                e_value(evidence.now.ln_e),
                if evidence.shown_after.is_some() {
                    ", which shows it"
                } else {
                    " (20 shows it)"
                }
            );
        }
        metrics(&mut text, &self.metrics);
        thresholds(&mut text, &self.thresholds);
        if let Some(drift) = &self.drift {
            let _ = write!(text, "\n\nthe files differ from the recorded harness:");
            changes(&mut text, &drift.changes);
        }
        if let Some(expansion) = &self.expansion {
            let _ = write!(
                text,
                "\n\nexpansion {}  {}  {}",
                expansion.expansion_id,
                phase(expansion.phase),
                expansion.trigger_reason
            );
        }
        let _ = write!(text, "\n\n{} {}", "next:".cyan().bold(), self.next);
        text
    }
}

impl Render for RecordedCycle {
    fn human(&self) -> String {
        let mut text = format!(
            "{}  of version {}{}\n",
            self.snapshot.cycle_id,
            short(&self.snapshot.harness_version),
            if self.snapshot.unverified {
                "  (unverified: metrics from a file raise an alarm and lower none)"
            } else {
                ""
            }
        );
        if let Some(measured) = &self.measured {
            let _ = write!(
                text,
                "measured  {}  {:.2}  {}",
                coloured(Level::of(
                    measured.headroom.saturation,
                    SignalSettings::default().levels
                )),
                measured.headroom.saturation,
                verdict(measured.verdict),
            );
            for reason in &measured.reasons {
                let _ = write!(text, "\n  {reason}");
            }
            text.push('\n');
        }
        let _ = write!(
            text,
            "signals   {}  {:.2}",
            coloured(self.signals.level),
            self.signals.score
        );
        parts(&mut text, &self.signals);
        suites(&mut text, &self.suites);
        thresholds(&mut text, &self.thresholds);
        for note in &self.notes {
            let _ = write!(text, "\n{} {note}", "note:".yellow());
        }
        if let Some(diff) = &self.adopted {
            let _ = write!(
                text,
                "\n\nthe harness changed since the cycle before, and a new window begins:"
            );
            changes(&mut text, &diff.changes);
        }
        let _ = write!(
            text,
            "\n\nwindow    {}  {}\naction    {}",
            sparkline(&self.history),
            trend(self.rolling_metrics.saturation_trend),
            action(&self.consistency)
        );
        if let (Some(id), Action::TriggerExpansionResearch) = (&self.expansion_id, self.consistency.action) {
            let _ = write!(
                text,
                "\n\n{} expansion {id} is open; propose what to add with `satiety harness expand`",
                "next:".cyan().bold()
            );
        }
        text
    }
}

/// A cycle in a line, beside another answer.
pub(super) fn in_a_line(recorded: &RecordedCycle) -> String {
    let (score, level) = recorded.snapshot.driving(Driver::Measured);
    format!(
        "harness: {} {score:.2} {} ({})",
        coloured(level),
        sparkline(&recorded.history),
        action(&recorded.consistency)
    )
}

fn suites(text: &mut String, suites: &[SuiteState]) {
    if suites.is_empty() {
        return;
    }
    let percent =
        |share: Option<f64>| share.map_or_else(|| "-".into(), |share| format!("{:.0} %", 100.0 * share));
    let rows = suites.iter().map(|suite| {
        let measured = suite.measured.as_ref();
        vec![
            suite.suite_id.clone(),
            suite.cases.to_string(),
            suite.versions.to_string(),
            percent(suite.pass_rate),
            percent(measured.map(|measured| measured.headroom.saturation)),
            percent(measured.and_then(|measured| measured.items.dead_share)),
            match (measured, &suite.not_measured) {
                (Some(measured), _) => verdict(measured.verdict),
                (None, Some(why)) => why.clone(),
                (None, None) => "-".into(),
            },
        ]
    });
    let header = ["suite", "cases", "runs", "passed", "unseen", "dead", "verdict"];
    let _ = write!(text, "\n\n{}", table(&header, &[1, 2, 3, 4, 5], rows));
}

fn metrics(text: &mut String, metrics: &SignalMetrics) {
    let deltas: Vec<f64> = metrics.improvement_delta.into_iter().collect();
    if let Ok(score) = score(metrics, &deltas, &SignalSettings::default())
        && *metrics != SignalMetrics::default()
    {
        let _ = write!(text, "\n\nsignals now");
        parts(text, &score);
    }
}

fn parts(text: &mut String, score: &SignalScore) {
    let rows = score.parts.iter().map(|part| {
        vec![
            format!("  {}", part.name),
            part.raw.map_or_else(|| "-".into(), |raw| format!("{raw:.2}")),
            format!("{:.2}", part.normalised),
            format!("x {:.2}", part.weight),
            part.reason.clone(),
        ]
    });
    let _ = write!(
        text,
        "\n{}",
        table(&["  signal", "now", "score", "weight", ""], &[1, 2, 3], rows)
    );
}

fn thresholds(text: &mut String, thresholds: &[ThresholdState]) {
    if thresholds.is_empty() {
        return;
    }
    let rows = thresholds.iter().map(|threshold| {
        vec![
            threshold.name.clone(),
            format!(
                "{} {}",
                if threshold.direction == Direction::Higher {
                    ">="
                } else {
                    "<="
                },
                threshold.value
            ),
            threshold
                .found
                .map_or_else(|| "-".into(), |found| format!("{found:.3}")),
            match threshold.met {
                Some(true) => "holds".green().to_string(),
                Some(false) => "missed".red().bold().to_string(),
                None if threshold.found.is_some() => "undecided".yellow().to_string(),
                None => "no result".into(),
            },
            {
                let reported = threshold.reported_by_target.then_some("reported by the target");
                let parts: Vec<&str> = reported.into_iter().chain(threshold.note.as_deref()).collect();
                parts.join("; ")
            },
        ]
    });
    let _ = write!(
        text,
        "\n\n{}",
        table(&["threshold", "", "now", "", ""], &[2], rows)
    );
}
