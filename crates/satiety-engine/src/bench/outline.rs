//! Outline of a run: everything that identifies it, resolved before anything is opened. A resumed run must
//! match its stored outline.

use std::path::Path;

use satiety::Hint;
use satiety::bench::contract::TargetSpec;
use satiety::bench::{
    BenchmarkSuite, DERIVED_METRICS, SandboxIsolation, SandboxPolicy, WITH_SKILL, WITHOUT_SKILL,
    content_hash, suite_hash_from_cases,
};
use satiety::ids;
use satiety_store::bench::{BenchRunRow, ResultKey};
use satiety_store::{Store, now_micros};
use serde_json::{Map, Value, json};

use super::baseline::{MACHINE, this_machine};
use super::cache::target_hash;
use super::executor::{self, Job};
use super::plan::{LocatedTarget, chosen_target, confine, isolation, no_target, target};
use super::provider_targets::{ProviderTarget, provider_targets};
use super::run::RunBenchRequest;
use super::suites::LoadedSuite;
use super::until_decided::BASELINE_VARIANT;
use crate::EngineError;

/// Identity of a run: suite, target, variants and sandbox.
pub(super) struct Outline {
    pub(super) described: LocatedTarget,
    /// Sandbox policy of the target.
    pub(super) policy: SandboxPolicy,
    /// Isolation of its processes on this machine, once determined.
    pub(super) isolation: Option<SandboxIsolation>,
    pub(super) target_hash: String,
    /// Targets of the providers of a promptfoo configuration, one per variant; empty if the target was named.
    pub(super) providers: Vec<ProviderTarget>,
    /// Variant names, each with the directory of its skill.
    pub(super) variants: Vec<(String, Option<String>)>,
    /// Target of the baseline, the last variant, if it is repeated too.
    pub(super) baseline: Option<LocatedTarget>,
    pub(super) hashes: Vec<String>,
    pub(super) suite_hash: String,
}

/// Resolves a request to its outline.
pub(super) fn outline(request: &RunBenchRequest, loaded: &LoadedSuite) -> Result<Outline, EngineError> {
    let chosen = chosen_target(request.target.as_deref(), loaded)?;
    let (mut described, mut providers) = if let Some(described) = chosen {
        (described, Vec::new())
    } else {
        let (found, missing) = provider_targets(loaded, &request.environment);
        let first = found.first().ok_or_else(|| no_target(loaded, &missing))?;
        let mut described = first.located.clone();
        let names: Vec<&str> = found.iter().map(|provider| provider.name.as_str()).collect();
        described.name = names.join(", ");
        (described, found)
    };
    for provider in &mut providers {
        confine(&mut provider.located, request.sandbox);
    }
    if request.sandbox_is_explicit && !described.spec.starts_processes() {
        return Err(EngineError::Invalid {
            message: format!(
                "cannot sandbox a target of type {}: it starts no process",
                described.spec.kind()
            ),
            hint: "use the sandbox with exec, worker and command-based MCP targets".into(),
        });
    }
    let policy = confine(&mut described, request.sandbox);
    let skill = loaded.skill.as_ref().map(|folder| absolute(folder)).transpose()?;
    let mut variants = match (skill, request.without_skill) {
        (None, false) if providers.len() > 1 => {
            let names = providers.iter().map(|provider| provider.name.clone());
            names.map(|name| (name, None)).collect()
        }
        (Some(skill), true) => vec![
            (WITH_SKILL.to_owned(), Some(skill)),
            (WITHOUT_SKILL.to_owned(), None),
        ],
        (skill, false) => vec![(String::new(), skill)],
        (None, true) => {
            return Err(EngineError::Invalid {
                message: format!(
                    "cannot use --without-skill: {} is not the suite of a skill",
                    loaded.file.display()
                ),
                hint: "run without the skill only suites next to a SKILL.md".into(),
            });
        }
    };
    if (request.until_decided.is_some() || request.sequential) && providers.len() > 1 {
        let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
        return Err(EngineError::Invalid {
            message: format!(
                "cannot stop a run of {} providers early ({}): each has its own verdict",
                names.len(),
                names.join(", ")
            ),
            hint: Hint::with_command("name the one target to run", "--target TARGET"),
        });
    }
    let baseline_target = request
        .until_decided
        .as_ref()
        .and_then(|until| until.baseline_target.as_deref());
    let mut baseline = baseline_target
        .map(|named| target(Some(named), loaded))
        .transpose()?;
    if let Some(described) = &mut baseline {
        confine(described, request.sandbox);
        let skill = variants.first().and_then(|(_, skill)| skill.clone());
        variants.push((BASELINE_VARIANT.to_owned(), skill));
    }
    let hashes = executor::hashes(loaded);
    let mut hash = target_hash(&described.spec, &described.base);
    for provider in providers.iter().skip(1) {
        hash = content_hash(&(hash, target_hash(&provider.located.spec, &provider.located.base)));
    }
    Ok(Outline {
        target_hash: hash,
        suite_hash: suite_hash_from_cases(&loaded.suite, &hashes),
        described,
        providers,
        policy,
        isolation: None,
        variants,
        baseline,
        hashes,
    })
}

impl Outline {
    /// Determines the isolation of the target's processes on this machine; an error if it is weaker than
    /// required.
    pub(super) fn isolate(&mut self) -> Result<(), EngineError> {
        self.isolation = Some(isolation(&mut self.described, &self.policy)?);
        if let Some(baseline) = &mut self.baseline {
            isolation(baseline, &self.policy)?;
        }
        for provider in &mut self.providers {
            isolation(&mut provider.located, &self.policy)?;
        }
        Ok(())
    }

    /// Target of a variant.
    pub(super) fn target_of(&self, variant: &str) -> &LocatedTarget {
        match &self.baseline {
            Some(baseline) if variant == BASELINE_VARIANT => baseline,
            _ => &self.described,
        }
    }

    /// Removes the jobs of cases that do not run with the provider of their variant.
    pub(super) fn retain_jobs(&self, suite: &BenchmarkSuite, jobs: &mut Vec<Job>) {
        jobs.retain(
            |job| match (self.providers.get(job.variant), suite.cases.get(job.case)) {
                (Some(provider), Some(case)) => provider.answers(case),
                _ => true,
            },
        );
    }

    /// Name of the rate limit that workers share: the same for all runs that call the same service, or else
    /// the same target. A hash, because addresses may contain credentials.
    pub(super) fn limit_name(&self) -> String {
        match &self.described.spec {
            _ if self.providers.len() > 1 => format!("target/{}", self.target_hash),
            TargetSpec::Chat(chat) => format!("chat/{}", content_hash(&chat.model)),
            TargetSpec::Http(http) => format!("http/{}", content_hash(&origin(&http.url))),
            _ => format!("target/{}", self.target_hash),
        }
    }

    /// Hash for cached responses: those from a weaker isolation are kept separate.
    pub(super) fn answer_hash(&self, described: &LocatedTarget) -> String {
        let hash = target_hash(&described.spec, &described.base);
        match self.isolation {
            Some(isolation) if !isolation.is_full() => format!("{hash}-{isolation}"),
            _ => hash,
        }
    }
}

/// Scheme, host and port of an address: everything before its path.
fn origin(url: &str) -> &str {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find(['/', '?', '#']);
    end.map_or(url, |end| &url[..host + end])
}

/// Creates a new run, or finds the one to resume.
pub(super) async fn run_row(
    store: &Store,
    request: &RunBenchRequest,
    suite: &BenchmarkSuite,
    outline: &Outline,
    snapshot: &Map<String, Value>,
) -> Result<BenchRunRow, EngineError> {
    match &request.resume {
        None => {
            let row = new_row(suite, outline, snapshot);
            Ok(match &request.new_run_id {
                Some(run_id) => BenchRunRow {
                    run_id: run_id.clone(),
                    ..row
                },
                None => row,
            })
        }
        Some(named) => resumable(store, named, &suite.suite_id, snapshot).await,
    }
}

/// Key of the result that a job produces.
pub(super) fn key_of(suite: &BenchmarkSuite, variants: &[&str], job: Job) -> ResultKey {
    ResultKey {
        case_id: suite.cases[job.case].case_id.clone(),
        variant: variants[job.variant].to_owned(),
        repeat: i64::from(job.repeat),
    }
}

/// Configuration key of the target's sandbox.
pub(super) const SANDBOX: &str = "sandbox";

/// Sandbox of a target, as stored with a run. Without an isolation, each worker uses its own.
pub(super) fn sandbox_record(policy: &SandboxPolicy, isolation: Option<SandboxIsolation>) -> Value {
    json!({
        "requirement": policy.requirement,
        "isolation": isolation,
        "network": policy.network,
        "read": policy.read,
        "environment": policy.environment,
    })
}

/// Configuration that must match for a run to be resumed or reproduced.
pub(super) fn snapshot(
    request: &RunBenchRequest,
    loaded: &LoadedSuite,
    outline: &Outline,
) -> Map<String, Value> {
    let names: Vec<&str> = outline.variants.iter().map(|(name, _)| name.as_str()).collect();
    let value = json!({
        "satiety_version": env!("CARGO_PKG_VERSION"),
        "suite_version": loaded.suite.version,
        "suite_hash": outline.suite_hash,
        // As given, so that labelling can show the goals.
        "suite_file": loaded.file,
        "target": outline.described.spec,
        "target_hash": outline.target_hash,
        "repeats": request.repeats,
        "until_decided": request.until_decided,
        "seed": request.seed,
        "timeout_ms": request.timeout_ms,
        "judges": request.judges,
        "variants": names,
        "cases": request.cases,
        "tags": request.tags,
        "limits": request.limits,
        SANDBOX: sandbox_record(&outline.policy, outline.isolation),
        MACHINE: this_machine(),
    });
    let mut map = match value {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let derived = loaded.suite.metadata.get(DERIVED_METRICS);
    map.extend(derived.map(|derived| (DERIVED_METRICS.to_owned(), derived.clone())));
    map
}

fn new_row(suite: &BenchmarkSuite, outline: &Outline, snapshot: &Map<String, Value>) -> BenchRunRow {
    BenchRunRow {
        run_id: ids::prefixed("run", uuid::Uuid::now_v7()),
        suite_id: suite.suite_id.clone(),
        suite_hash: outline.suite_hash.clone(),
        target: outline.described.name.clone(),
        started_at: now_micros(),
        completed_at: None,
        config_snapshot: Value::Object(snapshot.clone()),
        summary: None,
        pass_rate: None,
    }
}

/// Finds the run to resume and checks that its configuration is unchanged.
async fn resumable(
    store: &Store,
    named: &str,
    suite_id: &str,
    snapshot: &Map<String, Value>,
) -> Result<BenchRunRow, EngineError> {
    let row = if named == "latest" {
        store.bench().runs(Some(suite_id), 1).await?.into_iter().next()
    } else {
        store.bench().run(named).await?
    };
    let row = row.ok_or_else(|| EngineError::Invalid {
        message: format!("no run of {suite_id} to resume"),
        hint: "start a new run instead of resuming".into(),
    })?;
    // The concurrency may change; the requests may not.
    for key in [
        "suite_hash",
        "target_hash",
        "repeats",
        "until_decided",
        "seed",
        "judges",
        "variants",
        "cases",
        "tags",
        SANDBOX,
    ] {
        // Runs of earlier versions record neither a sandbox nor rounds.
        if matches!(key, SANDBOX | "until_decided") && row.config_snapshot.get(key).is_none() {
            continue;
        }
        if row.config_snapshot.get(key) != snapshot.get(key) {
            return Err(EngineError::Invalid {
                message: format!("cannot resume run {}: `{key}` has changed", row.run_id),
                hint: "start a new run instead of resuming".into(),
            });
        }
    }
    Ok(row)
}

pub(super) fn absolute(path: &Path) -> Result<String, EngineError> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let absolute = std::path::absolute(path).map_err(|cause| EngineError::file("find", path, cause))?;
    Ok(absolute.display().to_string())
}
