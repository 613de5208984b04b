//! Sandbox policy of a target, as one value that can be stored, hashed and compared.
//!
//! The policy states permissions and is independent of how a machine enforces them: the same policy applies
//! under bubblewrap and under built-in namespaces. The engine enforces it. Harness lock files hash this
//! value, so its JSON form is canonical: every field is written, and paths are normalised, sorted and
//! deduplicated.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract::TargetSpec;
use super::run::{BenchmarkRun, ErrorOwner, Status};

/// Whether the processes of a target must be sandboxed.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxRequirement {
    /// Run without a sandbox; the result records it.
    Off,
    /// Use the strongest isolation available on this machine, possibly none; the result records which.
    Prefer,
    /// Refuse to run if the machine cannot isolate processes with namespaces.
    #[default]
    Require,
}

impl SandboxRequirement {
    /// Name used in settings, JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Prefer => "prefer",
            Self::Require => "require",
        }
    }
}

impl fmt::Display for SandboxRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SandboxRequirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Off, Self::Prefer, Self::Require]
            .into_iter()
            .find(|requirement| requirement.name() == text)
            .ok_or_else(|| {
                format!("unknown sandbox requirement {text:?} (expected one of: require, prefer, off)")
            })
    }
}

/// Isolation of the target's processes, strongest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxIsolation {
    /// The processes ran with the permissions of the user who started the run.
    None,
    /// Degraded: Landlock and a system call filter, without namespaces.
    Landlock,
    /// User, pid, mount, IPC and UTS namespaces created by this program.
    Namespaces,
    /// The same namespaces created by bubblewrap.
    Bubblewrap,
    /// The target starts no process on this machine.
    NotApplicable,
}

impl SandboxIsolation {
    /// Whether the isolation satisfies [`SandboxRequirement::Require`].
    pub fn is_full(self) -> bool {
        matches!(self, Self::Namespaces | Self::Bubblewrap | Self::NotApplicable)
    }

    /// Name used in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
            Self::Bubblewrap => "bubblewrap",
            Self::NotApplicable => "not_applicable",
        }
    }
}

impl fmt::Display for SandboxIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Permissions of the target's processes beyond the fixed minimum (system directories, the interpreter, the
/// target's own files and a working directory).
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxPolicy {
    /// Whether a sandbox is required, preferred or off.
    pub requirement: SandboxRequirement,
    /// Whether processes may use the network of the machine.
    #[serde(default)]
    pub network: bool,
    /// Additional files and directories that processes may read, as named in the target definition.
    #[serde(default)]
    pub read: BTreeSet<String>,
    /// Names of environment variables that are passed on from the harness.
    #[serde(default)]
    pub environment: BTreeSet<String>,
}

impl SandboxPolicy {
    /// Policy of a target definition under a requirement. Targets without local processes have no additional
    /// permissions.
    pub fn of(spec: &TargetSpec, requirement: SandboxRequirement) -> Self {
        let (sandbox, read, environment) = match spec {
            TargetSpec::Exec(spec) => (&spec.sandbox, &spec.read, &spec.env),
            TargetSpec::Worker(spec) => (&spec.sandbox, &spec.read, &spec.env),
            TargetSpec::Mcp(spec) if spec.command.is_some() => (&spec.sandbox, &spec.read, &spec.env),
            _ => {
                return Self {
                    requirement,
                    ..Self::default()
                };
            }
        };
        Self {
            requirement,
            network: sandbox.as_ref().is_some_and(|sandbox| sandbox.network),
            read: read.iter().map(|path| normalize_path(path)).collect(),
            environment: environment.iter().cloned().collect(),
        }
    }
}

/// Note about the sandbox of a run for its report: it was absent or degraded, or the target failed and had no
/// network. Returns `None` when the sandbox was fully effective and the target did not fail, and for runs
/// without sandbox information.
pub fn sandbox_note(run: &BenchmarkRun) -> Option<String> {
    let record = run.config_snapshot.get("sandbox")?;
    let isolation = serde_json::from_value::<SandboxIsolation>(record.get("isolation")?.clone()).ok()?;
    let target_failed = || {
        run.results
            .iter()
            .any(|result| result.status == Status::Error && result.owner() == ErrorOwner::Target)
    };
    match isolation {
        SandboxIsolation::None => Some(
            "sandbox: none; the target ran with the user's permissions and could read the expected answers"
                .to_owned(),
        ),
        SandboxIsolation::Landlock => {
            Some("sandbox: landlock, degraded; the target ran without separate namespaces".to_owned())
        }
        SandboxIsolation::NotApplicable => None,
        SandboxIsolation::Namespaces | SandboxIsolation::Bubblewrap => {
            let network = record.get("network").and_then(serde_json::Value::as_bool);
            (network == Some(false) && target_failed()).then(|| {
                format!(
                    "sandbox: {isolation}, no network, and access only to files named in the target definition (`[sandbox] network = true` and `read = [...]` allow more)"
                )
            })
        }
    }
}

/// Removes `.` components, repeated slashes and the trailing slash. `..` stays, because its meaning depends
/// on symbolic links.
pub(crate) fn normalize_path(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    let joined = parts.join("/");
    match (path.starts_with('/'), joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::content_hash;

    fn policy(requirement: SandboxRequirement, network: bool, read: &[&str]) -> SandboxPolicy {
        SandboxPolicy {
            requirement,
            network,
            read: read.iter().map(|path| normalize_path(path)).collect(),
            environment: BTreeSet::new(),
        }
    }

    #[test]
    fn a_policy_is_derived_from_a_definition_and_hashes_its_permissions() {
        let read = |text: &str| toml::from_str::<TargetSpec>(text).unwrap();
        let require = SandboxRequirement::Require;
        let spec = read(
            "type = 'exec'\ncommand = 'a'\nread = ['lib/', '/opt/x', './lib']\nenv = ['K']\n[sandbox]\nnetwork = true",
        );
        let found = SandboxPolicy::of(&spec, require);
        let expected = SandboxPolicy {
            network: true,
            environment: ["K".to_owned()].into(),
            ..policy(require, false, &["lib", "/opt/x"])
        };
        assert_eq!(found, expected);
        let same = read(
            "type = 'exec'\ncommand = 'b'\nread = ['/opt/x', 'lib']\nenv = ['K']\n[sandbox]\nnetwork = true",
        );
        assert_eq!(
            content_hash(&SandboxPolicy::of(&same, require)),
            content_hash(&found)
        );
        assert_eq!(
            SandboxPolicy::of(&read("type = 'http'\nurl = 'http://x/'"), require),
            policy(require, false, &[])
        );
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(
            json,
            r#"{"requirement":"require","network":true,"read":["/opt/x","lib"],"environment":["K"]}"#
        );
        assert_eq!(serde_json::from_str::<SandboxPolicy>(&json).unwrap(), found);
        assert!("sometimes".parse::<SandboxRequirement>().is_err());
        assert_eq!("prefer".parse(), Ok(SandboxRequirement::Prefer));
    }

    #[test]
    fn a_run_without_a_full_sandbox_has_a_note() {
        use crate::bench::BenchmarkResult;
        use serde_json::json;
        let run = |isolation: &str, status: Status| BenchmarkRun {
            run_id: "r".into(),
            suite_id: "s".into(),
            suite_hash: None,
            target: "t".into(),
            started_at: jiff::Timestamp::UNIX_EPOCH,
            completed_at: None,
            config_snapshot: [(
                "sandbox".to_owned(),
                json!({"isolation": isolation, "network": false}),
            )]
            .into(),
            results: vec![BenchmarkResult::new("c", 0, status)],
            summary: None,
        };
        let note = |isolation, status| sandbox_note(&run(isolation, status));
        assert!(note("none", Status::Pass).is_some_and(|note| note.contains("none")));
        assert!(note("landlock", Status::Pass).is_some_and(|note| note.contains("degraded")));
        assert_eq!(note("namespaces", Status::Pass), None);
        assert!(note("bubblewrap", Status::Error).is_some_and(|note| note.contains("no network")));
        assert_eq!(note("not_applicable", Status::Error), None);
    }
}
