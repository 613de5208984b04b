//! Reports on the state of a harness and its cycles.

use satiety::bench::Direction;
use satiety::harness::cycles::Trend;
use satiety::harness::{
    Action, Change, Consistency, Driver, Level, Measured, Rigor, SignalMetrics, SignalScore, SignalSettings,
    Verdict, score,
};
use satiety_report::document::{badge, or_dash, percent};
use satiety_report::series::{Lines, Series, Threshold};
use satiety_report::terminal::sparkline;
use satiety_report::{Block, Chart, Document, Medium, Table, Text, Tone, row};

use super::{HarnessStatus, RecordedCycle, SuiteState, ThresholdState};

/// Maximum number of changes listed in a terminal.
const MAX_CHANGES: usize = 30;
/// Maximum number of cases of one kind on a page.
const MAX_CASES: usize = 200;
/// Number of hash characters shown.
const SHORT_HASH_LENGTH: usize = 12;
/// Names of the saturation levels, in order.
const LEVELS: [&str; 3] = ["elevated", "high", "critical"];

impl HarnessStatus {
    /// Report with levels, the window, suites, signals and thresholds.
    pub fn document(&self) -> Document {
        Document::new("", self.blocks(|case| case.into()))
    }

    /// The same with cases named by a function, such as one that links them.
    pub fn blocks(&self, case: impl Fn(&str) -> Text) -> Vec<Block> {
        let recorded = match self.recorded {
            Some(true) => badge(Tone::Good, "recorded"),
            Some(false) => badge(Tone::Unsure, "not the recorded one"),
            None => badge(Tone::Unsure, "not recorded yet"),
        };
        let version = Text::from(format!("{}  version {} (", self.folder, short(&self.version)));
        let rolling = &self.rolling_metrics;
        let newest = self.history.last().copied();
        let fields = [
            ("harness", Some(version.then(recorded).then(")"))),
            (
                "level",
                newest.map(|newest| at(newest).then(format!("  {}", trend(rolling.saturation_trend)))),
            ),
            (
                "window",
                newest.map(|_| {
                    Text::from(format!(
                        "{} of 20 cycles, average {:.2}; {} HIGH or above in a row, {} CRITICAL",
                        self.cycles_tracked,
                        rolling.avg_saturation_score,
                        rolling.consecutive_high_count,
                        rolling.consecutive_critical_count,
                    ))
                }),
            ),
            (
                "unverified",
                (self.unverified_cycles > 0).then(|| {
                    let count = self.unverified_cycles;
                    format!("{count} cycles: metrics from a file can raise an alarm, never lower one").into()
                }),
            ),
            (
                "follows",
                (self.driver == Driver::Signals).then(|| "the five signals (harness.driver)".into()),
            ),
            ("action", Some(action(&self.consistency))),
        ];
        let mut blocks = vec![standing(self.measured.as_ref(), self.not_measured.as_deref())];
        blocks.push(Block::fields(fields));
        blocks.push(curve(self.driver, &self.history));
        blocks.extend(suites(&self.suites));
        blocks.extend(self.measured.as_ref().map(|measured| dead(measured, case)));
        if let Some(evidence) = &self.evidence {
            let significance = match evidence.shown_after {
                Some(_) => "significant",
                None => "not significant",
            };
            blocks.push(Block::text(format!(
                "{} of {} results over all versions failed. Evidence that fewer than {:.0} % fail: e-value {} \
                 ({significance}; 20 is required)",
                evidence.failures,
                evidence.results,
                100.0 * evidence.rate,
                e_value(evidence.now.ln_e)
            )));
        }
        blocks.extend(signals_now(&self.metrics));
        blocks.extend(thresholds(&self.thresholds));
        if let Some(drift) = &self.drift {
            let title = "The files differ from the recorded harness";
            blocks.push(Block::section(title, vec![changes(&drift.changes)]));
        }
        blocks.push(Block::Note(Tone::Plain, "next".into(), (&self.next).into()));
        blocks
    }
}

impl RecordedCycle {
    /// Report on the cycle and the resulting action.
    pub fn document(&self) -> Document {
        let unverified = if self.snapshot.unverified {
            "  (unverified: metrics from a file can raise an alarm, never lower one)"
        } else {
            ""
        };
        let version = short(&self.snapshot.harness_version);
        let title = format!("{}  of version {version}{unverified}", self.snapshot.cycle_id);
        let measured = self.measured.as_ref();
        let mut parts = vec![Block::fields([
            (
                "measured",
                measured.map(|measured| at(measured.headroom.saturation)),
            ),
            ("signals", Some(at(self.signals.score))),
            ("window", Some(window(self).into())),
            ("action", Some(action(&self.consistency))),
        ])];
        parts.extend(measured.map(|measured| standing(Some(measured), None)));
        parts.push(signals(&self.signals));
        parts.extend(suites(&self.suites));
        parts.extend(thresholds(&self.thresholds));
        parts.extend(self.notes.iter().map(Block::note));
        if let Some(diff) = &self.adopted {
            let title = "The harness changed since the previous cycle; a new window begins";
            parts.push(Block::section(title, vec![changes(&diff.changes)]));
        }
        if let (Some(id), Action::TriggerExpansionResearch) = (&self.expansion_id, self.consistency.action) {
            let next = format!("expansion {id} is open; propose additions with `satiety harness expand`");
            parts.push(Block::Note(Tone::Plain, "next".into(), next.into()));
        }
        Document::new("", vec![Block::section(Text::from(title).then(""), parts)])
    }

    /// One-line summary of the cycle, shown next to another result.
    pub fn line(&self) -> Text {
        let (score, level) = self.snapshot.driving(Driver::Measured);
        let curve = sparkline(&self.history);
        let summary = level_badge(level).then(format!(" {score:.2} {curve} ("));
        Text::from("harness: ")
            .then(summary)
            .then(action(&self.consistency))
            .then(")")
    }
}

fn window(cycle: &RecordedCycle) -> String {
    let direction = trend(cycle.rolling_metrics.saturation_trend);
    format!("{}  {direction}", sparkline(&cycle.history))
}

fn short(hash: &str) -> &str {
    hash.get(..SHORT_HASH_LENGTH).unwrap_or(hash)
}

/// A score with its level.
fn at(score: f64) -> Text {
    level_badge(Level::of(score, SignalSettings::default().levels)).then(format!("  {score:.2}"))
}

fn level_badge(level: Level) -> Text {
    let tone = match level {
        Level::Normal => Tone::Good,
        Level::Elevated => Tone::Unsure,
        Level::High | Level::Critical => Tone::Bad,
    };
    badge(tone, level.to_string())
}

fn action(consistency: &Consistency) -> Text {
    let word = match consistency.action {
        // A reason says why nothing follows from a bad state.
        Action::Continue if consistency.reason.is_some() => badge(Tone::Plain, "CONTINUE"),
        Action::Continue => badge(Tone::Good, "CONTINUE"),
        Action::FlagForReview => badge(Tone::Unsure, "FLAG_FOR_REVIEW"),
        Action::TriggerExpansionResearch => badge(Tone::Bad, "TRIGGER_EXPANSION_RESEARCH"),
    };
    match &consistency.reason {
        Some(reason) => word.then(format!(": {reason}")),
        None => word,
    }
}

fn trend(trend: Trend) -> &'static str {
    match trend {
        Trend::Increasing => "increasing",
        Trend::Stable => "stable",
        Trend::Decreasing => "decreasing",
    }
}

/// Formats an e-value; large ones by their magnitude.
fn e_value(ln: f64) -> String {
    if ln < 7.0 {
        format!("{:.1}", ln.exp())
    } else {
        format!("10^{:.0}", ln / std::f64::consts::LN_10)
    }
}

fn standing(measured: Option<&Measured>, not_measured: Option<&str>) -> Block {
    let Some(measured) = measured else {
        let why = not_measured.unwrap_or("no runs to measure yet");
        return Block::verdict(Tone::Unsure, "Not measured", why, &[]);
    };
    let (tone, word, sentence) = match measured.verdict {
        Verdict::Discriminates => (
            Tone::Good,
            "Discriminates",
            "The harness still distinguishes versions",
        ),
        Verdict::Saturated => (
            Tone::Bad,
            "Saturated",
            "The suites can no longer show an improvement",
        ),
        Verdict::Underpowered => (Tone::Unsure, "Underpowered", "Too few results to decide"),
    };
    Block::verdict(tone, word, sentence, &measured.reasons)
}

fn curve(driver: Driver, history: &[f64]) -> Block {
    let followed = match driver {
        Driver::Measured => "the measured saturation",
        Driver::Signals => "the specification's score",
    };
    let levels = LEVELS.iter().zip(SignalSettings::default().levels);
    let lines = Lines {
        thresholds: levels
            .map(|(name, value)| Threshold {
                name: (*name).into(),
                value,
            })
            .collect(),
        ..Lines::shares(
            format!("Saturation over cycles: {followed}"),
            "cycle",
            (1..=history.len()).map(|cycle| cycle.to_string()).collect(),
            vec![Series::new(
                "saturation",
                history.iter().map(|score| Some(*score)).collect(),
            )],
        )
    };
    Block::Chart(Chart::Lines(lines))
}

fn suites(suites: &[SuiteState]) -> Option<Block> {
    let rows = suites.iter().map(|suite| {
        let measured = suite.measured.as_ref();
        let said = match (measured.map(|measured| measured.verdict), &suite.not_measured) {
            (Some(verdict @ Verdict::Discriminates), _) => badge(Tone::Good, verdict.to_string()),
            (Some(verdict @ Verdict::Underpowered), _) => badge(Tone::Unsure, verdict.to_string()),
            (Some(verdict @ Verdict::Saturated), _) => badge(Tone::Bad, verdict.to_string()),
            (None, Some(why)) => why.into(),
            (None, None) => "-".into(),
        };
        row![
            &suite.suite_id,
            suite.cases,
            suite.versions,
            percent(suite.pass_rate),
            percent(measured.map(|measured| measured.headroom.saturation)),
            percent(measured.and_then(|measured| measured.items.dead_share)),
            said,
        ]
    });
    let header = [
        "suite",
        "cases",
        "runs",
        "passed",
        "saturation",
        "dead cases",
        "verdict",
    ];
    let table = Table::new(&header, &[1, 2, 3, 4, 5], rows);
    (!suites.is_empty()).then_some(Block::Table(table))
}

/// Cases that do not distinguish versions; listed on pages only.
fn dead(measured: &Measured, case: impl Fn(&str) -> Text) -> Block {
    let items = &measured.items;
    let summary = match items.dead_share {
        Some(_) => format!(
            "{} of the cases do not distinguish any of the last {} versions.",
            percent(items.dead_share),
            items.versions
        ),
        None => format!("{} versions are too few to consider a case dead.", items.versions),
    };
    let mut parts = vec![Block::text(summary)];
    for (name, cases) in [
        ("Always passed", &items.always_pass),
        ("Never passed", &items.never_pass),
        ("Flaky", &items.flaky),
    ] {
        if !cases.is_empty() {
            parts.push(Block::details(
                format!("{name}: {}", cases.len()),
                case_list(cases, &case),
            ));
        }
    }
    Block::Only(Medium::Page, vec![Block::section("Dead cases", parts)])
}

/// List of cases, which may be long.
fn case_list(cases: &[String], case: impl Fn(&str) -> Text) -> Vec<Block> {
    let listed = cases.iter().take(MAX_CASES).map(|name| case(name));
    let mut parts = vec![Block::List(listed.collect())];
    if cases.len() > MAX_CASES {
        parts.push(Block::text(format!(
            "{} more are on the pages of the cycles.",
            cases.len() - MAX_CASES
        )));
    }
    parts
}

fn signals_now(metrics: &SignalMetrics) -> Option<Block> {
    let deltas: Vec<f64> = metrics.improvement_delta.into_iter().collect();
    let score = score(metrics, &deltas, &SignalSettings::default()).ok()?;
    (*metrics != SignalMetrics::default()).then(|| Block::section("Signals now", vec![signals(&score)]))
}

fn signals(score: &SignalScore) -> Block {
    let rows = score.parts.iter().map(|part| {
        row![
            &*part.name,
            or_dash(part.raw, |raw| format!("{raw:.2}")),
            format!("{:.2}", part.normalised),
            format!("x {:.2}", part.weight),
            &*part.reason,
        ]
    });
    Block::Table(Table::new(
        &["signal", "now", "score", "weight", ""],
        &[1, 2, 3],
        rows,
    ))
}

fn thresholds(thresholds: &[ThresholdState]) -> Option<Block> {
    let rows = thresholds.iter().map(|threshold| {
        let relation = match threshold.direction {
            Direction::Higher => ">=",
            Direction::Lower => "<=",
        };
        let state = match threshold.met {
            Some(true) => badge(Tone::Good, "met"),
            Some(false) => badge(Tone::Bad, "missed"),
            None if threshold.found.is_some() => badge(Tone::Unsure, "undecided"),
            None => "no result".into(),
        };
        let reported = threshold.reported_by_target.then_some("reported by the target");
        let notes: Vec<&str> = reported.into_iter().chain(threshold.note.as_deref()).collect();
        row![
            &threshold.name,
            format!("{relation} {}", threshold.value),
            or_dash(threshold.found, |found| format!("{found:.3}")),
            state,
            notes.join("; "),
        ]
    });
    let table = Table::new(&["threshold", "", "now", "", ""], &[2], rows);
    (!thresholds.is_empty()).then_some(Block::Table(table))
}

/// Table of changes and whether they weaken the harness, weakest first.
pub fn changes(all: &[Change]) -> Block {
    let mut rows = Vec::new();
    for rigor in [Rigor::Weaker, Rigor::Incomparable, Rigor::Harder, Rigor::Neutral] {
        let mut of_rigor: Vec<&Change> = all.iter().filter(|change| change.rigor == rigor).collect();
        // Keep a few threshold changes from being hidden by many cases.
        of_rigor.sort_by_key(|change| change.place.starts_with("suites."));
        let word = match rigor {
            Rigor::Weaker => badge(Tone::Bad, "weaker"),
            Rigor::Incomparable => badge(Tone::Unsure, "not comparable"),
            Rigor::Harder => badge(Tone::Good, "harder"),
            Rigor::Neutral => badge(Tone::Plain, "as hard"),
        };
        rows.extend(
            of_rigor
                .iter()
                .map(|change| row![word.clone(), &change.place, &change.reason]),
        );
    }
    Block::Table(Table::new(&["rigor", "change", "reason"], &[], rows).limit(MAX_CHANGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_of_cases_are_cut() {
        let cases: Vec<String> = (0..=MAX_CASES).map(|number| format!("case-{number}")).collect();
        let shown = |cases: &[String]| {
            let document = Document::new("", case_list(cases, |case| case.into()));
            satiety_report::html::blocks(&document.blocks).0
        };
        let all = shown(&cases[1..]);
        assert!(all.contains("case-200") && !all.contains("more are"), "{all}");
        let cut = shown(&cases);
        assert!(!cut.contains("case-200") && cut.contains("1 more are"), "{cut}");
    }
}
