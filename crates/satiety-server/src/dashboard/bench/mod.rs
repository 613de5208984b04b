//! Benchmark pages: suites and runs, one run with its cases, one case with its results, and runs compared.

mod ablation;
mod actions;
mod case;
mod compare;
mod list;
mod run;

use std::collections::HashSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::response::Html;
use axum::routing::get;
use jiff::Timestamp;
use satiety_engine::Engine;
use satiety_engine::bench::{
    CaseCursor, CaseDetail, CaseFilter, CaseListRequest, CaseSort, CompareRunsRequest, MatrixRequest,
    RunFilter, RunHead, RunListRequest,
};

use self::actions::RunActions;
pub(super) use self::list::{PassIntervals, trend};
pub(super) use self::run::outcome;
use super::forms::Visitor;
use super::table::Address;
use super::{ErrorPage, Page, Pairs, ROWS, cursor, list_order, stored_only};
use crate::auth::Scope;
use crate::http::App;

/// Maximum number of suites with a card, and number of runs in the trend of each.
const MAX_SUITES: u32 = 50;
const SUITE_RUNS: u32 = 20;
/// Maximum number of runs that are compared at once.
const MAX_COMPARED: usize = 6;
/// Maximum number of results of two runs for which a page computes the statistics of the gate without being asked.
const MAX_GATE_RESULTS: u64 = 20_000;

pub(super) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/bench", get(run_list))
        .route("/bench/compare", get(comparison))
        .route("/bench/ablations/{id}", get(one_ablation))
        .route("/bench/runs/{id}", get(one_run))
        .route("/bench/runs/{id}/cases/{case}", get(one_case))
        .merge(actions::routes())
}

async fn run_list(State(at): State<Arc<App>>, Query(pairs): Pairs, visitor: Visitor) -> Page {
    let address = Address::new("/bench", pairs);
    let request = RunListRequest {
        filter: RunFilter {
            suite_id: address.get("suite").map(str::to_owned),
            text: address.get("q").map(str::to_owned),
            complete: address.get("state").map(|state| state == "complete"),
            max_pass_rate: number(&address, "below")?.map(|percent| percent / 100.0),
        },
        order: list_order(&address, "rate"),
        after: cursor(&address)?,
        limit: ROWS,
    };
    let bench = at.engine.bench();
    let (page, latest, ablations) = tokio::join!(
        bench.run_page(&request),
        bench.runs_by_suite(MAX_SUITES, SUITE_RUNS),
        bench.ablations(10)
    );
    let latest = latest?;
    let latest = list::LatestRuns {
        intervals: bench.pass_intervals(&latest).await?,
        runs: latest,
    };
    let running = at.jobs.list().into_iter().filter(|job| !job.state.is_finished());
    let more = list::MoreOfList {
        can_start: visitor.has(Scope::Admin) && at.folders.root.is_some(),
        running: running.collect(),
    };
    Ok(Html(list::page(
        &address,
        &page?,
        &latest,
        &ablations?,
        &more,
        Timestamp::now(),
    )))
}

async fn one_ablation(State(at): State<Arc<App>>, Path(id): Path<String>) -> Page {
    let found = at.engine.bench().stored_ablation(&id).await?;
    Ok(Html(ablation::page(&found, Timestamp::now())))
}

async fn one_run(
    State(at): State<Arc<App>>,
    Path(id): Path<String>,
    Query(pairs): Pairs,
    visitor: Visitor,
) -> Page {
    stored_only(&id)?;
    let address = Address::new(format!("/bench/runs/{id}"), pairs);
    let head = at.engine.bench().run_head(&id).await?;
    let actions = RunActions::read(&at, &visitor, &head).await?;
    let page = run_page(&at.engine, &head, &address, Some(&actions)).await?;
    Ok(Html(page))
}

/// Page of a run; without `actions` as an offline file.
pub(super) async fn run_page(
    engine: &Engine,
    head: &RunHead,
    address: &Address,
    actions: Option<&RunActions>,
) -> Result<String, ErrorPage> {
    let request = case_request(head, address)?;
    let page = engine.bench().case_page(&request).await?;
    let now = Timestamp::now();
    let review = actions.map(|actions| actions.render(head, now));
    Ok(run::page(head, address, &page, &request, review, now))
}

/// Cases that an address asks for.
fn case_request(head: &RunHead, address: &Address) -> Result<CaseListRequest, ErrorPage> {
    let baseline = head.baseline.as_ref().map(|baseline| baseline.run_id.clone());
    let text = |name: &str| address.get(name).map(str::to_owned);
    let (sort, descending) = address.sort().unwrap_or(("case", false));
    Ok(CaseListRequest {
        run_id: head.run.run_id.clone(),
        filter: CaseFilter {
            status: text("status"),
            text: text("q"),
            tag: text("tag"),
            min_score: number(address, "min")?,
            max_score: number(address, "max")?,
            flaky: address.get("flaky").is_some(),
            changed_from: baseline.clone().filter(|_| address.get("changed").is_some()),
        },
        sort: match sort {
            "passed" => CaseSort::Passed,
            "score" => CaseSort::Score,
            "latency" => CaseSort::Latency,
            "tokens" => CaseSort::Tokens,
            _ => CaseSort::Case,
        },
        descending,
        after: cursor(address)?.map(|(value, case_id, variant)| CaseCursor {
            value,
            case_id,
            variant,
        }),
        baseline,
        limit: ROWS,
    })
}

async fn one_case(
    State(at): State<Arc<App>>,
    Path((id, case)): Path<(String, String)>,
    Query(pairs): Pairs,
    visitor: Visitor,
) -> Page {
    stored_only(&id)?;
    let address = Address::new("", pairs);
    let found = case_detail(&at.engine, &id, &case, &address).await?;
    let hides = visitor.hides_expectations(&at, &found.run.suite_id);
    Ok(Html(case::page(&found, hides, Timestamp::now())))
}

/// Page of a case as an offline file.
pub(super) async fn case_page(
    engine: &Engine,
    id: &str,
    case: &str,
    address: &Address,
) -> Result<String, ErrorPage> {
    let found = case_detail(engine, id, case, address).await?;
    Ok(case::page(&found, false, Timestamp::now()))
}

async fn case_detail(
    engine: &Engine,
    id: &str,
    case: &str,
    address: &Address,
) -> Result<CaseDetail, ErrorPage> {
    let repeat = address.get("repeat").map(|text| {
        text.parse::<i64>()
            .map_err(|_| ErrorPage::invalid_field("repeat is not a whole number"))
    });
    let chosen = repeat.transpose()?;
    let chosen = chosen.map(|repeat| (address.get("variant").unwrap_or_default(), repeat));
    Ok(engine.bench().case_detail(id, case, chosen).await?)
}

async fn comparison(State(at): State<Arc<App>>, Query(pairs): Pairs) -> Page {
    comparison_page(&at.engine, Address::new("/bench/compare", pairs))
        .await
        .map(Html)
}

/// Page that compares runs.
pub(super) async fn comparison_page(engine: &Engine, mut address: Address) -> Result<String, ErrorPage> {
    let bench = engine.bench();
    let mut runs: Vec<String> = address
        .all("baseline")
        .chain(address.all("candidate"))
        .chain(address.all("run"))
        .map(str::to_owned)
        .collect();
    let mut seen = HashSet::new();
    runs.retain(|run| seen.insert(run.clone()));
    if runs.len() < 2 {
        // The latest run against its baseline, or the named one.
        let mut candidate = runs.pop();
        if candidate.is_none() {
            let latest = bench.runs(None, ROWS).await?;
            // An ablation has several targets and no pass rate of its own.
            let rated = latest.iter().find(|run| run.pass_rate.is_some());
            candidate = rated.or(latest.first()).map(|run| run.run_id.clone());
        }
        let Some(candidate) = candidate else {
            return Ok(compare::nothing("No runs yet."));
        };
        stored_only(&candidate)?;
        let head = bench.run_head(&candidate).await?;
        let Some(baseline) = head.baseline else {
            return Ok(compare::nothing(&format!(
                "Suite {} has only one run.",
                head.run.suite_id
            )));
        };
        runs = vec![baseline.run_id, candidate];
    } else if address.get("baseline").is_none() {
        // Selected in a list that is newest first: the oldest is the baseline.
        runs.sort();
    }
    if runs.len() > MAX_COMPARED {
        return Err(ErrorPage::invalid_field(&format!(
            "at most {MAX_COMPARED} runs can be compared at once"
        )));
    }
    for run in &runs {
        stored_only(run)?;
    }
    // The address names the runs and their order, so that it can be shared.
    let kept = ["all", "after", "statistics"];
    let kept = kept
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), address.get(name)?.to_owned())));
    let roles = std::iter::once("baseline").chain(std::iter::repeat("candidate"));
    let named = roles.zip(&runs).map(|(role, run)| (role.to_owned(), run.clone()));
    address = Address::new("/bench/compare", named.chain(kept).collect());
    let request = MatrixRequest {
        runs: runs.clone(),
        unchanged: address.get("all").is_some(),
        after: cursor(&address)?,
        limit: ROWS as usize,
    };
    let matrix = bench.run_matrix(&request).await?;
    let mut statistics = Vec::new();
    let baseline = &runs[0];
    for candidate in runs.iter().skip(1) {
        let size = bench.result_total(baseline).await? + bench.result_total(candidate).await?;
        if size > MAX_GATE_RESULTS && address.get("statistics").is_none() {
            statistics.push(Err(size));
            continue;
        }
        let request = CompareRunsRequest {
            baseline: baseline.clone(),
            candidate: candidate.clone(),
            policy: satiety::bench::GatePolicy::default(),
            record: false,
            accept_regression: None,
        };
        statistics.push(Ok(bench.compare(request).await?));
    }
    Ok(compare::page(&address, &matrix, &statistics, Timestamp::now()))
}

fn number(address: &Address, name: &str) -> Result<Option<f64>, ErrorPage> {
    address.number(name).map_err(|why| ErrorPage::invalid_field(&why))
}
