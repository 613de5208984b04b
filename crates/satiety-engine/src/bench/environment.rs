//! Execution environment of a run: an open target for each variant, and the paths hidden from targets.

use crate::handles::BenchOperations;
use std::path::{Path, PathBuf};

use satiety_models::KeyOwner;
use satiety_models::http::ApiKey;
use satiety_store::{Store, StoreUrl};

use super::code_host::CodeHosts;
use super::computed::SentenceModel;
use super::executor::{self, Runner, Variant};
use super::limits::RateLimiter;
use super::llm_judge::Judges;
use super::outline::{Outline, absolute};
use super::plan::LocatedTarget;
use super::response_cache::StoredResponses;
use super::run::RunBenchRequest;
use super::sandbox::layout::Protected;
use super::sandbox::{SandboxContext, helper};
use super::shared_limits::SharedLimit;
use super::suites::{LoadedSuite, case_files};
use super::target::{Environment, Target, TargetContext};
use crate::EngineError;

/// Entries of a home directory with credentials that no target needs.
const PRIVATE: [&str; 12] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/satiety",
    ".docker",
    ".git-credentials",
    ".kube",
    ".netrc",
    ".pgpass",
];

impl BenchOperations<'_> {
    /// Opens everything that the jobs of a run need. Runs of workers share the limit of the target.
    pub(super) fn equip(
        self,
        run_id: String,
        request: &RunBenchRequest,
        loaded: LoadedSuite,
        outline: Outline,
        store: &Store,
    ) -> Result<Runner, EngineError> {
        let mut variants = Vec::new();
        for (index, (name, skill_dir)) in outline.variants.iter().enumerate() {
            let context = SandboxContext {
                requirement: outline.policy.requirement,
                protected: self.protected(&loaded, request),
                skill: skill_dir.as_ref().map(PathBuf::from),
            };
            let provider = outline.providers.get(index);
            let described = provider.map_or_else(|| outline.target_of(name), |provider| &provider.located);
            variants.push(Variant {
                name: name.clone(),
                target: self.open_target(described, &loaded.folder, request, context)?,
                target_hash: outline.answer_hash(described),
                skill_dir: skill_dir.clone(),
                transforms: provider.map_or_else(Vec::new, |provider| provider.transforms.clone()),
                provider: provider.map(|provider| provider.summary.clone()),
            });
        }
        let transforms: Vec<_> = variants
            .iter()
            .flat_map(|variant| variant.transforms.iter().cloned())
            .collect();
        let checks = CodeHosts::open(&loaded.suite, &transforms, &loaded.folder, request)?;
        let gate = if request.distributed {
            let shared = SharedLimit::new(store.clone(), outline.limit_name(), &request.limits);
            RateLimiter::shared(&request.limits, shared)
        } else {
            RateLimiter::new(&request.limits)
        };
        Ok(Runner {
            run_id,
            checks,
            sentence_model: SentenceModel::new(self.engine.settings()),
            hashes: outline.hashes,
            places: executor::places(&loaded.suite),
            suite: loaded.suite,
            folder: loaded.folder,
            variants,
            limits: request.limits.clone(),
            gate,
            judges: Judges::open(&request.judges, self.engine)?,
            cache: request
                .cache
                .then(|| Box::new(StoredResponses(store.clone())) as _),
            seed: request.seed,
            timeout_ms: request.timeout_ms,
        })
    }

    pub(super) fn open_target(
        self,
        described: &LocatedTarget,
        suite: &Path,
        request: &RunBenchRequest,
        sandbox: SandboxContext,
    ) -> Result<Target, EngineError> {
        let environment: Environment = request.environment.clone().into_iter().collect();
        let key = |key: &Option<String>, owner| key.as_deref().map(|key| ApiKey::new(key, owner));
        let context = TargetContext {
            base: absolute(&described.base)?.into(),
            suite: absolute(suite)?.into(),
            scratch: std::env::temp_dir(),
            keep_workdirs: request.keep_workdirs,
            environment,
            api_key: key(&self.engine.settings().api_key, KeyOwner::OpenAi),
            anthropic_key: key(&self.engine.settings().anthropic_key, KeyOwner::Anthropic),
            helper: helper::own_path(),
            sandbox,
        };
        Ok(Target::open(&described.spec, &context)?)
    }

    /// Paths that no target of this suite may read.
    pub(super) fn protected(self, loaded: &LoadedSuite, request: &RunBenchRequest) -> Protected {
        let cases = loaded.folder.join("cases");
        let mut trees = vec![
            loaded.file.clone(),
            loaded.folder.join("baseline.json"),
            self.engine.settings().archive_folder.clone(),
        ];
        // Only the case files: fixtures may be next to them. An unreadable directory was reported when the
        // suite was loaded.
        trees.extend(case_files(&cases).unwrap_or_default());
        if let Some(skill) = &loaded.skill {
            trees.extend(["benchmarks", "evals", "evals.json"].map(|name| skill.join(name)));
        }
        if let StoreUrl::Sqlite(store) = &self.engine.settings().store {
            trees.extend(["", "-wal", "-shm", "-journal"].map(|end| {
                let mut path = store.clone().into_os_string();
                path.push(end);
                PathBuf::from(path)
            }));
        }
        let mut wholes = vec![loaded.folder.clone(), cases, std::env::temp_dir()];
        // The history of the repository contains the expected answers, too.
        let folder = std::path::absolute(&loaded.folder).unwrap_or_else(|_| loaded.folder.clone());
        if let Some(repository) = folder.ancestors().find(|above| above.join(".git").exists()) {
            trees.push(repository.join(".git"));
            wholes.push(repository.to_owned());
        }
        if let Some(home) = request.environment.get("HOME").map(PathBuf::from) {
            trees.extend(PRIVATE.map(|name| home.join(name)));
            wholes.push(home);
        }
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let mut protected = Protected {
            trees: trees.into_iter().map(absolute).collect(),
            wholes: wholes.into_iter().map(absolute).collect(),
        };
        // The root contains everything and is rejected anyway.
        protected.wholes.retain(|path| path.parent().is_some());
        protected
    }
}
