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
use super::plan::{LocatedTarget, target_file};
use super::response_cache::StoredResponses;
use super::run::{FileAccess, RunBenchRequest};
use super::sandbox::layout::{Protected, canonical};
use super::sandbox::{SandboxContext, helper};
use super::shared_limits::SharedLimit;
use super::suites::{LoadedSuite, case_files, load, suite_file};
use super::target::{Environment, OpenError, Target, TargetContext};
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
        let within = self.confinement(request);
        let checks = CodeHosts::open(
            &loaded.suite,
            &transforms,
            &loaded.folder,
            within.as_deref(),
            request,
        )?;
        let gate = if request.distributed {
            let shared = SharedLimit::new(store.clone(), outline.limit_name(), &request.limits);
            RateLimiter::shared(&request.limits, shared)
        } else {
            RateLimiter::new(&request.limits)
        };
        Ok(Runner {
            run_id,
            checks,
            sentence_model: SentenceModel::new(self.engine),
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
        let target = Target::open(&described.spec, &context)?;
        Ok(target.count_for(self.engine.meter()))
    }

    /// Directory that the files of a tenant's run are confined to.
    pub(super) fn confinement(self, request: &RunBenchRequest) -> Option<PathBuf> {
        self.engine.tenant_name()?;
        match &request.files {
            FileAccess::Tenant => self.engine.tenant_root().cloned(),
            FileAccess::Below(root) => Some(root.clone()),
            FileAccess::Machine => None,
        }
    }

    /// Loads the suite of a run. The files of a tenant's run must be in the tenant's directory: its users may have put
    /// links there.
    pub(super) fn load_suite(self, request: &RunBenchRequest) -> Result<LoadedSuite, EngineError> {
        let Some(root) = self.confinement(request) else {
            return load(&request.suite);
        };
        let root = canonical(&root);
        let check = |files: &[PathBuf]| match files.iter().find(|file| !canonical(file).starts_with(&root)) {
            Some(outside) => Err(OpenError::outside(outside)),
            None => Ok(()),
        };
        // Before they are read: an error would quote them.
        if let Some(file) = suite_file(&request.suite) {
            let cases = file.with_file_name("cases");
            check(&[file])?;
            check(&case_files(&cases)?)?;
        }
        let until = request.until_decided.as_ref();
        let targets = request
            .target
            .iter()
            .chain(until.and_then(|until| until.baseline_target.as_ref()));
        let targets: Vec<PathBuf> = targets.map(PathBuf::from).filter(|path| path.is_file()).collect();
        check(&targets)?;
        let loaded = load(&request.suite)?;
        let folder = canonical(&loaded.folder);
        let mut files = vec![folder.join("baseline.json"), folder];
        files.extend(loaded.skill.clone());
        files.extend(target_file(&loaded).filter(|_| request.target.is_none()));
        check(&files)?;
        Ok(loaded)
    }

    /// Paths that no target of this suite may read.
    pub(super) fn protected(self, loaded: &LoadedSuite, request: &RunBenchRequest) -> Protected {
        let cases = loaded.folder.join("cases");
        let mut trees = vec![
            loaded.file.clone(),
            loaded.folder.join("baseline.json"),
            self.engine.settings().archive_folder.clone(),
            self.engine.registry().settings().archive_folder.clone(),
        ];
        // Only the case files: fixtures may be next to them. An unreadable directory was reported when the
        // suite was loaded.
        trees.extend(case_files(&cases).unwrap_or_default());
        if let Some(skill) = &loaded.skill {
            trees.extend(["benchmarks", "evals", "evals.json"].map(|name| skill.join(name)));
        }
        // That of the tenant, and the main one with the tokens.
        let main = &self.engine.registry().settings().store;
        for url in [&self.engine.settings().store, main] {
            if let StoreUrl::Sqlite(store) = url {
                trees.extend(["", "-wal", "-shm", "-journal"].map(|end| {
                    let mut path = store.clone().into_os_string();
                    path.push(end);
                    PathBuf::from(path)
                }));
            }
        }
        if let StoreUrl::Sqlite(store) = main {
            trees.extend(stores_of_tenants(store));
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
            within: self.confinement(request),
        };
        // The root contains everything and is rejected anyway.
        protected.wholes.retain(|path| path.parent().is_some());
        protected
    }
}

/// Files of the tenants' stores next to the main one, with their logs and indexes.
fn stores_of_tenants(main: &Path) -> Vec<PathBuf> {
    let folder = main.parent().filter(|folder| !folder.as_os_str().is_empty());
    let prefix = format!("{}_t_", main.file_stem().unwrap_or_default().to_string_lossy());
    let Ok(entries) = fs_err::read_dir(folder.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))
        .map(|entry| entry.path())
        .collect()
}
