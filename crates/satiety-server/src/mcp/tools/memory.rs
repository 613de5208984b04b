//! Tools about the memory: find, read, keep, change, judge.

use std::collections::BTreeMap;

use satiety::memory::{Channel, Draft, LinkKind, Mode};
use satiety::retrieval::Tier;
use satiety_engine::memory::{
    Deleted, Held, LinkRequest, Linked, ListRequest, Listed, MatchRequest, MatchedTriggers, MemoryHealth,
    MemorySearch, ReadMemory, ReadRequest, SaveRequest, Saved, SearchRequest, SearchTelemetry, UpdateRequest,
    ValidateRequest, Validated,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::call::{Call, Problem};
use super::super::registry::{Effect, Profile, Spec, Tool};

/// Memories on a page, unless said otherwise, and at most.
const PAGE: usize = 20;
const LARGEST_PAGE: usize = 200;

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new(
            Spec {
                name: "memory_search",
                title: "Search memories",
                about: "Find memories by words, meaning, trigger phrases and causal links. Call it when you need a fact, a decision or a cause from earlier work. Results are excerpts; memory_read gives one whole.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: FOUND,
            },
            |call: Call, asked: SearchArgs| async move { search(&call, asked, "memory_search").await },
        ),
        Tool::new(
            Spec {
                name: "memory_context",
                title: "Context for what comes next",
                about: "What you should know for what you are about to do: fits the room left in your context and never repeats what this session was given. Call it when the work turns to something new.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: FOUND,
            },
            |call: Call, asked: SearchArgs| async move { search(&call, asked, "memory_context").await },
        ),
        Tool::new(
            Spec {
                name: "memory_read",
                title: "Read a memory",
                about: "One memory whole, with its causal links. Call it when an excerpt is not enough: reading also teaches the search what helped.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: &[
                    "title",
                    "content",
                    "triggers",
                    "learnt_triggers",
                    "folder",
                    "kind",
                    "project.label",
                    "links[].title",
                ],
            },
            |call: Call, asked: ReadArgs| async move {
                let request = ReadRequest {
                    id: asked.id,
                    session: call.session(asked.session),
                    scope: Call::memory_scope(asked.project.as_deref())?,
                };
                Ok::<ReadMemory, Problem>(call.engine().memory_read(&request).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_save",
                title: "Keep a memory",
                about: "Keep something that will matter again: a decision and its reason, the cause of a bug, a convention, a preference. One thing a memory, in words that make sense without this conversation. Search first: change an old one with memory_update rather than keeping it twice.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &[
                    "memory.title",
                    "memory.content",
                    "memory.triggers",
                    "memory.folder",
                    "memory.kind",
                    "memory.project.label",
                ],
            },
            |call: Call, asked: SaveArgs| async move {
                let request = SaveRequest {
                    draft: Draft {
                        title: asked.title,
                        content: asked.content,
                        tier: asked.tier.unwrap_or(Tier::Normal),
                        triggers: asked.triggers,
                        folder: asked.folder,
                        kind: asked.kind,
                    },
                    expires_in_days: asked.expires_in_days,
                    origin: None,
                    scope: None,
                    author: call.author,
                    session: call.session(asked.session),
                };
                Ok::<Saved, Problem>(call.engine().memory_save(request).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_update",
                title: "Change a memory",
                about: "Change a memory that is no longer right; what you leave out stays.",
                profile: Profile::Core,
                effect: Effect::Changes,
                data: &[
                    "memory.title",
                    "memory.content",
                    "memory.triggers",
                    "memory.folder",
                    "memory.kind",
                    "memory.project.label",
                ],
            },
            |call: Call, asked: UpdateArgs| async move { update(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "memory_validate",
                title: "Say whether a memory helped",
                about: "Say whether a memory was useful for what you did. Call it once a memory has helped or misled you: it moves its confidence and teaches the search.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["learnt_trigger"],
            },
            |call: Call, asked: ValidateArgs| async move {
                let request = ValidateRequest {
                    id: asked.id,
                    useful: asked.useful,
                    session: call.session(asked.session),
                    scope: None,
                };
                Ok::<Validated, Problem>(call.engine().memory_validate(&request).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_match_triggers",
                title: "Match trigger phrases",
                about: "Which memories' trigger phrases are said in a text. Cheap: call it with each message of the user, or with your own text before you send it.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &["matches[].title", "matches[].project.label"],
            },
            |call: Call, asked: MatchArgs| async move {
                let request = MatchRequest {
                    text: asked.text,
                    limit: asked.limit.unwrap_or(5),
                    session: call.session(asked.session),
                    scope: None,
                };
                Ok::<MatchedTriggers, Problem>(call.engine().memory_match(&request).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_list",
                title: "List memories",
                about: "Memories page by page, in the order of their last change. Call it to look through a folder or a tier; to find something, search.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &[
                    "memories[].title",
                    "memories[].folder",
                    "memories[].kind",
                    "memories[].project.label",
                ],
            },
            |call: Call, asked: ListArgs| async move { list(&call, asked).await },
        ),
        Tool::new(
            Spec {
                name: "memory_delete",
                title: "Forget memories",
                about: "Forget memories for good. Call it only when somebody asks for it; memory_update mends what is wrong.",
                profile: Profile::Memory,
                effect: Effect::Deletes,
                data: &[],
            },
            |call: Call, asked: DeleteArgs| async move {
                if asked.ids.is_empty() {
                    return Err(Problem::new(
                        "no memory is named",
                        "give at least one id in `ids`",
                    ));
                }
                Ok::<Deleted, Problem>(call.engine().memory_delete(&asked.ids, None, call.author).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_causal_link",
                title: "Link memories",
                about: "Say how one memory bears on another. Call it when you learn that one thing caused, enabled, supersedes, contradicts or supports another: searches follow such links.",
                profile: Profile::Memory,
                effect: Effect::Changes,
                data: &[],
            },
            |call: Call, asked: LinkArgs| async move {
                let request = LinkRequest {
                    from: asked.from,
                    kind: asked.kind,
                    to: asked.to,
                    remove: asked.remove,
                    scope: None,
                };
                Ok::<Linked, Problem>(call.engine().memory_link(request).await?)
            },
        ),
        Tool::new(
            Spec {
                name: "memory_health",
                title: "How the memory is",
                about: "Counts, vectors, which channels cannot be searched, and how sessions went. Call it when searches find less than they should.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &[],
            },
            |call: Call, _: NoArgs| async move {
                Ok::<MemoryHealth, Problem>(call.engine().memory_health().await?)
            },
        ),
    ]
}

/// What of a search's answer somebody wrote.
const FOUND: &[&str] = &[
    "results[].title",
    "results[].excerpt",
    "results[].folder",
    "results[].kind",
    "results[].project",
    "already_shown[].title",
    "over_budget[].title",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchArgs {
    /// What you are looking for, in words.
    query: String,
    /// How deep; chosen by the question and the room left where absent.
    mode: Option<Mode>,
    /// Results at most.
    limit: Option<usize>,
    /// Tokens that all results may have.
    token_budget: Option<usize>,
    /// How full your context is, from 0 to 1.
    token_usage: Option<f64>,
    /// Only this folder and below.
    folder: Option<String>,
    /// Another project than this connection's, or `all`.
    project: Option<String>,
    /// Another session than this connection's.
    session: Option<String>,
    /// Also say how the search went, stage by stage.
    #[serde(default)]
    explain: bool,
}

/// A search's answer as an agent needs it: what was found and why, without how long each stage took.
#[derive(Serialize, JsonSchema)]
pub(super) struct FoundMemories {
    /// The query in the log.
    query_id: String,
    /// What you seem to be after.
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<satiety::memory::Intent>,
    /// How deep it went.
    mode: Mode,
    /// Best first.
    results: Vec<FoundMemory>,
    /// What this session has already.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    already_shown: Vec<Held>,
    /// What fits and had no room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    over_budget: Vec<Held>,
    /// Tokens of the results.
    tokens: usize,
    /// Why a channel could not be searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
    /// How it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    telemetry: Option<SearchTelemetry>,
}

/// A result.
#[derive(Serialize, JsonSchema)]
struct FoundMemory {
    /// Its id.
    id: String,
    /// Its title.
    title: String,
    /// The piece of it that fits best.
    excerpt: String,
    /// Whether there is more of it.
    partial: bool,
    /// Its tier.
    tier: Tier,
    #[serde(skip_serializing_if = "String::is_empty")]
    folder: String,
    kind: String,
    /// The project it belongs to, or `global`.
    project: String,
    /// How well it fits.
    score: f64,
    /// Which channels found it, and at which rank; none for a rule that always holds.
    channels: BTreeMap<Channel, u32>,
}

pub(super) fn found(search: MemorySearch, explain: bool) -> FoundMemories {
    let result = |one: satiety_engine::memory::MemoryResult| FoundMemory {
        id: one.id,
        title: one.title,
        excerpt: one.excerpt,
        partial: one.partial,
        tier: one.tier,
        folder: one.folder,
        kind: one.kind,
        project: one
            .project
            .map_or_else(|| "global".to_owned(), |project| project.label),
        score: (one.score * 1000.0).round() / 1000.0,
        channels: one
            .channels
            .into_iter()
            .map(|(channel, found)| (channel, found.rank))
            .collect(),
    };
    FoundMemories {
        query_id: search.query_id,
        intent: search.intent.intent,
        mode: search.mode.selected_mode,
        results: search.results.into_iter().map(result).collect(),
        already_shown: search.already_shown,
        over_budget: search.over_budget,
        tokens: search.tokens,
        degraded: search.degraded,
        telemetry: explain.then_some(search.telemetry),
    }
}

async fn search(call: &Call, asked: SearchArgs, tool: &'static str) -> Result<FoundMemories, Problem> {
    let explain = asked.explain;
    let request = SearchRequest {
        query: asked.query,
        mode: asked.mode,
        limit: asked.limit,
        token_budget: asked.token_budget,
        token_usage: asked.token_usage,
        folder: asked.folder,
        session: call.session(asked.session),
        skip_shown: tool == "memory_context",
        tool,
        scope: Call::memory_scope(asked.project.as_deref())?,
        ..SearchRequest::default()
    };
    Ok(found(call.engine().memory_search(request).await?, explain))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArgs {
    /// The memory's id.
    id: String,
    /// Another project than this connection's, or `all`.
    project: Option<String>,
    /// Another session than this connection's.
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveArgs {
    /// What it is called: the point of it in a line.
    title: String,
    /// What it says, and why; Markdown.
    content: String,
    /// temporary ones go after a week; constitutional ones are for a person to make.
    tier: Option<Tier>,
    /// Phrases that bring it back when they are said.
    #[serde(default)]
    triggers: Vec<String>,
    /// Where it belongs, such as store/sqlite.
    #[serde(default)]
    folder: String,
    /// decision, bug, convention, preference, note.
    #[serde(default)]
    kind: String,
    /// Forget it after so many days.
    expires_in_days: Option<i64>,
    /// Another session than this connection's.
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateArgs {
    /// The memory's id.
    id: String,
    title: Option<String>,
    content: Option<String>,
    tier: Option<Tier>,
    /// Instead of those that it has.
    triggers: Option<Vec<String>>,
    folder: Option<String>,
    kind: Option<String>,
    /// Take back a phrase that the search learnt for it.
    unlearn: Option<String>,
    /// Another session than this connection's.
    session: Option<String>,
}

async fn update(call: &Call, asked: UpdateArgs) -> Result<Saved, Problem> {
    let request = UpdateRequest {
        id: asked.id,
        title: asked.title,
        content: asked.content,
        tier: asked.tier.map(|tier| tier.name().to_owned()),
        triggers: asked.triggers,
        folder: asked.folder,
        kind: asked.kind,
        scope: None,
        move_to: None,
        author: call.author,
        unlearn: asked.unlearn,
        session: call.session(asked.session),
    };
    Ok(call.engine().memory_update(request).await?)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValidateArgs {
    /// The memory's id.
    id: String,
    /// Whether it helped.
    useful: bool,
    /// Another session than this connection's.
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MatchArgs {
    /// The text.
    text: String,
    /// Matches at most; 5 where absent.
    limit: Option<usize>,
    /// Another session than this connection's.
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArgs {
    /// Only this folder and below.
    folder: Option<String>,
    /// Only this tier.
    tier: Option<Tier>,
    /// Memories on a page, at most 200; 20 where absent.
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Another project than this connection's, or `all`.
    project: Option<String>,
}

/// A page of memories.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// In the order of their last change.
    memories: Vec<Listed>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

async fn list(call: &Call, asked: ListArgs) -> Result<Page, Problem> {
    let limit = asked.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(Problem::new(
            format!("a page has 1 to {LARGEST_PAGE} memories, not {limit}"),
            "give a smaller `limit` and go on with `next_cursor`",
        ));
    }
    let after = asked.cursor.as_deref().map(read_cursor).transpose()?.unwrap_or(0);
    let request = ListRequest {
        folder: asked.folder,
        tier: asked.tier.map(|tier| tier.name().to_owned()),
        after,
        limit,
        scope: Call::memory_scope(asked.project.as_deref())?,
    };
    let page = call.engine().memory_list(&request).await?;
    Ok(Page {
        memories: page.memories,
        next_cursor: page.next.map(cursor),
    })
}

/// A place in a list, as clients give it back: nobody should reckon with it.
pub(in super::super) fn cursor(after: i64) -> String {
    format!("c{after:x}")
}

/// The place that a cursor stands for.
pub(in super::super) fn read_cursor(text: &str) -> Result<i64, Problem> {
    let place = text
        .strip_prefix('c')
        .and_then(|digits| i64::from_str_radix(digits, 16).ok());
    place.filter(|place| *place >= 0).ok_or_else(|| {
        Problem::new(
            format!("`{text}` is no cursor"),
            "give the `next_cursor` of the page before, or none for the first page",
        )
    })
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteArgs {
    /// Their ids.
    ids: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkArgs {
    /// From which memory.
    from: String,
    /// How it bears on the other.
    kind: LinkKind,
    /// To which.
    to: String,
    /// Take the link away instead.
    #[serde(default)]
    remove: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArgs {}
