use satiety::dialogue::input::InputError;
use satiety::dialogue::{ConversationError, ProfileError, VectorError};
use satiety::eviction::EvictionError;
use satiety::retrieval::RetrievalError;
use satiety::stats::StatsError;
use satiety_models::EmbedError;
use satiety_models::chat::ChatError;

use super::*;
use crate::bench::target::OpenError;
use crate::research::sources::SearchError;

fn facts(error: &EngineError) -> (u16, u8) {
    (error.category().http_status(), error.category().exit_code())
}

fn s() -> String {
    "x".into()
}

fn io(kind: std::io::ErrorKind) -> std::io::Error {
    kind.into()
}

fn exceeded(quota: satiety::quota::Quota) -> EngineError {
    EngineError::QuotaExceeded {
        tenant: s(),
        exceeded: satiety::quota::Exceeded {
            quota,
            limit: 1,
            used: 1,
            retry_after: None,
        },
    }
}

/// Every variant that a surface can meet, with the HTTP status and the exit code that callers rely on.
fn table() -> Vec<(EngineError, u16, u8)> {
    use std::io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied};
    let few = || StatsError::TooFew { needed: 2, got: 1 };
    let ranking = |problem| EngineError::Ranking { name: s(), problem };
    let file = |action, kind| EngineError::File {
        action,
        path: s(),
        cause: io(kind),
    };
    let stored = |kind| StoreError::File {
        action: "cannot write",
        path: "x".into(),
        cause: std::sync::Arc::new(io(kind)),
    };
    let spec = || EmbedError::BadSpec {
        spec: s(),
        reason: s(),
    };
    let absent = || ChatError::NotFound { what: s(), hint: s() };
    let mut rows = vec![
        (EngineError::Model(spec()), 422, 2),
        (
            EngineError::Model(EmbedError::NotFound { what: s(), hint: s() }),
            503,
            4,
        ),
        (EngineError::NoChatModel, 409, 2),
        (
            EngineError::Chat(ChatError::BadSpec {
                spec: s(),
                reason: s(),
            }),
            422,
            2,
        ),
        (EngineError::Chat(absent()), 503, 4),
        (
            EngineError::Sorting {
                round: 1,
                agent: s(),
                cause: absent(),
            },
            503,
            4,
        ),
        (
            EngineError::BadExtraction {
                round: 1,
                agent: s(),
                model: s(),
                reason: s(),
            },
            500,
            4,
        ),
        (file("read", NotFound), 422, 2),
        (file("read", PermissionDenied), 500, 4),
        (file("write", NotFound), 500, 4),
        (
            EngineError::Input {
                name: s(),
                problem: InputError::Empty,
            },
            422,
            2,
        ),
        (
            EngineError::Pairs {
                name: s(),
                line: 1,
                reason: s(),
            },
            422,
            2,
        ),
        (EngineError::NoProfile { name: s() }, 422, 2),
        (
            EngineError::ProfileFile {
                path: s(),
                problem: ProfileError::Shape(s()),
            },
            422,
            2,
        ),
        (EngineError::Profile(ProfileError::Shape(s())), 500, 4),
        (
            EngineError::Conversation(ConversationError::Profile(ProfileError::Shape(s()))),
            422,
            2,
        ),
        (
            EngineError::Vectors(VectorError::Count { expected: 1, got: 2 }),
            500,
            4,
        ),
        (ranking(RetrievalError::Empty), 422, 2),
        (ranking(RetrievalError::NoSharedQueries), 409, 2),
        (
            ranking(RetrievalError::Duplicate {
                query: s(),
                document: s(),
                line: None,
            }),
            409,
            2,
        ),
        (
            EngineError::Packed {
                path: s(),
                cause: io(NotFound),
            },
            422,
            2,
        ),
        (
            EngineError::WhichJudgments {
                folder: s(),
                count: 2,
            },
            422,
            2,
        ),
        (
            EngineError::NoField {
                field: s(),
                queries: 1,
            },
            422,
            2,
        ),
        (EngineError::NoVariance, 422, 2),
        (EngineError::PoolFormat { path: s() }, 422, 2),
        (EngineError::Corpus(few().into()), 422, 2),
        (EngineError::Figures(few()), 422, 2),
        (EngineError::NothingToCompare, 422, 2),
        (EngineError::Statistics(few()), 422, 2),
        (EngineError::NoLabels { folder: s() }, 422, 2),
        (EngineError::NeedsEmbedder { what: "x" }, 422, 2),
        (EngineError::NoSuite { path: s() }, 422, 2),
        (
            EngineError::Suite(satiety::bench::SuiteError::Format { file: s() }),
            422,
            2,
        ),
        (
            EngineError::TargetText {
                place: s(),
                reason: s(),
            },
            422,
            2,
        ),
        (
            EngineError::Target(OpenError::Description {
                key: "x",
                reason: s(),
            }),
            422,
            2,
        ),
        (EngineError::Target(OpenError::Outside { path: s() }), 422, 2),
        (EngineError::Target(OpenError::Sandbox { reason: s() }), 500, 4),
        (
            EngineError::Invalid {
                message: s(),
                hint: s().into(),
            },
            422,
            2,
        ),
        (
            EngineError::Conflict {
                message: s(),
                hint: s().into(),
            },
            409,
            2,
        ),
        (
            EngineError::EvictRefused {
                version: s(),
                reasons: vec![],
            },
            403,
            2,
        ),
        (
            EngineError::Eviction(EvictionError::NoItem { ctx_id: s() }),
            404,
            2,
        ),
        (
            EngineError::Eviction(EvictionError::UnknownIds {
                proposal_id: s(),
                ids: vec![],
            }),
            404,
            2,
        ),
        (
            EngineError::Eviction(EvictionError::AlreadyResolved {
                proposal_id: s(),
                resolved_by: s(),
            }),
            409,
            2,
        ),
        (
            EngineError::Eviction(EvictionError::Late {
                proposal_id: s(),
                late_ms: 1,
            }),
            409,
            2,
        ),
        (EngineError::Eviction(EvictionError::Weights(s())), 422, 2),
        (
            EngineError::Search(SearchError::BadSpec {
                spec: s(),
                reason: s(),
            }),
            422,
            2,
        ),
        (
            EngineError::Search(SearchError::NoKey {
                source_name: "x",
                variable: "X",
            }),
            422,
            2,
        ),
        (
            EngineError::Search(SearchError::Unreadable {
                path: s(),
                reason: s(),
            }),
            422,
            2,
        ),
        (
            EngineError::Search(SearchError::Unreachable {
                url: s(),
                reason: s(),
            }),
            500,
            4,
        ),
        (
            EngineError::Search(SearchError::NotRecorded {
                file: s(),
                query: s(),
            }),
            500,
            4,
        ),
        (
            EngineError::ResearchSettings(satiety::research::SettingsError::OutOfRange {
                name: "x",
                range: "y",
                value: 0.0,
            }),
            422,
            2,
        ),
        (
            EngineError::GateLine {
                name: s(),
                line: 1,
                reason: s(),
            },
            422,
            2,
        ),
        (EngineError::NoResearch { run: s() }, 404, 2),
        (EngineError::ResearchEnded { run: s() }, 409, 2),
        (EngineError::ResearchNeedsModel, 422, 2),
        (
            EngineError::NotFound {
                what: s(),
                hint: s().into(),
            },
            404,
            2,
        ),
        (
            EngineError::AlreadyExists {
                what: s(),
                hint: s().into(),
            },
            409,
            2,
        ),
        (
            EngineError::Unacceptable {
                what: s(),
                hint: s().into(),
            },
            422,
            2,
        ),
        (
            EngineError::TooCostly {
                what: "x",
                estimated: 2,
                limit: 1,
            },
            413,
            2,
        ),
        (
            EngineError::BudgetSpent {
                estimated: 2,
                left: 1,
                retry_after: 1,
            },
            429,
            2,
        ),
        (exceeded(satiety::quota::Quota::RequestsPerDay), 429, 2),
        (exceeded(satiety::quota::Quota::ModelTokensPerDay), 429, 2),
        (exceeded(satiety::quota::Quota::StorageBytes), 507, 2),
        (EngineError::OnlyMain { what: "x" }, 403, 2),
        (EngineError::NeedsAdminToken { what: "x" }, 403, 1),
        (EngineError::Overloaded, 503, 4),
        (EngineError::Cancelled, 503, 4),
        (EngineError::Busy { what: s() }, 503, 4),
        (
            EngineError::Json(serde_json::from_str::<u8>("x").unwrap_err()),
            500,
            4,
        ),
    ];
    for (error, status, code) in [
        (
            StoreError::InvalidUrl {
                url: s(),
                reason: s(),
            },
            422,
            2,
        ),
        (StoreError::NotADatabase { place: s() }, 500, 4),
        (
            StoreError::ForeignDatabase {
                place: s(),
                tables: s(),
            },
            500,
            4,
        ),
        (
            StoreError::Corrupt {
                place: s(),
                detail: s(),
            },
            500,
            4,
        ),
        (
            StoreError::ReadOnly {
                place: s(),
                detail: s(),
            },
            500,
            4,
        ),
        (StoreError::DiskFull { place: s() }, 503, 4),
        (
            StoreError::CannotOpen {
                place: s(),
                detail: s(),
            },
            503,
            4,
        ),
        (
            StoreError::LoginRefused {
                place: s(),
                detail: s(),
            },
            503,
            4,
        ),
        (
            StoreError::NoSuchDatabase {
                place: s(),
                detail: s(),
            },
            500,
            4,
        ),
        (
            StoreError::Unreachable {
                place: s(),
                detail: s(),
            },
            503,
            4,
        ),
        (
            StoreError::Tls {
                place: s(),
                detail: s(),
            },
            500,
            4,
        ),
        (StoreError::Busy { place: s() }, 503, 4),
        (
            StoreError::NewerSchema {
                place: s(),
                found: 2,
                known: 1,
            },
            500,
            4,
        ),
        (
            StoreError::OlderSchema {
                place: s(),
                found: 1,
                known: 2,
            },
            500,
            4,
        ),
        (
            StoreError::ForeignMigration {
                place: s(),
                version: 1,
                name: s(),
            },
            500,
            4,
        ),
        (StoreError::AlreadyExists { what: s() }, 409, 2),
        (StoreError::NoStore { place: s() }, 422, 2),
        (StoreError::NotFound { what: s() }, 404, 2),
        (StoreError::Import { line: 1, reason: s() }, 422, 2),
        (StoreError::ConstitutionalMemory { line: 1 }, 422, 2),
        (
            StoreError::NotEmpty {
                place: s(),
                table: s(),
            },
            422,
            2,
        ),
        (stored(AlreadyExists), 422, 2),
        (stored(NotFound), 500, 4),
        (
            StoreError::Stream {
                action: "read",
                cause: std::sync::Arc::new(io(NotFound)),
            },
            500,
            4,
        ),
        (
            StoreError::Unreadable {
                place: s(),
                what: s(),
                detail: s(),
            },
            500,
            4,
        ),
        (
            StoreError::InvalidRule {
                rule: s(),
                reason: s(),
            },
            422,
            2,
        ),
    ] {
        rows.push((error.into(), status, code));
    }
    for (error, status, code) in [
        (MemoryError::NotFound(s()), 404, 2),
        (
            MemoryError::OtherProject {
                id: s(),
                project: s(),
            },
            404,
            2,
        ),
        (MemoryError::SelfLink(s()), 409, 2),
        (
            MemoryError::Duplicate {
                id: s(),
                title: s(),
                kind: "near",
            },
            409,
            2,
        ),
        (
            MemoryError::NeedsPerson(satiety::memory::NeedsPerson::Rule),
            403,
            1,
        ),
        (
            MemoryError::Draft(satiety::memory::DraftError::Empty { field: "x" }),
            422,
            2,
        ),
        (MemoryError::Project(satiety::memory::ProjectError::Empty), 422, 2),
        (MemoryError::NotOneProject, 422, 2),
        (
            MemoryError::TooLong {
                what: "x",
                bytes: 2,
                most: 1,
            },
            422,
            2,
        ),
        (MemoryError::EmptyQuery, 422, 2),
        (
            MemoryError::OutOfRange {
                what: "x",
                range: "y",
                value: s(),
            },
            422,
            2,
        ),
        (
            MemoryError::Pipeline(satiety::memory::PipelineError::Unreadable(s())),
            422,
            2,
        ),
        (MemoryError::NoTask(s()), 422, 2),
        (MemoryError::TaskClosed(s()), 422, 2),
        (MemoryError::NoOpenTask(s()), 422, 2),
        (MemoryError::WhichTask, 422, 2),
        (MemoryError::NoSession(s()), 422, 2),
        (MemoryError::NoFolder(s()), 422, 2),
    ] {
        rows.push((error.into(), status, code));
    }
    for (error, status, code) in [
        (ExperimentError::NotFound(s()), 404, 2),
        (ExperimentError::Exists(s()), 409, 2),
        (
            ExperimentError::Status {
                feature: s(),
                status: s(),
                action: "x",
            },
            409,
            2,
        ),
        (ExperimentError::Contended(s()), 409, 4),
        (
            ExperimentError::Test {
                feature: s(),
                problem: few(),
            },
            500,
            4,
        ),
        (
            ExperimentError::Unreadable {
                name: s(),
                problem: s(),
            },
            422,
            2,
        ),
        (
            ExperimentError::Feature(satiety::experiment::FeatureError::Name(s())),
            422,
            2,
        ),
    ] {
        rows.push((error.into(), status, code));
    }
    for (error, status, code) in [
        (GoldenError::EmptyCorpus, 422, 2),
        (GoldenError::NoRun(s()), 404, 2),
        (GoldenError::RunEnded(s()), 409, 2),
        (
            GoldenError::AllFailed {
                queries: 1,
                first: s(),
            },
            500,
            4,
        ),
        (GoldenError::NoQuery(s()), 422, 2),
    ] {
        rows.push((error.into(), status, code));
    }
    let weaker = || satiety::harness::ProposalError::Weaker(vec![]);
    for (error, status, code) in [
        (HarnessError::NoFolder { path: s() }, 422, 2),
        (HarnessError::NoSuites { path: s() }, 422, 2),
        (
            HarnessError::BadFile {
                file: s(),
                reason: s(),
            },
            422,
            2,
        ),
        (
            HarnessError::Git {
                revision: s(),
                reason: s(),
            },
            422,
            2,
        ),
        (HarnessError::OutsideRepository { path: s(), top: s() }, 422, 2),
        (HarnessError::Link { path: s() }, 403, 1),
        (
            HarnessError::BadLock {
                file: s(),
                error: satiety::harness::LockError::Syntax(s()),
            },
            403,
            1,
        ),
        (HarnessError::SameTree { path: s() }, 422, 2),
        (HarnessError::NothingToSign, 422, 2),
        (HarnessError::Weaker { objections: vec![] }, 403, 1),
        (
            HarnessError::WeakerThanLock {
                file: s(),
                objections: vec![],
            },
            403,
            1,
        ),
        (
            HarnessError::LockedOptions {
                file: s(),
                flags: vec![],
            },
            422,
            2,
        ),
        (HarnessError::LockedBaseline { run: s(), suite: s() }, 403, 1),
        (HarnessError::OtherFiles { words: s() }, 403, 1),
        (HarnessError::Tampered { what: s() }, 403, 1),
        (HarnessError::Conflict, 409, 4),
        (
            HarnessError::Identity {
                lock: s(),
                anchor: s(),
            },
            403,
            1,
        ),
        (HarnessError::HistoryMissing { known: 2, found: 1 }, 403, 1),
        (HarnessError::AnchorMissing { harness_id: s() }, 403, 1),
        (HarnessError::NewHistory { why: s() }, 403, 1),
        (
            HarnessError::Stale {
                id: s(),
                from: s(),
                in_force: s(),
            },
            403,
            1,
        ),
        (HarnessError::LinkedFile { what: "x", path: s() }, 403, 1),
        (HarnessError::Changed { what: s() }, 403, 1),
        (HarnessError::Unknown, 422, 2),
        (HarnessError::RegressionTier { cases: vec![] }, 403, 1),
        (HarnessError::UnverifiedVersion, 422, 2),
        (HarnessError::Selection { flags: vec![] }, 422, 2),
        (HarnessError::NoEvidence { why: s() }, 422, 2),
        (HarnessError::NothingNew { cycle_id: s() }, 409, 2),
        (HarnessError::NoExpansion, 404, 2),
        (HarnessError::NoSuchExpansion(s()), 404, 2),
        (
            HarnessError::Phase {
                id: s(),
                state: s(),
                hint: s().into(),
            },
            422,
            2,
        ),
        (HarnessError::NothingToPropose, 422, 2),
        (
            HarnessError::BadProposal {
                model: s(),
                reason: s(),
            },
            500,
            4,
        ),
        (
            HarnessError::NotWritable {
                suite: s(),
                reason: s(),
            },
            422,
            2,
        ),
        (
            HarnessError::Undecided {
                case: s(),
                reason: s(),
            },
            500,
            4,
        ),
        (HarnessError::NoApprovers { place: s() }, 422, 2),
        (
            HarnessError::KeysChanged {
                place: s(),
                difference: s(),
            },
            403,
            1,
        ),
        (HarnessError::Key(s()), 422, 2),
        (
            HarnessError::Manifest(satiety::harness::ManifestError::Duplicate(s())),
            422,
            2,
        ),
        (HarnessError::Proposal(weaker()), 403, 1),
        (
            HarnessError::Proposal(satiety::harness::ProposalError::Nothing),
            422,
            2,
        ),
        (
            HarnessError::Expansion(satiety::harness::ExpansionError::Proposal(weaker())),
            403,
            1,
        ),
    ] {
        rows.push((error.into(), status, code));
    }
    rows
}

#[test]
fn every_error_keeps_its_http_status_and_exit_code() {
    for (error, status, code) in table() {
        assert_eq!(facts(&error), (status, code), "{error:?}");
    }
}
