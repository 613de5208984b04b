//! Ablation studies: run a control and its variants on the same cases, and decide whether a variant may ship.

use crate::handles::BenchOperations;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use satiety::Hint;
use satiety::bench::{self, AblationReport, AblationSettings, BenchmarkResult};
use satiety::ids;
use satiety_store::bench::{AblationRow, BenchRunRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::browse::keep_cases;
use super::cache::target_hash;
use super::code_host::CodeHosts;
use super::computed::SentenceModel;
use super::executor::{self, Lead, LocalJobs, Progress, Runner, Stop, Variant};
use super::limits::RateLimiter;
use super::llm_judge::Judges;
use super::outline::sandbox_record;
use super::plan::{Selection, confine, isolation, jobs, target};
use super::response_cache::StoredResponses;
use super::run::RunBenchRequest;
use super::sandbox::SandboxContext;
use super::suites::load;
use crate::EngineError;

/// Configuration key of runs that belong to an ablation: their results come from several targets.
pub(super) const ABLATION: &str = "ablation";

/// Ablation study to run.
#[derive(Debug, Clone)]
pub struct AblationRequest {
    /// Target descriptions, the control first.
    pub targets: Vec<String>,
    pub suites: Vec<PathBuf>,
    /// Only cases with this tag, which names the changed component.
    pub tag: Option<String>,
    /// Repeats of each case with each target.
    pub runs: u32,
    /// Tolerated regressions.
    pub settings: AblationSettings,
    /// Judges, limits and other options of a run.
    pub options: RunBenchRequest,
}

/// Result of an ablation study.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AblationResponse {
    /// Id of the ablation study.
    pub ablation_id: String,
    /// Tag of the changed component, if one was given.
    pub tag: Option<String>,
    /// Run ids by suite id.
    pub runs: BTreeMap<String, String>,
    /// Whether the study was stopped before all cases were run.
    pub interrupted: bool,
    /// Comparison of the variants with the control.
    #[serde(flatten)]
    pub report: AblationReport,
}

impl BenchOperations<'_> {
    /// Runs all variants on all suites, interleaved, and compares them with the first.
    pub async fn ablation(
        self,
        request: AblationRequest,
        stop: &Stop,
        mut progress: impl FnMut(Progress),
    ) -> Result<AblationResponse, EngineError> {
        let names = names(&request.targets)?;
        let store = self.engine.store().await?.clone();
        let mut by_variant: BTreeMap<String, Vec<BenchmarkResult>> = BTreeMap::new();
        let mut runs = BTreeMap::new();
        let mut interrupted = false;
        for path in &request.suites {
            let mut loaded = load(path)?;
            let selection = Selection {
                cases: request.options.cases.clone(),
                tags: request.tag.iter().cloned().collect(),
            };
            selection.apply(&mut loaded.suite)?;
            let mut variants = Vec::new();
            let mut sandboxes = BTreeMap::new();
            for (name, text) in names.iter().zip(&request.targets) {
                let mut described = target(Some(text), &loaded)?;
                let policy = confine(&mut described, request.options.sandbox);
                let isolation = isolation(&mut described, &policy)?;
                sandboxes.insert(name.clone(), sandbox_record(&policy, Some(isolation)));
                let context = SandboxContext {
                    requirement: policy.requirement,
                    protected: self.protected(&loaded, &request.options),
                    skill: None,
                };
                let target_hash = target_hash(&described.spec, &described.base);
                variants.push(Variant {
                    name: name.clone(),
                    target: self.open_target(&described, &loaded.folder, &request.options, context)?,
                    target_hash: if isolation.is_full() {
                        target_hash
                    } else {
                        format!("{target_hash}-{isolation}")
                    },
                    skill_dir: None,
                    transforms: Vec::new(),
                    provider: None,
                });
            }
            let row = BenchRunRow {
                run_id: ids::prefixed("run", uuid::Uuid::now_v7()),
                suite_id: loaded.suite.suite_id.clone(),
                suite_hash: loaded.hash(),
                target: names.join(", "),
                started_at: now_micros(),
                completed_at: None,
                config_snapshot: json!({
                    ABLATION: true,
                    "variants": names,
                    "targets": variants.iter().map(|variant| &variant.target_hash).collect::<Vec<_>>(),
                    "repeats": request.runs,
                    "sandbox": sandboxes,
                    "seed": request.options.seed,
                }),
                summary: None,
                pass_rate: None,
            };
            store.bench().begin_run(&row).await?;
            let hashes = executor::hashes(&loaded);
            keep_cases(&store, &row.run_id, &loaded.suite, &hashes).await?;
            let jobs = jobs(&loaded.suite, Some(request.runs), variants.len());
            let planned = jobs.len();
            let options = &request.options;
            let runner = Arc::new(Runner {
                run_id: row.run_id.clone(),
                checks: CodeHosts::open(
                    &loaded.suite,
                    &[],
                    &loaded.folder,
                    self.confinement(options).as_deref(),
                    options,
                )?,
                sentence_model: SentenceModel::new(self.engine),
                hashes,
                places: executor::places(&loaded.suite),
                suite: loaded.suite.clone(),
                folder: loaded.folder.clone(),
                variants,
                limits: options.limits.clone(),
                gate: RateLimiter::new(&options.limits),
                judges: Judges::open(&options.judges, self.engine)?,
                cache: options
                    .cache
                    .then(|| Box::new(StoredResponses(store.clone())) as _),
                seed: options.seed,
                timeout_ms: options.timeout_ms,
            });
            let mut seen = Progress {
                done: 0,
                planned,
                passed: 0,
                failed: 0,
                undecided: 0,
            };
            let work = LocalJobs::new(runner.clone(), jobs, store.clone());
            executor::run(work.clone(), work.at_a_time(), Lead::Wide, stop, |mut result| {
                seen.done += 1;
                match result.passed() {
                    Some(true) => seen.passed += 1,
                    Some(false) => seen.failed += 1,
                    None => seen.undecided += 1,
                }
                progress(seen);
                // Cases of different suites may have the same id.
                result.case_id = format!("{}/{}", row.suite_id, result.case_id);
                by_variant
                    .entry(result.variant.clone().unwrap_or_default())
                    .or_default()
                    .push(result);
                true
            })
            .await?;
            runner.close().await;
            interrupted |= seen.done < planned;
            runs.insert(row.suite_id.clone(), row.run_id.clone());
            if interrupted {
                break;
            }
            store
                .bench()
                .complete_run(&row.run_id, now_micros(), &json!({ABLATION: true}), None)
                .await?;
        }
        let empty = Vec::new();
        let results_of = |name: &String| by_variant.get(name).unwrap_or(&empty).as_slice();
        let (control, variants) = names.split_first().ok_or_else(too_few)?;
        let variants: Vec<(&str, &[BenchmarkResult])> = variants
            .iter()
            .map(|name| (name.as_str(), results_of(name)))
            .collect();
        let report = bench::ablation((control, results_of(control)), &variants, &request.settings)
            .map_err(EngineError::Figures)?;
        let ablated = AblationResponse {
            ablation_id: ids::prefixed("ablation", uuid::Uuid::now_v7()),
            tag: request.tag,
            runs,
            interrupted,
            report,
        };
        if !interrupted {
            let row = AblationRow {
                ablation_id: ablated.ablation_id.clone(),
                tag: ablated.tag.clone().unwrap_or_default(),
                decided_at: now_micros(),
                report: serde_json::to_value(&ablated)?,
            };
            store.bench().put_ablation(&row).await?;
        }
        Ok(ablated)
    }
}

fn too_few() -> EngineError {
    EngineError::Invalid {
        message: "an ablation requires a control and at least one variant".into(),
        hint: Hint::with_command(
            "give a control and at least one variant",
            "satiety bench ablation control.toml variant.toml --suite SUITE",
        ),
    }
}

/// Short, distinct names of the targets: file names where possible, otherwise the descriptions as typed.
fn names(targets: &[String]) -> Result<Vec<String>, EngineError> {
    if targets.len() < 2 {
        return Err(too_few());
    }
    let mut names: Vec<String> = Vec::new();
    for (position, text) in targets.iter().enumerate() {
        if targets[..position].contains(text) {
            return Err(EngineError::Invalid {
                message: format!("duplicate target `{text}`"),
                hint: "pass a different target for each variant".into(),
            });
        }
        let path = std::path::Path::new(text);
        let stem = path
            .file_stem()
            .filter(|_| path.is_file())
            .map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_else(|| text.clone());
        let name = if names.contains(&stem) { text.clone() } else { stem };
        names.push(name);
    }
    Ok(names)
}
