//! Tools about the memory: find, read, save, change, judge.

use satiety_engine::memory::SearchRequest;

use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Option<Tool>> {
    vec![
        Tool::of_operation(
            "search_memory",
            Spec {
                name: "memory_search",
                title: "Search memories",
                about: "Find memories by words, meaning, trigger phrases and causal links. Call it when you need a fact, a decision or a cause from earlier work. Results are excerpts; memory_read gives one whole.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: FOUND,
            },
            SEARCH,
        ),
        Tool::of_operation(
            "memory_context",
            Spec {
                name: "memory_context",
                title: "Context for what comes next",
                about: "What you should know for what you are about to do: fits the room left in your context and never repeats what this session was given. Call it when the work turns to something new.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: FOUND,
            },
            SEARCH,
        ),
        Tool::of_operation(
            "read_memory",
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
            ToolProfile::default(),
        ),
        Tool::of_operation(
            "save_memory",
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
            hide(&["project"]),
        ),
        Tool::of_operation(
            "update_memory",
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
            hide(&["project", "move_to"]),
        ),
        Tool::of_operation(
            "validate_memory",
            Spec {
                name: "memory_validate",
                title: "Say whether a memory helped",
                about: "Say whether a memory was useful for what you did. Call it once a memory has helped or misled you: it moves its confidence and teaches the search.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &["learnt_trigger"],
            },
            hide(&["project"]),
        ),
        Tool::of_operation(
            "match_triggers",
            Spec {
                name: "memory_match_triggers",
                title: "Match trigger phrases",
                about: "Which memories' trigger phrases are said in a text. Cheap: call it with each message of the user, or with your own text before you send it.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &["matches[].title", "matches[].project.label"],
            },
            hide(&["project"]),
        ),
        Tool::of_operation(
            "list_memories",
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
            ToolProfile {
                defaults: &[("limit", 20)],
                ..ToolProfile::default()
            },
        ),
        Tool::of_operation(
            "delete_memory",
            Spec {
                name: "memory_delete",
                title: "Forget memories",
                about: "Forget memories for good. Call it only when somebody asks for it; memory_update mends what is wrong.",
                profile: Profile::Memory,
                effect: Effect::Deletes,
                data: &[],
            },
            hide(&["project"]),
        ),
        Tool::of_operation(
            "link_memories",
            Spec {
                name: "memory_causal_link",
                title: "Link memories",
                about: "Say how one memory bears on another. Call it when you learn that one thing caused, enabled, supersedes, contradicts or supports another: searches follow such links.",
                profile: Profile::Memory,
                effect: Effect::Changes,
                data: &[],
            },
            hide(&["project"]),
        ),
        Tool::of_operation(
            "memory_health",
            Spec {
                name: "memory_health",
                title: "How the memory is",
                about: "Counts, vectors, which channels cannot be searched, and how sessions went. Call it when searches find less than they should.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &[],
            },
            ToolProfile::default(),
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

/// A search for an agent: the results that it needs.
const SEARCH: ToolProfile = ToolProfile {
    hidden: &["skip_shown"],
    defaults: &[],
    view: Some(&SearchRequest::AGENT_VIEW),
};

const fn hide(hidden: &'static [&'static str]) -> ToolProfile {
    ToolProfile {
        hidden,
        defaults: &[],
        view: None,
    }
}
