//! What each command prints with `--format json`. The table is checked: a test finds commands that are not in it,
//! and every command test that asks for JSON compares the output with the published schema.

use satiety::bench::BenchmarkRun;
use satiety::dialogue::Verdict;
use satiety::eviction::EvictionFeedback;
use satiety::eviction::gate::Scorer;
use satiety::memory::SessionEvalSummary;
use satiety::progress::StepVerdict;
use satiety::retrieval::Agreement;
use satiety_engine::bench::sandbox::probes::SandboxExamination;
use satiety_engine::bench::suites::SuiteList;
use satiety_engine::bench::{
    AblationResponse, AcceptResponse, Cancelled, ComparedRuns, DrainedWorkers, ExportedRun, FailureCase,
    ImportResponse, LabelResponse, QueueStatus, RunBenchResponse, ScrubResponse, WorkResponse,
};
use satiety_engine::database::{BackupResponse, MigrateResponse, Retained, Status, TransferReport};
use satiety_engine::doctor::Examination;
use satiety_engine::eviction::{
    ActivateResponse, Calibrated, Feedback, ProposeResponse, RefreshResponse, ScopeListing, ScopeUpdated,
    Scorers, SimulateResponse,
};
use satiety_engine::experiment::{
    ExperimentChange, ExperimentCheck, ExperimentList, ExperimentStatus, WeightProposal,
};
use satiety_engine::harness::{
    AppliedExpansion, ApprovalDecision, HarnessCheck, HarnessStatus, History, Keys, LockedHarness,
    ProposeExpansionResponse, RecordedCycle, SignedTransition, VerifyResponse,
};
use satiety_engine::memory::{
    DeleteResponse, EmbedResponse, ImportedMemories, IndexResponse, LinkResponse, MatchedTriggers, Memories,
    Memory, MemoryHealth, MemorySearch, Postflight, Preflight, ReadMemory, SaveResponse, Sessions,
    ValidateResponse,
};
use satiety_engine::models::{ModelList, Verification};
use satiety_engine::operations::Shape;
use satiety_engine::progress::SweptWork;
use satiety_engine::research::{ResearchResponse, SearchGateResponse};
use satiety_engine::retrieval::{
    AnnotationStep, CompareResponse, CorpusCheck, CorpusTransfer, EvaluateResponse, HarvestResponse,
    JudgedCorpus, MeasuredRuns, PoolResponse, ReplayResponse,
};
use satiety_engine::sweep::SweepResponse;
use satiety_engine::tenants::{DeletedTenant, Tenant, TenantList, TenantReport};
use satiety_engine::tokens::{AuditLog, CreatedToken, Token, TokenList};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::commands::bench::init::WrittenSuite;
use crate::commands::bench::show::{PlannedRun, QueuedRuns, RunList, RunTable};
use crate::commands::config::SettingList;
use crate::commands::db::{ExportOutput, RetentionRules};
use crate::commands::demo::Demo;
use crate::commands::eviction::{ScopeReport, WrittenVariants};
use crate::commands::harness::changes::{Audits, GeneratedKey};
use crate::commands::hook::HookChanges;
use crate::commands::models::ChosenModel;
use crate::commands::progress::ProgressJson;
use crate::commands::score::{BothOutput, ScoreOutput};
use crate::commands::serve::ServerStarted;
use crate::commands::trust::{FileTrust, RevokedTrust, TrustedFiles};

/// An object that a command prints with `--format json`.
pub(super) struct Output {
    /// Command without `satiety`.
    pub(super) command: &'static str,
    /// Option or condition that selects this object; empty for the default.
    pub(super) when: &'static str,
    /// Whether the command prints one object per line, as JSON Lines.
    pub(super) is_stream: bool,
    shape: Shape,
}

impl Output {
    pub(super) fn object(&self) -> String {
        (self.shape.name)().into_owned()
    }

    fn when(mut self, when: &'static str) -> Self {
        self.when = when;
        self
    }

    fn stream(mut self) -> Self {
        self.is_stream = true;
        self
    }
}

fn object<T: JsonSchema>(command: &'static str) -> Output {
    Output {
        command,
        when: "",
        is_stream: false,
        shape: Shape::for_type::<T>(),
    }
}

/// Commands that ignore `--format json`, and what they print.
pub(super) const OTHER_OUTPUT: &[(&str, &str)] = &[
    ("harness manifest", "the manifest, always as JSON"),
    ("evict export", "labels as JSON Lines"),
    ("evict convert", "a trace as JSON Lines"),
    ("evict generate", "a trace as JSON Lines"),
    (
        "hook",
        "the answer to an event, in the form that the agent expects",
    ),
    ("completions", "a script for the shell"),
];

/// All outputs, in the order of the commands.
pub(super) fn outputs() -> Vec<Output> {
    let mut outputs = vec![
        object::<Demo>("demo"),
        object::<ScoreOutput>("score"),
        object::<BothOutput<'_>>("score").when("conversations with some tool calls"),
        object::<ProgressJson<'_>>("score").when("logs of agents at work"),
        object::<ProgressJson<'_>>("progress"),
        object::<Verdict>("watch").stream(),
        object::<StepVerdict>("watch")
            .when("logs of agents at work")
            .stream(),
        object::<SweepResponse>("sweep"),
        object::<SweptWork>("sweep").when("runs of agents"),
        object::<EvaluateResponse>("retrieval eval"),
        object::<CompareResponse>("retrieval compare"),
        object::<CorpusCheck>("retrieval corpus check"),
        object::<PoolResponse>("retrieval pool"),
        object::<HarvestResponse>("retrieval harvest"),
        object::<JudgedCorpus>("retrieval judge"),
        object::<AnnotationStep>("retrieval annotate"),
        object::<Agreement>("retrieval agreement"),
        object::<ReplayResponse>("retrieval run"),
        object::<MeasuredRuns>("retrieval runs"),
        object::<CorpusTransfer>("retrieval import"),
        object::<CorpusTransfer>("retrieval export"),
        object::<RunBenchResponse>("bench run"),
        object::<RunTable>("bench run").when("several suites"),
        object::<QueuedRuns>("bench run").when("`--detach`"),
        object::<PlannedRun>("bench run").when("`--dry-run`, one object per suite"),
        object::<Cancelled>("bench cancel"),
        object::<ComparedRuns>("bench compare"),
        object::<AcceptResponse>("bench baseline"),
        object::<AblationResponse>("bench ablation"),
        object::<BenchmarkRun>("bench report"),
        object::<SuiteList>("bench check"),
        object::<SuiteList>("bench list"),
        object::<RunList>("bench list").when("`--runs`"),
        object::<WrittenSuite>("bench init"),
        object::<ImportResponse>("bench import"),
        object::<ExportedRun>("bench export"),
        object::<LabelResponse>("bench label"),
        object::<FailureCase>("bench from-failure"),
        object::<ScrubResponse>("bench scrub"),
        object::<HarnessStatus>("harness status"),
        object::<RecordedCycle>("harness record"),
        object::<HarnessCheck>("harness check"),
        object::<LockedHarness>("harness lock"),
        object::<SignedTransition>("harness transition"),
        object::<ProposeExpansionResponse>("harness expand"),
        object::<ProposeExpansionResponse>("harness propose"),
        object::<ApprovalDecision>("harness approve"),
        object::<ApprovalDecision>("harness reject"),
        object::<AppliedExpansion>("harness apply"),
        object::<AppliedExpansion>("harness rollback"),
        object::<History>("harness history"),
        object::<VerifyResponse>("harness verify"),
        object::<GeneratedKey>("harness keygen"),
        object::<Keys>("harness keys"),
        object::<Audits>("harness audit add"),
        object::<Audits>("harness audit list"),
        object::<ScopeUpdated>("evict add"),
        object::<ScopeListing>("evict list"),
        object::<ProposeResponse>("evict propose"),
        object::<EvictionFeedback>("evict resolve"),
        object::<RefreshResponse>("evict refresh"),
        object::<ScopeReport>("evict timeline"),
        object::<Feedback>("evict feedback"),
        object::<Calibrated>("evict calibrate"),
        object::<Scorers>("evict weights"),
        object::<Scorer>("evict weights").when("with a version"),
        object::<WrittenVariants>("evict variants"),
        object::<ActivateResponse>("evict activate"),
        object::<ActivateResponse>("evict rollback"),
        object::<SimulateResponse>("evict simulate"),
        object::<ResearchResponse>("research"),
        object::<SearchGateResponse>("gate").stream(),
        object::<satiety::research::recommend::Recommendation>("gate").when("`--recommend`"),
        object::<SaveResponse>("memory save"),
        object::<MemorySearch>("memory search"),
        object::<MemorySearch>("memory context"),
        object::<MatchedTriggers>("memory match"),
        object::<Memories>("memory list"),
        object::<Memory>("memory list").when("`--id`"),
        object::<ReadMemory>("memory get"),
        object::<SaveResponse>("memory update"),
        object::<DeleteResponse>("memory delete"),
        object::<ValidateResponse>("memory validate"),
        object::<LinkResponse>("memory link"),
        object::<Preflight>("memory preflight"),
        object::<Postflight>("memory postflight"),
        object::<Sessions>("memory sessions"),
        object::<SessionEvalSummary>("memory sessions").when("with a session"),
        object::<IndexResponse>("memory index"),
        object::<ImportedMemories>("memory import"),
        object::<EmbedResponse>("memory embed"),
        object::<MemoryHealth>("memory health"),
        object::<ExperimentChange>("ab start"),
        object::<ExperimentStatus>("ab status"),
        object::<ExperimentList>("ab list"),
        object::<ExperimentChange>("ab rollout"),
        object::<ExperimentChange>("ab pause"),
        object::<ExperimentChange>("ab resume"),
        object::<WeightProposal>("ab propose"),
        object::<ExperimentCheck>("ab check"),
        object::<ExperimentCheck>("ab graduate"),
        object::<ExperimentChange>("ab reject"),
        object::<ExperimentChange>("ab rollback"),
        object::<ServerStarted>("serve"),
        object::<WorkResponse>("worker"),
        object::<QueueStatus>("worker status"),
        object::<DrainedWorkers>("worker drain"),
        object::<Tenant>("tenant create"),
        object::<TenantList>("tenant list"),
        object::<TenantReport>("tenant show"),
        object::<Tenant>("tenant set"),
        object::<Tenant>("tenant disable"),
        object::<DeletedTenant>("tenant delete"),
        object::<CreatedToken>("token create"),
        object::<TokenList>("token list"),
        object::<Token>("token revoke"),
        object::<AuditLog>("token audit"),
        object::<HookChanges>("hook install"),
        object::<HookChanges>("hook uninstall"),
        object::<satiety_engine::agent_hooks::HookStatus>("hook status"),
        object::<ModelList>("models list"),
        object::<Verification>("models verify"),
        object::<ChosenModel>("models use"),
        object::<satiety_engine::models::Calibrated>("calibrate"),
        object::<Status>("db status"),
        object::<MigrateResponse>("db migrate"),
        object::<Retained>("db retain"),
        object::<RetentionRules>("db retain").when("`--list`"),
        object::<TransferReport>("db export"),
        object::<ExportOutput>("db export").when("`--to parquet`"),
        object::<TransferReport>("db import"),
        object::<BackupResponse>("db backup"),
        object::<SettingList>("config show"),
        object::<FileTrust>("trust"),
        object::<RevokedTrust>("trust").when("`--revoke`"),
        object::<TrustedFiles>("trust").when("`--list`"),
        object::<Examination>("doctor"),
        object::<SandboxExamination>("doctor").when("`--sandbox`"),
    ];
    #[cfg(feature = "mcp")]
    outputs.push(object::<satiety_server::mcp::Cost>("mcp").when("`--list`"));
    outputs
}

/// JSON Schema of all outputs: the objects in `$defs`, and which command prints which in `x-commands`.
pub(super) fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut commands: Map<String, Value> = Map::new();
    for output in outputs() {
        let reference = (output.shape.reference)(&mut generator).to_value();
        let listed = commands
            .entry(output.command)
            .or_insert_with(|| json!({"anyOf": [], "x-json-lines": output.is_stream}));
        if let Some(Value::Array(all)) = listed.get_mut("anyOf") {
            all.push(reference);
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Output of the commands with --format json",
        "x-commands": commands,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    /// Commands that run without a subcommand, as `bench run`.
    fn leaves(command: &clap::Command, path: &str, found: &mut BTreeSet<String>) {
        let mut subcommands = command
            .get_subcommands()
            .filter(|sub| !sub.is_hide_set())
            .peekable();
        if subcommands.peek().is_none() || !(path.is_empty() || command.is_subcommand_required_set()) {
            found.insert(path.trim_start().to_owned());
        }
        for subcommand in subcommands {
            leaves(subcommand, &format!("{path} {}", subcommand.get_name()), found);
        }
    }

    #[test]
    fn every_command_is_in_one_of_the_tables() {
        let mut commands = BTreeSet::new();
        leaves(&Cli::command(), "", &mut commands);
        let json: BTreeSet<String> = outputs().iter().map(|output| output.command.to_owned()).collect();
        let other: BTreeSet<String> = OTHER_OUTPUT.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert!(json.is_disjoint(&other));
        assert_eq!(commands, &json | &other);
    }

    /// A type whose name is taken would be numbered in order of appearance, so its name would change with any edit.
    #[test]
    fn published_types_have_distinct_names() {
        let schema = schema();
        let api = satiety_server::openapi::document();
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        for name in names(&schema["$defs"])
            .iter()
            .chain(&names(&api["components"]["schemas"]))
        {
            assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name}");
        }
    }

    #[test]
    fn commands_and_http_responses_agree_on_types_of_the_same_name() {
        let text = schema()["$defs"]
            .to_string()
            .replace("#/$defs/", "#/components/schemas/");
        let outputs: Value = serde_json::from_str(&text).unwrap();
        let api = satiety_server::openapi::document();
        let different: Vec<&String> = api["components"]["schemas"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, schema)| outputs.get(name).is_some_and(|own| own != *schema))
            .map(|(name, _)| name)
            .collect();
        assert!(different.is_empty(), "{different:?}");
    }
}
