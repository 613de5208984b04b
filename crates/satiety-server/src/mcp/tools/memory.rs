//! Memory tools: search, read, save, update, validate.

use satiety_engine::memory::SearchRequest;

use super::super::registry::{Effect, Profile, Spec, Tool, ToolProfile};

pub(super) fn tools() -> Vec<Option<Tool>> {
    vec![
        Tool::of_operation(
            "search_memory",
            Spec {
                name: "memory_search",
                title: "Search memories",
                about: "Find memories by words, meaning, trigger phrases and causal links when you need a fact, a decision or a cause from earlier work. Results are excerpts; memory_read returns one in full.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: FOUND,
            },
            ToolProfile {
                hidden: &["skip_shown", "below_floor"],
                brief: &[("filter", FILTER)],
                ..SEARCH
            },
        ),
        Tool::of_operation(
            "memory_context",
            Spec {
                name: "memory_context",
                title: "Context for the next step",
                about: "Get what you should know for your next step, within the remaining context and without repeating results. Call it when the work turns to something new.",
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
                about: "Get one memory in full, with its links, when an excerpt is not enough: reading also teaches the search what helped.",
                profile: Profile::Core,
                effect: Effect::Reads,
                data: &[
                    "title",
                    "content",
                    "triggers",
                    "learnt_triggers",
                    "folder",
                    "kind",
                    "author",
                    "tags",
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
                title: "Save a memory",
                about: "Save what will matter again: a decision and its reason, the cause of a bug, a convention. One fact per memory, understandable on its own. If the answer names duplicates or conflicts, use memory_update.",
                profile: Profile::Core,
                effect: Effect::Adds,
                data: &[
                    "memory.title",
                    "memory.folder",
                    "memory.kind",
                    "memory.project.label",
                    "memory.tags",
                    "duplicates[].title",
                    "conflicts[].title",
                    "conflicts[].reasons",
                ],
            },
            hide(&[
                "project",
                "author",
                "on_duplicate",
                "observed_at",
                "valid_from",
                "valid_until",
            ]),
        ),
        Tool::of_operation(
            "update_memory",
            Spec {
                name: "memory_update",
                title: "Update a memory",
                about: "Update a memory that is no longer right; omitted fields stay.",
                profile: Profile::Core,
                effect: Effect::Changes,
                data: &[
                    "memory.title",
                    "memory.folder",
                    "memory.kind",
                    "memory.project.label",
                ],
            },
            hide(&[
                "project",
                "move_to",
                "tags",
                "observed_at",
                "valid_from",
                "unlearn",
            ]),
        ),
        Tool::of_operation(
            "validate_memory",
            Spec {
                name: "memory_validate",
                title: "Validate a memory",
                about: "Report whether a memory helped or misled you: it changes its confidence and teaches the search.",
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
                about: "Find memories whose trigger phrases occur in a text. Cheap: call it with each message of the user, or with your own text before you send it.",
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
                about: "List memories page by page, in order of last change. Call it to browse a folder or a tier; to find something, search.",
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
                title: "Delete memories",
                about: "Delete memories permanently. Call it only when a user asks for it; use memory_update to correct one.",
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
                about: "Link two memories. Call it when you learn that one thing caused, enabled, supersedes, contradicts or supports another: searches follow such links.",
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
                title: "Memory health",
                about: "Get counts, vectors, unavailable search channels and session statistics. Call it when searches find less than they should.",
                profile: Profile::Memory,
                effect: Effect::Reads,
                data: &[],
            },
            ToolProfile::default(),
        ),
    ]
}

/// Fields of a search result with untrusted text.
const FOUND: &[&str] = &[
    "results[].title",
    "results[].excerpt",
    "results[].folder",
    "results[].kind",
    "results[].project",
    "below_floor[].title",
    "already_shown[].title",
    "over_budget[].title",
];

/// Search tool profile: only the results that an agent needs.
const SEARCH: ToolProfile = ToolProfile {
    hidden: &["skip_shown", "below_floor", "filter", "as_of", "explain"],
    defaults: &[],
    view: Some(&SearchRequest::AGENT_VIEW),
    brief: &[],
};

/// Description of the conditions of a search.
const FILTER: &str =
    "kinds, tags, authors, tiers (lists), recorded_from, recorded_until, observed_from, observed_until";

const fn hide(hidden: &'static [&'static str]) -> ToolProfile {
    ToolProfile {
        hidden,
        defaults: &[],
        view: None,
        brief: &[],
    }
}
