//! The first page: what is saturated, what got worse, what waits for a person.

use satiety::experiment::Decision;
use satiety::harness::{Phase, Verdict};
use satiety_engine::bench::{GateDecision, RunSummary};
use satiety_engine::conversations::ConversationSummary;
use satiety_engine::eviction::ScopeListing;
use satiety_engine::experiment::ExperimentList;
use satiety_engine::harness::HarnessStatus;
use satiety_engine::memory::MemoryHealth;
use satiety_engine::research::ResearchSummary;
use satiety_engine::retrieval::MeasuredRun;

use satiety_report::document;
use satiety_report::html::{Html, escape, joined, line, link, paragraph, told};

use super::shell::{badge, card, count, frame, moment, percent, signal_tone};

/// What each part says, or why it cannot be read.
pub(super) struct Overview {
    pub(super) conversations: Result<Vec<ConversationSummary>, String>,
    pub(super) research: Result<Vec<ResearchSummary>, String>,
    pub(super) memory: Result<MemoryHealth, String>,
    pub(super) runs: Result<Vec<RunSummary>, String>,
    pub(super) gates: Result<Vec<GateDecision>, String>,
    pub(super) scopes: Result<ScopeListing, String>,
    /// Absent where the server has no harness.
    pub(super) harness: Option<Result<HarnessStatus, String>>,
    pub(super) features: Result<ExperimentList, String>,
    pub(super) measured: Result<Option<MeasuredRun>, String>,
}

/// The page.
pub(super) fn page(seen: &Overview) -> String {
    let mut cards = vec![
        conversations(&seen.conversations),
        research(&seen.research),
        memory(&seen.memory),
        bench(&seen.runs, &seen.gates),
        eviction(&seen.scopes),
    ];
    cards.extend(seen.harness.as_ref().map(harness));
    cards.push(retrieval(&seen.measured));
    cards.push(features(&seen.features));
    let body = [
        attention(seen),
        Html(format!("<ul class=\"cards\">{}</ul>", joined(&cards))),
    ];
    frame("/", "Is the next unit still worth it?", &body)
}

/// What somebody should look at.
fn attention(seen: &Overview) -> Html {
    let mut items = Vec::new();
    if let Some(Ok(status)) = &seen.harness {
        let open = status.expansion.as_ref();
        if open.is_some_and(|open| open.phase == Phase::AwaitingApproval) {
            items.push(item(
                "unsure",
                "waits for you",
                &link("/harness", "an expansion of the harness"),
            ));
        }
        if status
            .measured
            .as_ref()
            .is_some_and(|found| found.verdict == Verdict::Saturated)
        {
            items.push(item(
                "bad",
                "saturated",
                &link("/harness", "the harness tells versions apart no more"),
            ));
        }
    }
    for gate in seen.gates.iter().flatten() {
        if gate.verdict == "regression" && gate.accepted_by.is_none() {
            let to = format!(
                "/bench/compare?baseline={}&candidate={}",
                super::shell::segment(&gate.baseline_run),
                super::shell::segment(&gate.candidate_run)
            );
            items.push(item(
                "bad",
                "regression",
                &link(&to, &format!("{}, {}", gate.suite_id, moment(gate.decided_at))),
            ));
        }
    }
    for one in seen
        .conversations
        .iter()
        .flatten()
        .filter(|one| one.signal == "ESCALATE")
    {
        let to = format!("/conversations/{}", super::shell::segment(&one.conversation_id));
        let name = if one.topic.is_empty() {
            &one.conversation_id
        } else {
            &one.topic
        };
        items.push(item("unsure", "escalate", &link(&to, name)));
    }
    let features = seen.features.iter().flat_map(|found| &found.features);
    for one in features.filter(|one| one.status == "running" && one.decision != Decision::Continue) {
        let to = format!("/ab/{}", super::shell::segment(&one.feature_id));
        items.push(item(
            "unsure",
            "decided",
            &link(&to, &format!("the test of {}", one.feature_id)),
        ));
    }
    if items.is_empty() {
        return satiety_report::html::verdict(
            "good",
            "Nothing waits for you.",
            "Nothing is saturated, and nothing got worse.",
        );
    }
    Html(format!(
        "<section>\n<h2>Look at this</h2>\n<ul class=\"claims attention\">{}</ul>\n</section>",
        joined(&items)
    ))
}

/// A line of what to look at.
fn item(class: &str, word: &str, what: &Html) -> Html {
    Html(format!(
        "<li class=\"{class}\">{} {what}</li>",
        badge(class, word)
    ))
}

fn unread(title: &str, to: &str, why: &str) -> Html {
    card(title, to, &[badge("bad", "cannot be read"), paragraph(why)])
}

/// A large figure with what it counts.
fn large(value: &str, of: &str) -> Html {
    Html(format!(
        "<p><span class=\"figure\">{}</span> <span class=\"of\">{}</span></p>",
        escape(value),
        escape(of)
    ))
}

fn conversations(found: &Result<Vec<ConversationSummary>, String>) -> Html {
    let (title, to) = ("Conversations", "/conversations");
    match found {
        Err(why) => unread(title, to, why),
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
            let count = large(&going.to_string(), &format!("of the latest {} go on", all.len()));
            card(title, to, &[vec![count], latest.into_iter().collect()].concat())
        }
    }
}

fn research(found: &Result<Vec<ResearchSummary>, String>) -> Html {
    let (title, to) = ("Research", "/research");
    match found {
        Err(why) => unread(title, to, why),
        Ok(all) => {
            let open = all.iter().filter(|run| run.completed_at.is_none()).count();
            let latest = all.first().map(|run| {
                let why = run.stop_reason.as_deref().unwrap_or("under way");
                Html(format!("<p>{} {}</p>", badge("plain", why), escape(&run.task)))
            });
            let count = large(
                &all.len().to_string(),
                &match open {
                    0 => "latest runs, all complete".to_owned(),
                    open => format!("latest runs, {open} not complete"),
                },
            );
            card(title, to, &[vec![count], latest.into_iter().collect()].concat())
        }
    }
}

fn memory(found: &Result<MemoryHealth, String>) -> Html {
    match found {
        Err(why) => unread("Memory", "/memory", why),
        Ok(health) => {
            let state = match &health.degraded {
                Some(why) => Html(format!("<p>{} {}</p>", badge("unsure", "degraded"), told(why))),
                None => Html(format!("<p>{}</p>", badge("good", "well"))),
            };
            card(
                "Memory",
                "/memory",
                &[large(&health.memories.to_string(), "memories"), state],
            )
        }
    }
}

fn bench(runs: &Result<Vec<RunSummary>, String>, gates: &Result<Vec<GateDecision>, String>) -> Html {
    match runs {
        Err(why) => unread("Bench", "/bench", why),
        Ok(runs) => {
            let latest = runs.first().map_or_else(
                || paragraph("No run is kept yet."),
                |run| large(&percent(run.pass_rate), &format!("of {} pass", run.suite_id)),
            );
            let gate = gates.as_ref().ok().and_then(|gates| gates.first()).map(|gate| {
                let class = match gate.verdict.as_str() {
                    "pass" => "good",
                    "regression" => "bad",
                    _ => "unsure",
                };
                Html(format!("<p>last gate: {}</p>", badge(class, &gate.verdict)))
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
        Err(why) => unread("Retrieval", "/retrieval", why),
        Ok(None) => card(
            "Retrieval",
            "/retrieval",
            &[paragraph("Nothing was measured yet.")],
        ),
        Ok(Some(run)) => {
            let ndcg = run.figures.get("ndcg_at_10").copied();
            let told = format!("nDCG@10 of {} queries", run.queries);
            card(
                "Retrieval",
                "/retrieval",
                &[large(&super::shell::figure(ndcg), &told)],
            )
        }
    }
}

fn features(found: &Result<ExperimentList, String>) -> Html {
    match found {
        Err(why) => unread("A/B tests", "/ab", why),
        Ok(found) => {
            let running = found
                .features
                .iter()
                .filter(|one| one.status == "running")
                .count();
            card(
                "A/B tests",
                "/ab",
                &[
                    large(
                        &running.to_string(),
                        if running == 1 {
                            "feature under test"
                        } else {
                            "features under test"
                        },
                    ),
                    Html(format!("<p>{}</p>", decided(found))),
                ],
            )
        }
    }
}

/// How many tests have come to an answer.
fn decided(found: &ExperimentList) -> Html {
    let running = || found.features.iter().filter(|one| one.status == "running");
    match running().filter(|one| one.decision != Decision::Continue).count() {
        0 => badge("plain", "none decided"),
        number => badge("unsure", &format!("{number} decided")),
    }
}

fn eviction(found: &Result<ScopeListing, String>) -> Html {
    match found {
        Err(why) => unread("Eviction", "/eviction", why),
        Ok(listing) => {
            let open: i64 = listing.scopes.iter().map(|scope| scope.open_proposals).sum();
            let open = usize::try_from(open).unwrap_or_default();
            let many = listing.scopes.len();
            let told = format!(
                "{}, {}",
                if many == 1 { "context" } else { "contexts" },
                count(open, "open proposal", "open proposals")
            );
            card("Eviction", "/eviction", &[large(&many.to_string(), &told)])
        }
    }
}

fn harness(found: &Result<HarnessStatus, String>) -> Html {
    match found {
        Err(why) => unread("Harness", "/harness", why),
        Ok(status) => {
            let verdict = match status.measured.as_ref().map(|found| found.verdict) {
                Some(Verdict::Discriminates) => badge("good", "discriminates"),
                Some(Verdict::Saturated) => badge("bad", "saturated"),
                Some(Verdict::Underpowered) => badge("unsure", "underpowered"),
                None => badge("plain", "not measured"),
            };
            let count = large(
                &format!("{:.2}", status.rolling_metrics.avg_saturation_score),
                &format!("mean saturation of {} cycles", status.cycles_tracked),
            );
            card("Harness", "/harness", &[count, Html(format!("<p>{verdict}</p>"))])
        }
    }
}
