//! Benchmark tools: run a suite, show a run, compare two.

use satiety::bench::{BenchmarkRun, BenchmarkSummary, GatePolicy, GateReport, GateVerdict};
use satiety_engine::bench::{CompareRunsRequest, FileAccess, Progress, RunBenchRequest, RunSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};

/// Maximum repeats per case in a run started by an agent.
const MAX_REPEATS: u32 = 100;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "bench_run",
                title: "Run a benchmark suite",
                about: "Run a benchmark suite of this machine in a sandbox and report the results. Call it after a change to an agent or a skill. It takes as long as its cases; a cancelled call keeps finished results.",
                profile: Profile::Full,
                effect: Effect::Runs,
                data: &["summary.flaky", "gate.reasons"],
            },
            |call: Call, request: RunBenchRequest| async move {
                let ran = Box::pin(run(&call, request)).await;
                ran.map_err(|problem| call.redact(problem))
            },
        )
        .hide(&["tags", "seed", "resume", "distributed", "priority"]),
        Tool::new(
            Spec {
                name: "bench_status",
                title: "Benchmark runs",
                about: "List the latest benchmark runs, or get the metrics of one. Call it to see what was measured and when.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &[],
            },
            |call: Call, asked: StatusArgs| async move { status(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "bench_compare",
                title: "Compare two runs",
                about: "Test whether one run is significantly worse or better than another. Call it before you claim that a change helped.",
                profile: Profile::Full,
                effect: Effect::Reads,
                data: &["reasons"],
            },
            |call: Call, asked: CompareArgs| async move {
                call.run_named(&asked.baseline).await?;
                call.run_named(&asked.candidate).await?;
                let request = CompareRunsRequest {
                    baseline: asked.baseline,
                    candidate: asked.candidate,
                    policy: GatePolicy::default(),
                    record: false,
                    accept_regression: None,
                };
                Ok::<GateReport, Problem>(call.engine().bench().compare(request).await?.report)
            },
        ),
    ]
}

/// Metrics of a benchmark run.
#[derive(Serialize, JsonSchema)]
struct RunView {
    run_id: String,
    suite_id: String,
    target: String,
    /// Whether the run stopped before all cases were run.
    interrupted: bool,
    /// Metrics of the run; null if nothing finished.
    summary: Option<RunMetrics>,
    /// Smallest difference that the run can detect.
    power: String,
    /// Result of the regression gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<GateView>,
    /// Resource address of the full report.
    report: String,
}

#[derive(Serialize, JsonSchema)]
struct GateView {
    verdict: GateVerdict,
    reasons: Vec<String>,
}

/// Main metrics of a run.
#[derive(Serialize, JsonSchema)]
struct RunMetrics {
    /// Share of passes among decided results, from 0 to 1.
    pass_rate: Option<f64>,
    /// Its 95 % confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pass_rate_interval: Option<[f64; 2]>,
    cases: u64,
    passed: u64,
    /// Number of failures, including timeouts.
    failed: u64,
    errors: u64,
    mean_latency_ms: Option<f64>,
    p95_latency_ms: Option<f64>,
    /// Ids of cases whose repeats disagree.
    flaky: Vec<String>,
}

fn run_metrics(summary: &BenchmarkSummary) -> RunMetrics {
    RunMetrics {
        pass_rate: summary.pass_rate,
        pass_rate_interval: summary
            .pass_rate_interval
            .as_ref()
            .map(|interval| [interval.low, interval.high]),
        cases: summary.cases,
        passed: summary.counts.pass,
        failed: summary.counts.fail + summary.counts.timeout,
        errors: summary.counts.error,
        mean_latency_ms: summary.mean_latency_ms,
        p95_latency_ms: summary.p95_latency_ms,
        flaky: summary.flaky.clone(),
    }
}

async fn run(call: &Call, mut request: RunBenchRequest) -> Result<RunView, Problem> {
    if request
        .repeats
        .is_some_and(|repeats| !(1..=MAX_REPEATS).contains(&repeats))
    {
        return Err(Problem::new(
            format!("`repeats` must be from 1 to {MAX_REPEATS}"),
            "use fewer repeats and compare several runs",
        ));
    }
    let (suite, _place) = call.suite_named(request.suite).await?;
    request.suite = suite;
    // An agent may name any suite and target it can reach, so its processes run in a sandbox.
    request.sandbox = Some(call.engine().sandbox_requirement());
    request.environment.clone_from(&call.context.environment);
    if !call.is_remote() {
        request.files = FileAccess::Machine;
    }
    let plan = call.engine().bench().plan(request).await?;
    let power = plan.power().text.clone();
    let tell = call.progress.clone();
    let progress = move |seen: Progress| {
        if let Some(tell) = &tell {
            let words = format!(
                "{} passed, {} failed, {} undecided",
                seen.passed, seen.failed, seen.undecided
            );
            tell(seen.done as f64, seen.planned as f64, words);
        }
    };
    let ran = call.engine().bench().execute(plan, &call.stop, progress).await?;
    ran.post.log();
    Ok(RunView {
        report: format!("satiety://bench/{}", ran.run.run_id),
        summary: ran.run.summary.as_ref().map(run_metrics),
        run_id: ran.run.run_id,
        suite_id: ran.run.suite_id,
        target: ran.run.target,
        interrupted: ran.interrupted,
        power,
        gate: ran.gate.map(|report| GateView {
            verdict: report.verdict,
            reasons: report.reasons,
        }),
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StatusArgs {
    /// Run id, or latest; by default the latest runs are listed.
    run: Option<String>,
    /// List only runs of this suite.
    suite: Option<String>,
    /// Maximum number of runs; default 10.
    limit: Option<u32>,
}

/// Benchmark runs, or one of them.
#[derive(Serialize, JsonSchema)]
struct Runs {
    /// Runs in order, latest first.
    runs: Vec<RunSummary>,
    /// Metrics of the requested run.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<RunMetrics>,
}

async fn status(call: &Call, asked: StatusArgs) -> Result<Runs, Problem> {
    let Some(named) = asked.run else {
        let limit = asked.limit.unwrap_or(10).clamp(1, 200);
        return Ok(Runs {
            runs: call.engine().bench().runs(asked.suite.as_deref(), limit).await?,
            summary: None,
        });
    };
    call.run_named(&named).await?;
    let run: BenchmarkRun = call.engine().bench().run(&named).await?;
    Ok(Runs {
        summary: run.summary.as_ref().map(run_metrics),
        runs: vec![RunSummary {
            pass_rate: run.summary.as_ref().and_then(|summary| summary.pass_rate),
            distributed: run
                .config_snapshot
                .get("distributed")
                .is_some_and(|told| *told == true),
            run_id: run.run_id,
            suite_id: run.suite_id,
            target: run.target,
            started_at: run.started_at,
            completed_at: run.completed_at,
        }],
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CompareArgs {
    /// Baseline run: an id, or latest:SUITE.
    baseline: String,
    /// Run to compare with it.
    candidate: String,
}
