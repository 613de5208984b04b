//! `satiety bench`: runs suites of cases against agents, models, commands and tools, and compares runs.

mod import;
pub(super) mod init;
mod label;
pub(super) mod run;
pub(super) mod show;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use satiety::bench::report::{junit_xml, prometheus_text, skill_benchmark};
use satiety::bench::{
    AblationSettings, AblationVerdict, GatePolicy, GateReport, GateVerdict, Margin, SandboxRequirement,
    suite_schema,
};
use satiety_engine::Engine;
use satiety_engine::bench::limits::Limits;
use satiety_engine::bench::{
    AblationRequest, AcceptRequest, CompareRunsRequest, FileAccess, ResultOptions, RunBenchRequest,
    VerdictOverride,
};
use satiety_report::document::link;
use satiety_report::documents::bench::{RunReport, runs};
use satiety_report::{Block, markdown};
use satiety_server::dashboard::{Selection, export};

use crate::args::{
    Bench, BenchAblationArgs, BenchBaselineArgs, BenchCheckArgs, BenchCompareArgs, BenchHowArgs,
    BenchListArgs, BenchReportArgs, GatePolicyArgs, ReportFiles,
};
use crate::exit::Exit;
use crate::failure::{Failure, warn_all};
use crate::printer::Printer;
use crate::settings::Settings;

pub(super) use run::stop_on_interrupt;

pub(super) async fn run(
    command: Bench,
    engine: &Engine,
    settings: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    match command {
        Bench::Run(arguments) => Box::pin(run::run(*arguments, engine, settings, printer)).await,
        Bench::Cancel { run } => {
            printer.answer(&engine.bench().cancel(&run).await?)?;
            Ok(Exit::Done)
        }
        Bench::Compare(arguments) => Box::pin(compare(arguments, engine, printer)).await,
        Bench::Baseline(arguments) => baseline(arguments, engine, printer).await,
        Bench::Ablation(arguments) => ablation(arguments, engine, settings, printer).await,
        Bench::Report(arguments) => report(arguments, engine, printer).await,
        Bench::Check(arguments) => check(&arguments, engine, printer),
        Bench::List(arguments) => list(arguments, engine, printer).await,
        Bench::Init(arguments) => init::run(&arguments.folder, printer),
        Bench::Import(arguments) => import::import(arguments, engine, printer).await,
        Bench::Export(arguments) => import::export(arguments, engine, printer).await,
        Bench::Label(arguments) => label::run(arguments, engine, printer).await,
        Bench::FromFailure(arguments) => import::from_failure(arguments, engine, printer),
        Bench::Scrub(arguments) => import::scrub(arguments, engine, printer),
    }
}

async fn compare(arguments: BenchCompareArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let (policy, accept_regression) = policy(arguments.policy)?;
    let compared = engine
        .bench()
        .compare_files(
            CompareRunsRequest {
                baseline: arguments.baseline,
                candidate: arguments.candidate,
                policy,
                record: true,
                accept_regression,
            },
            &import::result_options(arguments.results),
        )
        .await?;
    warn_all(&compared.warnings);
    if let Some(directory) = &arguments.html {
        let (baseline, candidate) = &compared.runs;
        let runs = vec![baseline.run_id.clone(), candidate.run_id.clone()];
        export_pages(engine, &Selection::Comparison(runs), directory, printer).await?;
    }
    printer.answer(&compared)?;
    Ok(gate_exit(&compared.report, compared.accepted.is_some()))
}

async fn baseline(arguments: BenchBaselineArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let accepted = engine
        .bench()
        .accept(AcceptRequest {
            run: arguments.run,
            suite: arguments.suite,
            accepted: VerdictOverride {
                by: who(arguments.by)?,
                reason: arguments.reason,
            },
            options: ResultOptions {
                suite_id: arguments.suite_id,
                ..import::result_options(arguments.results)
            },
        })
        .await?;
    warn_all(&accepted.warnings);
    printer.answer(&accepted)?;
    Ok(Exit::Done)
}

async fn ablation(
    arguments: BenchAblationArgs,
    engine: &Engine,
    configured: &Settings,
    printer: &Printer,
) -> Result<Exit, Failure> {
    let suites = match &arguments.all {
        Some(folder) => suites_below(engine, folder)?,
        None => arguments.suite,
    };
    let mut settings = AblationSettings::default();
    if !arguments.metric.is_empty() {
        settings.metrics = margins(&arguments.metric)?;
    }
    let request = AblationRequest {
        targets: arguments.targets,
        suites,
        tag: arguments.tag,
        runs: arguments.runs,
        settings,
        options: options(arguments.how, configured.sandbox.for_plain_runs()),
    };
    let (stop, bar) = (run::stop_on_interrupt(), run::Bar::new(printer));
    let ablated = engine
        .bench()
        .ablation(request, &stop, |seen| bar.show(seen))
        .await?;
    bar.finish();
    printer.answer(&ablated)?;
    if ablated.interrupted {
        return Ok(Exit::Interrupted);
    }
    let verdicts = || ablated.report.variants.iter().map(|variant| variant.verdict);
    Ok(if verdicts().any(|verdict| verdict == AblationVerdict::Harmful) {
        Exit::CheckFailed
    } else if verdicts().any(|verdict| verdict == AblationVerdict::Inconclusive) {
        Exit::Inconclusive
    } else {
        Exit::Done
    })
}

async fn report(arguments: BenchReportArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    let options = import::result_options(arguments.results);
    let (run, notes) = engine.bench().run_or_file(&arguments.run, &options).await?;
    warn_all(&notes);
    // A report about a file needs no database.
    let server = if Path::new(&arguments.run).is_file() {
        None
    } else {
        engine.database().page_address("").await
    };
    let report = RunReport {
        more: page_link(server.as_deref(), &run.run_id).into_iter().collect(),
        ..RunReport::new(&run)
    };
    write_reports(&arguments.files, vec![report])?;
    if let Some(directory) = &arguments.files.html {
        export_pages(engine, &Selection::Run(run.run_id.clone()), directory, printer).await?;
    }
    printer.answer(&show::FullRun(run))?;
    Ok(Exit::Done)
}

fn check(arguments: &BenchCheckArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    if arguments.schema {
        let text = serde_json::to_string_pretty(&suite_schema())
            .map_err(|error| Failure::environment(format!("cannot write JSON: {error}"), None))?;
        printer.text(&text)?;
        return Ok(Exit::Done);
    }
    let found = engine.bench().list(&arguments.path)?;
    let bad = found.suites.iter().any(|suite| !suite.problems.is_empty());
    let none = found.suites.is_empty();
    printer.answer(&show::Checked(found))?;
    if none {
        return Err(Failure::bad_input(
            format!("no suite found at or below {}", arguments.path.display()),
            "create one with `satiety bench init DIR`",
        ));
    }
    Ok(if bad { Exit::BadInput } else { Exit::Done })
}

async fn list(arguments: BenchListArgs, engine: &Engine, printer: &Printer) -> Result<Exit, Failure> {
    if arguments.runs {
        let runs = engine
            .bench()
            .runs(arguments.suite.as_deref(), arguments.limit)
            .await?;
        printer.answer(&show::RunList { runs })?;
    } else {
        printer.answer(&show::Checked(engine.bench().list(&arguments.path)?))?;
    }
    Ok(Exit::Done)
}

/// Exit code of a gate; an accepted regression passes.
fn gate_exit(report: &GateReport, accepted: bool) -> Exit {
    match report.verdict {
        GateVerdict::Pass => Exit::Done,
        GateVerdict::Regression if accepted => Exit::Done,
        GateVerdict::Regression => Exit::CheckFailed,
        GateVerdict::Inconclusive => Exit::Inconclusive,
    }
}

fn policy(arguments: GatePolicyArgs) -> Result<(GatePolicy, Option<VerdictOverride>), Failure> {
    let accepted = match arguments.accept_regression {
        Some(reason) => Some(VerdictOverride {
            by: who(arguments.by)?,
            reason,
        }),
        None => None,
    };
    let policy = GatePolicy {
        alpha: arguments.alpha,
        margin: arguments.margin,
        latency_across_machines: arguments.latency_across_machines,
        ..GatePolicy::default()
    };
    Ok((policy, accepted))
}

/// Name recorded with an action.
pub(super) fn who(named: Option<String>) -> Result<String, Failure> {
    named
        .or_else(|| std::env::var("USER").ok())
        .filter(|name| !name.trim().is_empty())
        .or_else(git_user)
        .ok_or_else(|| Failure::bad_input("a name is required for the record", "set one with --by"))
}

/// User name that git is configured with.
fn git_user() -> Option<String> {
    let output = std::process::Command::new("git")
        .args(["config", "user.name"])
        .output()
        .ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// Options for calling targets; `default` is the sandbox requirement without a flag.
pub(super) fn options(how: BenchHowArgs, default: Option<SandboxRequirement>) -> RunBenchRequest {
    RunBenchRequest {
        cases: how.cases,
        judges: how.judge,
        limits: Limits {
            concurrency: how.concurrency,
            requests_per_minute: how.rpm,
            tokens_per_minute: how.tpm,
            max_retries: how.retries,
            ..Limits::default()
        },
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "float-to-int casts saturate"
        )]
        timeout_ms: how.timeout.map(|seconds| (seconds * 1000.0).max(1.0) as u64),
        seed: how.seed,
        sandbox: match (how.sandbox, how.no_sandbox) {
            (true, _) => Some(SandboxRequirement::Require),
            (_, true) => Some(SandboxRequirement::Off),
            _ => default,
        },
        sandbox_is_explicit: how.sandbox,
        cache: how.cache,
        keep_workdirs: how.keep_workdirs,
        environment: std::env::vars().collect(),
        files: FileAccess::Machine,
        ..RunBenchRequest::default()
    }
}

/// All runnable suites below a directory.
fn suites_below(engine: &Engine, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let found = engine.bench().list(folder)?;
    if found.suites.is_empty() {
        return Err(Failure::bad_input(
            format!("no suite found below {}", folder.display()),
            "create one with `satiety bench init DIR`",
        ));
    }
    Ok(found.suites.into_iter().map(|suite| suite.file.into()).collect())
}

/// Parses margins such as `pass=0.05` or `latency_ms=20%`.
fn margins(texts: &[String]) -> Result<BTreeMap<String, Margin>, Failure> {
    let mut margins = BTreeMap::new();
    for text in texts {
        let wrong = || {
            Failure::bad_input(
                format!("cannot parse margin `{text}` (expected METRIC=MARGIN)"),
                "use pass=0.05, or latency_ms=20% for a share of the control",
            )
        };
        let (name, margin) = text.split_once('=').ok_or_else(wrong)?;
        let (number, share) = match margin.strip_suffix('%') {
            Some(number) => (number, true),
            None => (margin, false),
        };
        let number: f64 = number
            .trim()
            .parse()
            .ok()
            .filter(|number| *number > 0.0)
            .ok_or_else(wrong)?;
        let margin = if share {
            Margin::Relative(number / 100.0)
        } else {
            Margin::Absolute(number)
        };
        margins.insert(name.trim().to_owned(), margin);
    }
    Ok(margins)
}

/// Link to the page of a run, if a server runs on the same database.
pub(super) fn page_link(server: Option<&str>, run_id: &str) -> Option<Block> {
    let page = format!("{}/bench/runs/{run_id}", server?);
    Some(Block::Text(link(page, "Open this run in the dashboard")))
}

/// Writes pages of stored runs as files.
pub(super) async fn export_pages(
    engine: &Engine,
    selection: &Selection,
    directory: &Path,
    printer: &Printer,
) -> Result<(), Failure> {
    let ids = match selection {
        Selection::Run(id) => std::slice::from_ref(id),
        Selection::Comparison(ids) => ids,
    };
    for id in ids {
        if !engine.bench().is_stored(id).await? {
            return Err(Failure::bad_input(
                format!("cannot write pages of run {id}: it is not in the database"),
                "store the results first with `satiety bench import FILE`",
            ));
        }
    }
    let exported = export(engine, selection, directory).await.map_err(|error| {
        Failure::environment(
            error.to_string(),
            Some("choose a directory that can be written to".into()),
        )
    })?;
    let kilobytes = exported.bytes.div_ceil(1000);
    printer.note(&format!(
        "wrote {} pages ({kilobytes} kB): {}",
        exported.pages, exported.index
    ));
    if exported.left_out > 0 {
        warn_all([format!(
            "{} linked pages were left out: there are too many",
            exported.left_out
        )]);
    }
    Ok(())
}

/// Writes the requested reports about runs, one per suite.
fn write_reports(files: &ReportFiles, reports: Vec<RunReport<'_>>) -> Result<(), Failure> {
    if let Some(path) = &files.junit {
        fs_err::write(path, junit_xml(reports.iter().map(|report| report.run)))?;
    }
    if let Some(path) = &files.prometheus {
        let gated: Vec<_> = reports.iter().map(|report| (report.run, report.gate)).collect();
        fs_err::write(path, prometheus_text(&gated))?;
    }
    if let (Some(path), Some(last)) = (&files.skill_json, reports.last()) {
        let run = last.run;
        let snapshot = |key: &str| run.config_snapshot.get(key);
        // `SKILL/evals/evals.json` or `SKILL/benchmarks/suite.json`
        let skill =
            snapshot("suite_file").and_then(|file| Path::new(file.as_str()?).parent()?.parent()?.to_str());
        let model = snapshot("target").and_then(|target| target.get("model")?.as_str());
        let value = skill_benchmark(run, skill.unwrap_or(&run.target), model);
        fs_err::write(path, format!("{value:#}\n"))?;
    }
    if let Some(path) = &files.markdown {
        fs_err::write(path, markdown::render(&runs(reports)))?;
    }
    Ok(())
}
