//! Overview page: what needs a person now, each with the next action, and one card per area.

use satiety::experiment::Decision;
use satiety::harness::{Phase, Verdict};
use satiety_engine::bench::{GateDecision, RunSummary};
use satiety_engine::conversations::ConversationSummary;
use satiety_engine::eviction::ScopeSummary;
use satiety_engine::experiment::ExperimentList;
use satiety_engine::harness::HarnessStatus;
use satiety_engine::memory::MemoryHealth;
use satiety_engine::progress::RunSummary as AgentRunSummary;
use satiety_engine::research::ResearchSummary;
use satiety_engine::retrieval::MeasuredRun;

use jiff::Timestamp;
use satiety_report::document;
use satiety_report::html::{Html, escape, joined, line, link, paragraph, render_inline};

use crate::http::JobView;

use super::bench::{PassIntervals, trend};
use super::shell::{ago, badge, card, command, count, frame, percent, run_tone, segment, signal_tone};

/// Data of each card, or the error.
pub(super) struct Overview {
    /// Regressions that are still open, newest first.
    pub(super) regressions: Vec<GateDecision>,
    /// Recent benchmark runs with results that wait for a person or a judge, and their number.
    pub(super) pending: Vec<(String, i64)>,
    /// Intervals of the pass rates of recent benchmark runs.
    pub(super) intervals: PassIntervals,
    /// Conversations that need a person, newest first.
    pub(super) escalated: Vec<ConversationSummary>,
    /// Agents' runs that should not go on by themselves, newest first.
    pub(super) stuck: Vec<AgentRunSummary>,
    /// Jobs of this server, newest first.
    pub(super) jobs: Vec<JobView>,
    pub(super) conversations: Result<Vec<ConversationSummary>, String>,
    pub(super) agent_runs: Result<Vec<AgentRunSummary>, String>,
    pub(super) research: Result<Vec<ResearchSummary>, String>,
    pub(super) memory: Result<MemoryHealth, String>,
    pub(super) runs: Result<Vec<RunSummary>, String>,
    pub(super) gates: Result<Vec<GateDecision>, String>,
    pub(super) eviction: Result<EvictionState, String>,
    /// `None` if the server has no harness.
    pub(super) harness: Option<Result<HarnessStatus, String>>,
    pub(super) features: Result<ExperimentList, String>,
    pub(super) measured: Result<Option<MeasuredRun>, String>,
}

/// Contexts of agents and what was proposed to drop from them.
pub(super) struct EvictionState {
    /// The contexts that changed last.
    pub(super) recent: Vec<ScopeSummary>,
    /// Proposals without an answer, counted up to [`MAX_OPEN`].
    pub(super) open: i64,
}

/// Maximum number of open proposals that are counted.
pub(super) const MAX_OPEN: u32 = 1000;

impl EvictionState {
    fn open_words(&self) -> String {
        if self.open >= i64::from(MAX_OPEN) {
            return format!("{MAX_OPEN} or more open proposals");
        }
        count(self.open, "open proposal", "open proposals")
    }
}

impl Overview {
    /// Whether the database holds nothing to show yet. An error is something to show.
    fn is_empty(&self) -> bool {
        self.harness.is_none()
            && self.conversations.as_ref().is_ok_and(Vec::is_empty)
            && self.agent_runs.as_ref().is_ok_and(Vec::is_empty)
            && self.research.as_ref().is_ok_and(Vec::is_empty)
            && self.memory.as_ref().is_ok_and(|health| health.memories == 0)
            && self.runs.as_ref().is_ok_and(Vec::is_empty)
            && self.eviction.as_ref().is_ok_and(|found| found.recent.is_empty())
            && self
                .features
                .as_ref()
                .is_ok_and(|found| found.features.is_empty())
            && self.measured.as_ref().is_ok_and(Option::is_none)
    }
}

pub(super) fn page(seen: &Overview, now: Timestamp) -> String {
    if seen.is_empty() {
        return frame("/", "Overview", &[first_steps()]);
    }
    let mut cards = vec![
        conversations(&seen.conversations),
        agent_runs(&seen.agent_runs),
        research(&seen.research),
        memory(&seen.memory),
        retrieval(&seen.measured),
        features(&seen.features),
        bench(seen),
        eviction(&seen.eviction),
    ];
    cards.extend(seen.harness.as_ref().map(harness));
    let body = [
        attention(seen, now),
        Html(format!("<ul class=\"cards\">{}</ul>", joined(&cards))),
    ];
    frame("/", "Overview", &body)
}

/// What to run first, for an empty database.
fn first_steps() -> Html {
    let steps = [
        (
            "Score a conversation or an agent's session log:",
            "satiety score --record FILE",
        ),
        (
            "Run a small benchmark suite:",
            "satiety bench init suites/first\nsatiety bench run suites/first",
        ),
        ("Give an agent a memory, over MCP:", "satiety mcp"),
        (
            "Or look around in the results of the demo:",
            "satiety demo --keep\nsatiety --config satiety-demo/satiety.toml serve",
        ),
    ];
    let steps = steps.map(|(what, run)| Html(format!("<li><p>{}</p>{}</li>", escape(what), command(run))));
    Html(format!(
        "<section>\n<h2>Get started</h2>\n<p>This database is empty. Run one of these, then reload the page.</p>\n\
         <ol>{}</ol>\n</section>",
        joined(&steps)
    ))
}

/// What needs a person now, each with the next action.
fn attention(seen: &Overview, now: Timestamp) -> Html {
    let mut items = Vec::new();
    if let Some(Ok(status)) = &seen.harness {
        let open = status.expansion.as_ref();
        if open.is_some_and(|open| open.phase == Phase::AwaitingApproval) {
            let what = Html("harness expansion".into());
            items.push(item(
                "unsure",
                "needs approval",
                &what,
                &link("/harness", "Review the proposal"),
            ));
        }
        if status
            .measured
            .as_ref()
            .is_some_and(|found| found.verdict == Verdict::Saturated)
        {
            let what = Html("the harness no longer discriminates between versions".into());
            let action = link("/harness", "See which cases always pass");
            items.push(item("bad", "saturated", &what, &action));
        }
        items.extend(saturated_suites(status));
    }
    items.extend(regressions(seen, now));
    items.extend(agents(seen, now));
    for one in &seen.escalated {
        let to = format!("/conversations/{}", segment(&one.conversation_id));
        let name = if one.topic.is_empty() {
            &one.conversation_id
        } else {
            &one.topic
        };
        let what = Html(format!("conversation “{}”", escape(name)));
        items.push(item(
            "unsure",
            "escalate",
            &what,
            &link(&to, "Read why it needs a person"),
        ));
    }
    let features = seen.features.iter().flat_map(|found| &found.features);
    for one in features.filter(|one| one.status == "running" && one.decision != Decision::Continue) {
        let to = format!("/ab/{}", segment(&one.feature_id));
        let what = Html(format!("experiment {}", escape(&one.feature_id)));
        items.push(item(
            "unsure",
            "decided",
            &what,
            &link(&to, "See the evidence, then graduate or reject"),
        ));
    }
    if let Ok(health) = &seen.memory
        && health.memories > 0
        && let Some(why) = &health.degraded
    {
        let what = render_inline(why);
        items.push(item(
            "unsure",
            "memory degraded",
            &what,
            &link("/memory", "Check the memory"),
        ));
    }
    if let Ok(found) = &seen.eviction
        && found.open > 0
    {
        let what = Html(format!("{} to evict items", found.open_words()));
        items.push(item(
            "plain",
            "unanswered",
            &what,
            &link("/eviction", "See what was proposed"),
        ));
    }
    for run in seen
        .runs
        .iter()
        .flatten()
        .filter(|run| run.completed_at.is_none())
    {
        let when = line(&ago(run.started_at, now));
        let what = Html(format!("run of {}, started {when}", escape(&run.suite_id)));
        let to = format!("/bench/runs/{}", segment(&run.run_id));
        items.push(item(
            "plain",
            "incomplete",
            &what,
            &link(&to, "See how far it came"),
        ));
    }
    for (run, results) in &seen.pending {
        let suite = seen.runs.iter().flatten().find(|one| one.run_id == *run);
        let suite = suite.map_or_else(|| escape(run), |one| escape(&one.suite_id));
        let what = Html(format!("{} of {suite}", count(*results, "result", "results")));
        let to = format!("/bench/runs/{}/label", segment(run));
        items.push(item(
            "plain",
            "to label",
            &what,
            &link(&to, "Say whether the answers are right"),
        ));
    }
    for job in seen.jobs.iter().filter(|job| !job.state.is_finished()) {
        let what = Html(format!("job on {}", escape(&job.subject)));
        let to = format!("/bench/jobs/{}", segment(&job.job_id));
        items.push(item("plain", "running", &what, &link(&to, "Follow or stop it")));
    }
    if items.is_empty() {
        return satiety_report::html::verdict(
            "good",
            "All clear.",
            "No saturation, no regressions, no stuck agents, no pending approvals.",
        );
    }
    Html(format!(
        "<section>\n<h2>Needs attention</h2>\n<ul class=\"claims attention\">{}</ul>\n</section>",
        joined(&items)
    ))
}

/// Suites that can no longer show an improvement; if all of them are saturated, the harness is named instead.
fn saturated_suites(status: &HarnessStatus) -> Vec<Html> {
    let is_saturated = |measured: Option<&satiety::harness::Measured>| {
        measured.is_some_and(|found| found.verdict == Verdict::Saturated)
    };
    if is_saturated(status.measured.as_ref()) {
        return Vec::new();
    }
    let suites = status.suites.iter();
    let saturated = suites.filter(|suite| is_saturated(suite.measured.as_ref()));
    saturated
        .map(|suite| {
            let what = Html(format!(
                "suite {} can no longer show an improvement",
                escape(&suite.suite_id)
            ));
            item(
                "unsure",
                "saturated",
                &what,
                &link("/harness", "Add harder cases"),
            )
        })
        .collect()
}

fn regressions(seen: &Overview, now: Timestamp) -> impl Iterator<Item = Html> {
    seen.regressions.iter().map(move |gate| {
        let to = format!(
            "/bench/compare?baseline={}&candidate={}",
            segment(&gate.baseline_run),
            segment(&gate.candidate_run)
        );
        let when = line(&ago(gate.decided_at, now));
        let what = Html(format!("suite {}, {when}", escape(&gate.suite_id)));
        item(
            "bad",
            "regression",
            &what,
            &link(&to, "See which cases got worse"),
        )
    })
}

/// Agents that should not go on by themselves. Older runs have ended, whatever their last signal was.
fn agents(seen: &Overview, now: Timestamp) -> Vec<Html> {
    const RECENT: i64 = 24 * 60 * 60;
    const RUNNING: i64 = 10 * 60;
    let age = |run: &AgentRunSummary| now.as_second() - run.updated_at.as_second();
    let stuck = seen.stuck.iter().filter(|run| age(run) < RECENT);
    stuck
        .map(|run| {
            let state = if age(run) < RUNNING { ", running now" } else { "" };
            let when = line(&ago(run.updated_at, now));
            let name = escape(&run.conversation_id);
            let what = Html(format!("agent run {name}{state}, {when}"));
            let path = format!("/progress/{}", segment(&run.conversation_id));
            let action = match run.first_nudge_step.or(run.first_stop_step) {
                Some(step) => link(
                    &format!("{path}/steps/{step}"),
                    &format!("See step {step}, where the first warning came"),
                ),
                None => link(&path, "See its steps"),
            };
            item("bad", "stuck", &what, &action)
        })
        .collect()
}

/// Entry of the attention list.
fn item(class: &str, word: &str, what: &Html, action: &Html) -> Html {
    Html(format!(
        "<li class=\"{class}\">{} <span>{what}</span> <span class=\"next\">{action}</span></li>",
        badge(class, word)
    ))
}

fn error_card(title: &str, to: &str, why: &str) -> Html {
    card(title, to, &[badge("bad", "unavailable"), paragraph(why)])
}

/// Large number with its label.
fn large(value: &str, label: &str) -> Html {
    Html(format!(
        "<p><span class=\"figure\">{}</span> <span class=\"of\">{}</span></p>",
        escape(value),
        escape(label)
    ))
}

fn conversations(found: &Result<Vec<ConversationSummary>, String>) -> Html {
    let (title, to) = ("Conversations", "/conversations");
    match found {
        Err(why) => error_card(title, to, why),
        Ok(all) if all.is_empty() => card(
            title,
            to,
            &[paragraph(
                "No conversations yet. Run `satiety score --record FILE`.",
            )],
        ),
        Ok(all) => {
            let latest = all.first().map(|one| {
                let name = if one.topic.is_empty() {
                    &one.conversation_id
                } else {
                    &one.topic
                };
                let signal = document::badge(signal_tone(&one.signal), &one.signal);
                Html(format!("<p>{}</p>", line(&signal.then(" ").then(name))))
            });
            let going = all.iter().filter(|one| one.signal == "CONTINUE").count();
            let label = format!(
                "of {} still running",
                count(all.len(), "recent conversation", "recent conversations")
            );
            let running = large(&going.to_string(), &label);
            card(title, to, &[vec![running], latest.into_iter().collect()].concat())
        }
    }
}

/// Whether the latest signal of a run says that the agent should not go on by itself.
fn is_stuck(run: &AgentRunSummary) -> bool {
    matches!(run.signal.as_str(), "STOP" | "ESCALATE")
}

fn agent_runs(found: &Result<Vec<AgentRunSummary>, String>) -> Html {
    let (title, to) = ("Agent runs", "/progress");
    match found {
        Err(why) => error_card(title, to, why),
        Ok(all) => {
            let Some(latest) = all.first() else {
                let hint = "No runs yet. Agents report them with the MCP tool `report_step`.";
                return card(title, to, &[paragraph(hint)]);
            };
            let stuck = all.iter().filter(|run| is_stuck(run)).count();
            let label = format!("of {} stuck", count(all.len(), "recent run", "recent runs"));
            let signal = document::badge(run_tone(&latest.signal), &latest.signal);
            let latest = line(&signal.then(" ").then(&latest.conversation_id));
            let latest = Html(format!("<p>{latest}</p>"));
            card(title, to, &[large(&stuck.to_string(), &label), latest])
        }
    }
}

fn research(found: &Result<Vec<ResearchSummary>, String>) -> Html {
    let (title, to) = ("Research", "/research");
    match found {
        Err(why) => error_card(title, to, why),
        Ok(all) if all.is_empty() => card(
            title,
            to,
            &[paragraph("No runs yet. Run `satiety research TASK --in DIR`.")],
        ),
        Ok(all) => {
            let open = all.iter().filter(|run| run.completed_at.is_none()).count();
            let latest = all.first().map(|run| {
                let why = run.stop_reason.as_deref().unwrap_or("in progress");
                Html(format!("<p>{} {}</p>", badge("plain", why), escape(&run.task)))
            });
            let runs = if all.len() == 1 {
                "recent run"
            } else {
                "recent runs"
            };
            let label = match open {
                0 => format!("{runs}, complete"),
                open => format!("{runs}, {open} incomplete"),
            };
            let count = large(&all.len().to_string(), &label);
            card(title, to, &[vec![count], latest.into_iter().collect()].concat())
        }
    }
}

fn memory(found: &Result<MemoryHealth, String>) -> Html {
    match found {
        Err(why) => error_card("Memory", "/memory", why),
        Ok(health) if health.memories == 0 => card(
            "Memory",
            "/memory",
            &[paragraph("No memories yet. Run `satiety memory index DIR`.")],
        ),
        Ok(health) => {
            let state = match &health.degraded {
                Some(why) => Html(format!(
                    "<p>{} {}</p>",
                    badge("unsure", "degraded"),
                    render_inline(why)
                )),
                None => Html(format!("<p>{}</p>", badge("good", "healthy"))),
            };
            card(
                "Memory",
                "/memory",
                &[
                    large(
                        &health.memories.to_string(),
                        if health.memories == 1 {
                            "memory"
                        } else {
                            "memories"
                        },
                    ),
                    state,
                ],
            )
        }
    }
}

fn bench(seen: &Overview) -> Html {
    match &seen.runs {
        Err(why) => error_card("Bench", "/bench", why),
        Ok(runs) => {
            let rated = runs.iter().find(|run| run.pass_rate.is_some());
            let latest = rated.or(runs.first()).map_or_else(
                || paragraph("No runs yet. Run `satiety bench run SUITE`."),
                |run| {
                    let label = format!("pass rate of the latest run, {}", run.suite_id);
                    Html(joined(&[
                        large(&percent(run.pass_rate), &label),
                        trend(
                            &run.suite_id,
                            runs.iter().rev().filter(|one| one.suite_id == run.suite_id),
                            &seen.intervals,
                        ),
                    ]))
                },
            );
            let gate = seen
                .gates
                .as_ref()
                .ok()
                .and_then(|gates| gates.first())
                .map(|gate| {
                    let class = match gate.verdict.as_str() {
                        "pass" => "good",
                        "regression" => "bad",
                        _ => "unsure",
                    };
                    Html(format!(
                        "<p>{} latest gate, {}</p>",
                        badge(class, &gate.verdict),
                        escape(&gate.suite_id)
                    ))
                });
            card(
                "Bench",
                "/bench",
                &[vec![latest], gate.into_iter().collect()].concat(),
            )
        }
    }
}

fn retrieval(found: &Result<Option<MeasuredRun>, String>) -> Html {
    match found {
        Err(why) => error_card("Retrieval", "/retrieval", why),
        Ok(None) => card(
            "Retrieval",
            "/retrieval",
            &[paragraph("No runs yet. Run `satiety retrieval run --memory`.")],
        ),
        Ok(Some(run)) => {
            let ndcg = run.figures.get("ndcg_at_10").copied();
            let label = format!("nDCG@10 over {} queries", run.queries);
            card(
                "Retrieval",
                "/retrieval",
                &[large(&super::shell::metric(ndcg), &label)],
            )
        }
    }
}

fn features(found: &Result<ExperimentList, String>) -> Html {
    match found {
        Err(why) => error_card("Experiments", "/ab", why),
        Ok(found) if found.features.is_empty() => card(
            "Experiments",
            "/ab",
            &[paragraph(
                "No experiments yet. Run `satiety ab start --file FILE`.",
            )],
        ),
        Ok(found) => {
            let running = found
                .features
                .iter()
                .filter(|one| one.status == "running")
                .count();
            card(
                "Experiments",
                "/ab",
                &[
                    large(
                        &running.to_string(),
                        if running == 1 {
                            "running experiment"
                        } else {
                            "running experiments"
                        },
                    ),
                    Html(format!("<p>{}</p>", decided(found))),
                ],
            )
        }
    }
}

/// Number of running experiments whose test has decided.
fn decided(found: &ExperimentList) -> Html {
    let running = || found.features.iter().filter(|one| one.status == "running");
    match running().filter(|one| one.decision != Decision::Continue).count() {
        0 => badge("plain", "none decided"),
        number => badge("unsure", &format!("{number} decided")),
    }
}

fn eviction(found: &Result<EvictionState, String>) -> Html {
    match found {
        Err(why) => error_card("Eviction", "/eviction", why),
        Ok(found) if found.recent.is_empty() => card(
            "Eviction",
            "/eviction",
            &[paragraph(
                "No contexts yet. Run `satiety evict add NAME items.json`.",
            )],
        ),
        Ok(found) => {
            let many = found.recent.len();
            let label = format!(
                "{}, {}",
                if many == 1 {
                    "recent context"
                } else {
                    "recent contexts"
                },
                found.open_words()
            );
            card("Eviction", "/eviction", &[large(&many.to_string(), &label)])
        }
    }
}

fn harness(found: &Result<HarnessStatus, String>) -> Html {
    match found {
        Err(why) => error_card("Harness", "/harness", why),
        Ok(status) => {
            let verdict = match status.measured.as_ref().map(|found| found.verdict) {
                Some(Verdict::Discriminates) => badge("good", "discriminates"),
                Some(Verdict::Saturated) => badge("bad", "saturated"),
                Some(Verdict::Underpowered) => badge("unsure", "underpowered"),
                None => badge("plain", "not measured"),
            };
            let cycles = status.cycles_tracked as usize;
            let mean = if cycles == 0 {
                paragraph("No cycles yet. Run `satiety harness record` after each run of the suites.")
            } else {
                large(
                    &format!("{:.2}", status.rolling_metrics.avg_saturation_score),
                    &format!(
                        "mean saturation over {}, 0 to 1",
                        count(cycles, "cycle", "cycles")
                    ),
                )
            };
            card("Harness", "/harness", &[mean, Html(format!("<p>{verdict}</p>"))])
        }
    }
}
