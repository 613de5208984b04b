//! The memory: what is in it, a search with its reasons, one memory.

use satiety_engine::memory::{Memories, Memory, MemoryHealth, MemorySearch};

use super::shell::{badge, frame, nothing, segment};
use satiety_report::html::{
    Html, details, escape, link, paragraph, section, table, table_of, verbatim, verdict,
};

/// What a project is called; memories of none are global.
fn project(project: Option<&satiety::memory::Project>) -> &str {
    project.map_or("global", |project| project.label.as_str())
}

/// The memory as a list.
pub(super) fn all(health: &MemoryHealth, found: &Memories) -> String {
    let mut body = vec![state(health), form("")];
    if found.memories.is_empty() {
        body.push(nothing(
            "Nothing is remembered yet.",
            "satiety memory save TITLE CONTENT",
        ));
        return frame("/memory", "Memory", &body);
    }
    let rows = found.memories.iter().map(|one| {
        vec![
            link(&format!("/memory/{}", segment(&one.id)), &one.title),
            badge("plain", one.tier.name()),
            escape(&one.kind),
            escape(&one.folder),
            escape(project(one.project.as_ref())),
            escape(&format!("{:.2}", one.confidence)),
        ]
    });
    let header = ["memory", "tier", "kind", "folder", "project", "confidence"];
    body.push(table_of(&header, &[5], rows));
    body.extend(found.next.map(|after| {
        Html(format!(
            "<p>{}</p>",
            link(&format!("/memory?after={after}"), "More")
        ))
    }));
    frame("/memory", "Memory", &body)
}

fn state(health: &MemoryHealth) -> Html {
    let told = format!(
        "{} memories in {} pieces, {} with a vector; {} constitutional.",
        health.memories, health.chunks, health.embedded, health.constitutional
    );
    match &health.degraded {
        Some(why) => verdict("unsure", "Degraded:", &format!("{why}. {told}")),
        None => verdict("good", "Well.", &told),
    }
}

fn form(query: &str) -> Html {
    Html(format!(
        "<form class=\"line\" role=\"search\" action=\"/memory/search\" method=\"get\"><label>Search\
         <input type=\"search\" name=\"q\" size=\"50\" required value=\"{}\"></label><button>Search</button></form>",
        escape(query)
    ))
}

/// What a search found, and why.
pub(super) fn search(found: &MemorySearch) -> String {
    let mut body = vec![form(&found.query)];
    if let Some(why) = &found.degraded {
        body.push(verdict("unsure", "Degraded:", why));
    }
    if found.results.is_empty() {
        body.push(paragraph("Nothing was found."));
    }
    for result in &found.results {
        let channels: Vec<String> = result
            .channels
            .iter()
            .map(|(channel, place)| format!("{} no. {}", channel.name(), place.rank))
            .collect();
        let why = if result.constitutional_only {
            "here because it is constitutional".to_owned()
        } else {
            format!("score {:.3}; {}", result.score, channels.join(", "))
        };
        let why = format!("{why}; project: {}", project(result.project.as_ref()));
        body.push(Html(format!(
            "<section><h2>{}. {} {}</h2><p class=\"empty\">{}</p><blockquote>{}</blockquote></section>",
            result.rank,
            link(&format!("/memory/{}", segment(&result.id)), &result.title),
            badge("plain", result.tier.name()),
            escape(&why),
            escape(&result.excerpt)
        )));
    }
    let stages = found.telemetry.stages.iter().map(|stage| {
        vec![
            format!("{:?}", stage.stage).to_lowercase(),
            stage.input_count.to_string(),
            stage.output_count.to_string(),
            format!("{:.2} ms", stage.duration_ms),
        ]
    });
    body.push(details(
        &format!("How it went: {:.1} ms", found.telemetry.total_latency_ms),
        &[table(&["stage", "in", "out", "time"], &[1, 2, 3], stages)],
    ));
    frame("/memory", "Memory: search", &body)
}

/// One memory.
pub(super) fn one(memory: &Memory) -> String {
    let facts = [
        ("id", memory.id.clone()),
        ("tier", memory.tier.name().to_owned()),
        ("kind", memory.kind.clone()),
        ("folder", memory.folder.clone()),
        ("project", project(memory.project.as_ref()).to_owned()),
        ("triggers", memory.triggers.join(", ")),
        ("learnt triggers", memory.learnt_triggers.join(", ")),
        (
            "confidence",
            format!(
                "{:.2} after {} validations",
                memory.confidence, memory.validations
            ),
        ),
        ("origin", memory.origin.clone().unwrap_or_default()),
        ("changed", memory.updated_at.clone()),
        ("expires", memory.expires_at.clone().unwrap_or_default()),
    ];
    let rows = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let body = [
        table(
            &["", ""],
            &[],
            rows.map(|(name, value)| vec![name.to_owned(), value]),
        ),
        // As it was written: Markdown from an agent is shown, never rendered.
        section("What it says", &[verbatim(&memory.content)]),
    ];
    frame("/memory", &memory.title, &body)
}
