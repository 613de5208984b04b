//! Memory pages: the list, search results with their ranking, one memory.

use satiety::memory::Validity;
use satiety_engine::memory::{Memories, Memory, MemoryHealth, MemoryResult, MemorySearch, SearchOutcome};

use jiff::Timestamp;
use satiety_report::document::{badge, link};
use satiety_report::html::{Html, blocks, escape};
use satiety_report::{Block, Table, Text, Tone, row};

use super::shell::{ago_text, count, empty_state, frame, segment};

/// Name of a project; memories without a project are global.
fn project(project: Option<&satiety::memory::Project>) -> &str {
    project.map_or("global", |project| project.label.as_str())
}

/// List of memories.
pub(super) fn list_page(health: &MemoryHealth, found: &Memories) -> String {
    if found.memories.is_empty() && health.memories == 0 {
        let hint = empty_state(
            "No memories yet. Save one, index a directory of Markdown files, or connect an agent:",
            "satiety memory save \"Deploys\" \"Deploy on Mondays only\"\nsatiety memory index notes\nsatiety mcp",
        );
        return frame("/memory", "Memory", &[hint]);
    }
    let searches = Html("<p><a href=\"/memory/queries\">Searches of agents and people</a></p>".into());
    let mut body = vec![state(health), form(""), searches];
    let rows = found.memories.iter().map(|one| {
        row![
            link(format!("/memory/{}", segment(&one.id)), &one.title),
            badge(Tone::Plain, one.tier.name()),
            &one.kind,
            &one.folder,
            project(one.project.as_ref()),
            format!("{:.2}", one.confidence),
        ]
    });
    let header = ["memory", "tier", "kind", "folder", "project", "confidence"];
    let mut list = vec![Block::Table(Table::new(&header, &[5], rows))];
    let more = |after: i64| Block::Text(link(format!("/memory?after={after}"), "Next page"));
    list.extend(found.next.map(more));
    body.push(blocks(&list));
    frame("/memory", "Memory", &body)
}

fn state(health: &MemoryHealth) -> Html {
    let counts = format!(
        "{} in {}, {} with a vector; {} constitutional.",
        count(health.memories, "memory", "memories"),
        count(health.chunks, "chunk", "chunks"),
        health.embedded,
        health.constitutional
    );
    let embedding = &health.embedding;
    let counts = match (embedding.active && embedding.pending > 0, embedding.seconds_left) {
        (true, Some(seconds)) => format!("{counts} About {seconds:.0} s until all have a vector."),
        _ => counts,
    };
    blocks(&[match &health.degraded {
        Some(why) => Block::verdict(Tone::Unsure, "Degraded", format!("{why}. {counts}"), &[]),
        None => Block::verdict(Tone::Good, "Healthy.", counts, &[]),
    }])
}

fn form(query: &str) -> Html {
    Html(format!(
        "<form class=\"line\" role=\"search\" action=\"/memory/search\" method=\"get\"><label>Search\
         <input type=\"search\" name=\"q\" size=\"50\" required value=\"{}\"></label><button>Search</button></form>",
        escape(query)
    ))
}

/// Search results with their ranking.
pub(super) fn search(found: &MemorySearch) -> String {
    let mut body = Vec::new();
    if let Some(why) = &found.degraded {
        body.push(Block::verdict(Tone::Unsure, "Degraded", why, &[]));
    }
    if found.outcome == SearchOutcome::NothingRelevant {
        body.push(Block::text(
            "Nothing relevant. Try other words, or check the index with `satiety memory health`.",
        ));
    }
    if !found.below_floor.is_empty() {
        let rows = found.below_floor.iter().map(|one| {
            let title = link(format!("/memory/{}", segment(&one.id)), &one.title);
            row![title, format!("{:.2}", one.confidence)]
        });
        let table = Table::new(&["memory", "confidence"], &[1], rows);
        let count = found.below_floor.len();
        body.push(Block::details(
            format!("Below the relevance floor: {count}"),
            vec![Block::Table(table)],
        ));
    }
    for result in &found.results {
        let channels = result.channels.iter();
        let channels = channels.map(|(channel, place)| format!("{} rank {}", channel.name(), place.rank));
        let why = if result.constitutional_only {
            "included because it is constitutional".to_owned()
        } else {
            format!(
                "score {:.3}; confidence {:.2}; {}",
                result.score,
                result.confidence,
                channels.collect::<Vec<_>>().join(", ")
            )
        };
        let title = Text::from(format!("{}. ", result.rank))
            .then(link(format!("/memory/{}", segment(&result.id)), &result.title))
            .then(" ")
            .then(badge(Tone::Plain, result.tier.name()));
        let title = marks(result)
            .into_iter()
            .fold(title, |title, mark| title.then(" ").then(mark));
        let why = format!("{why}; project: {}", project(result.project.as_ref()));
        let parts = vec![Block::text(why), Block::Verbatim(result.excerpt.clone())];
        body.push(Block::Section(title, parts));
    }
    let stages = found.telemetry.stages.iter().map(|stage| {
        row![
            format!("{:?}", stage.stage).to_lowercase(),
            stage.input_count.to_string(),
            stage.output_count.to_string(),
            format!("{:.2} ms", stage.duration_ms),
        ]
    });
    let stages = Table::new(&["stage", "in", "out", "time"], &[1, 2, 3], stages);
    let summary = format!("Stages: {:.1} ms", found.telemetry.total_latency_ms);
    body.push(Block::details(summary, vec![Block::Table(stages)]));
    frame("/memory", "Memory search", &[form(&found.query), blocks(&body)])
}

/// Marks of a result that is not simply current; each names or links the other memory.
fn marks(result: &MemoryResult) -> Vec<Text> {
    let other = |label: &str, id: &str| {
        badge(Tone::Unsure, label)
            .then(" ")
            .then(link(format!("/memory/{}", segment(id)), id))
    };
    let mut marks = Vec::new();
    marks.extend(result.superseded_by.as_ref().map(|id| other("superseded by", id)));
    marks.extend(result.contradicts.iter().map(|id| other("contradicts", id)));
    let validity = result.validity.and_then(|validity| match validity {
        Validity::Current => None,
        Validity::Past => Some("no longer valid"),
        Validity::Future => Some("not valid yet"),
    });
    marks.extend(validity.map(|label| badge(Tone::Unsure, label)));
    marks
}

pub(super) fn detail_page(memory: &Memory, now: Timestamp) -> String {
    let list = |words: &[String]| (!words.is_empty()).then(|| words.join(", ").into());
    let facts = [
        ("id", Some((&memory.id).into())),
        ("tier", Some(memory.tier.name().into())),
        ("kind", Some((&memory.kind).into())),
        ("folder", Some((&memory.folder).into())),
        ("project", Some(project(memory.project.as_ref()).into())),
        ("triggers", list(&memory.triggers)),
        ("learned triggers", list(&memory.learnt_triggers)),
        (
            "confidence",
            Some(
                format!(
                    "{:.2} (0 to 1) after {}",
                    memory.confidence,
                    count(memory.validations, "validation", "validations")
                )
                .into(),
            ),
        ),
        ("origin", memory.origin.as_ref().map(Text::from)),
        ("author", memory.author.as_ref().map(Text::from)),
        ("tags", list(&memory.tags)),
        ("observed", memory.observed_at.as_ref().map(Text::from)),
        ("valid from", memory.valid_from.as_ref().map(Text::from)),
        ("valid until", memory.valid_until.as_ref().map(Text::from)),
        ("changed", Some(ago_text(&memory.updated_at, now))),
        ("expires", memory.expires_at.as_ref().map(Text::from)),
    ];
    let body = [
        Block::fields(facts),
        // Verbatim: Markdown from an agent is never rendered.
        Block::section("Content", vec![Block::Verbatim(memory.content.clone())]),
    ];
    frame("/memory", &memory.title, &[blocks(&body)])
}
