//! Diagnostics (`satiety doctor`): checks each component that commands depend on and suggests a fix.

use std::time::Duration;

use satiety::Hint;
use satiety_store::{Migrate, SCHEMA_VERSION, StoreError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bench::sandbox::probes::{self, SandboxExamination};
use crate::bench::sandbox::{Probe, probe};
use crate::{Engine, EngineError};

/// Health of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ComponentHealth")]
pub enum Health {
    /// Works as it should.
    Good,
    /// Works, but with a limitation.
    Warning,
    /// Does not work at all.
    Bad,
}

/// Result of checking one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HealthFinding")]
pub struct Finding {
    /// Checked component: `store`, `schema`, `embedder`.
    pub part: String,
    /// Health of the component.
    pub health: Health,
    /// Observation in one line.
    pub detail: String,
    /// Suggested action; absent if none is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// Results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Examination {
    /// One finding per checked component.
    pub findings: Vec<Finding>,
}

impl Examination {
    /// Returns true if a component does not work.
    pub fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.health == Health::Bad)
    }
}

impl Finding {
    pub fn good(part: &str, detail: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            health: Health::Good,
            detail: detail.into(),
            fix: None,
        }
    }

    pub fn warning(part: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            part: part.into(),
            health: Health::Warning,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }

    pub fn bad(part: &str, detail: impl Into<String>, fix: Option<String>) -> Self {
        Self {
            part: part.into(),
            health: Health::Bad,
            detail: detail.into(),
            fix,
        }
    }
}

/// Timeout for connecting to an endpoint.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Returns `host:port` of a URL, with the default port of the scheme if the URL has none.
fn address_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?;
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let host = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    match authority {
        "" => None,
        _ if host.contains(':') => Some(authority.to_owned()),
        _ => Some(format!("{authority}:{port}")),
    }
}

/// Reports the sandbox for target processes. A degraded or missing sandbox is a warning: only gates require
/// one.
fn sandbox_finding(probe: &Probe) -> Finding {
    let fix = "install bubblewrap (bwrap) or allow user namespaces, or set `bench.sandbox` to \"prefer\" to accept less; `satiety doctor --sandbox` probes what is available";
    match (&probe.bubblewrap, &probe.namespaces, &probe.landlock) {
        (Ok(version), _, _) => Finding::good("sandbox", format!("{version} isolates targets")),
        (_, Ok(kinds), _) => Finding::good("sandbox", format!("{kinds} isolate targets")),
        (Err(bubblewrap), Err(namespaces), Ok(version)) => Finding::warning(
            "sandbox",
            format!(
                "only a degraded sandbox ({version}), which gates refuse: bubblewrap: {bubblewrap}; namespaces: {namespaces}"
            ),
            fix,
        ),
        (Err(bubblewrap), Err(namespaces), Err(landlock)) => Finding::warning(
            "sandbox",
            format!(
                "no sandbox available, so gates refuse to run: bubblewrap: {bubblewrap}; namespaces: {namespaces}; Landlock: {landlock}"
            ),
            fix,
        ),
    }
}

impl Engine {
    /// Attempts to escape from the sandbox of targets, with every isolation mechanism available on this
    /// machine.
    pub async fn examine_sandbox(&self) -> Result<SandboxExamination, EngineError> {
        probes::examine().await.map_err(|reason| EngineError::Invalid {
            message: reason,
            hint: Hint::with_command("see what this machine supports", "satiety doctor"),
        })
    }

    /// Checks the database and the models without changing anything; a missing database is fine and is not
    /// created.
    pub async fn doctor(&self) -> Examination {
        let mut findings = self.examine_store().await;
        findings.push(self.examine_archive());
        findings.push(self.examine_embedder().await);
        findings.extend(self.examine_chat().await);
        findings.push(sandbox_finding(probe()));
        Examination { findings }
    }

    async fn examine_store(&self) -> Vec<Finding> {
        let url = &self.settings.store;
        let store = match self.open_store(Migrate::Never).await {
            Ok(store) => store,
            Err(StoreError::NoStore { .. }) => {
                return vec![Finding::good(
                    "store",
                    format!("{url} does not exist yet; the first write creates it"),
                )];
            }
            Err(error) => {
                return vec![Finding::bad(
                    "store",
                    error.to_string(),
                    error.hint().map(|hint| hint.to_string()),
                )];
            }
        };
        let mut findings = Vec::new();
        match store.status().await {
            Ok(status) => {
                let rows: i64 = status.tables.iter().map(|table| table.rows).sum();
                let detail = format!(
                    "{} answers ({} {}, {rows} rows)",
                    status.place, status.engine, status.engine_version
                );
                findings.push(Finding::good("store", detail));
                findings.push(match status.schema_version {
                    SCHEMA_VERSION => Finding::good("schema", format!("version {SCHEMA_VERSION} (latest)")),
                    older => Finding::warning(
                        "schema",
                        format!("version {older}; the latest is {SCHEMA_VERSION}"),
                        "nothing to do: the next command that writes migrates it, or run `satiety db migrate` now",
                    ),
                });
                if status.schema_version > 0 {
                    findings.push(match store.check_writable().await {
                        Ok(()) => Finding::good("writing", "a write would succeed"),
                        Err(error) => Finding::bad(
                            "writing",
                            error.to_string(),
                            error.hint().map(|hint| hint.to_string()),
                        ),
                    });
                }
            }
            Err(error) => findings.push(Finding::bad(
                "store",
                error.to_string(),
                error.hint().map(|hint| hint.to_string()),
            )),
        }
        match store.fleet_status().await {
            Ok(fleet) => findings.extend(examine_fleet(&fleet)),
            Err(error) => tracing::debug!(%error, "cannot read the state of partitions"),
        }
        store.close().await;
        findings
    }

    /// Opens the sentence model and embeds a test text; for a remote model this also checks the endpoint.
    async fn examine_embedder(&self) -> Finding {
        if self.settings.embedder == "none" {
            return Finding::warning(
                "embedder",
                "none: texts are compared by words only",
                "set `models.embedder` to `builtin` to detect paraphrases",
            );
        }
        match self.models().verify().await {
            Ok(verification) => match verification.checks.iter().find(|check| !check.passed) {
                None => Finding::good("embedder", format!("{} works", verification.id)),
                Some(check) => Finding::bad(
                    "embedder",
                    format!("{}: {}: {}", verification.id, check.name, check.detail),
                    Some("use `--embedder builtin`, or another model".into()),
                ),
            },
            Err(error) => Finding::bad(
                "embedder",
                error.to_string(),
                error.hint().map(|hint| hint.to_string()),
            ),
        }
    }

    /// Checks that the endpoint of the chat model, if one is configured, accepts connections. Sends no
    /// request to the model itself: that would cost money.
    async fn examine_chat(&self) -> Option<Finding> {
        let spec = self.settings.chat.as_deref().filter(|spec| *spec != "none")?;
        let spec: satiety_models::chat::Spec = match spec.parse() {
            Ok(spec) => spec,
            Err(error) => {
                let error = EngineError::from(error);
                return Some(Finding::bad(
                    "chat",
                    error.to_string(),
                    error.hint().map(|hint| hint.to_string()),
                ));
            }
        };
        let fix = || Some("start the server, or correct the URL in `models.chat`".to_owned());
        let Some(address) = address_of(&spec.url) else {
            return Some(Finding::bad(
                "chat",
                format!("`{}` is not a valid URL", spec.url),
                fix(),
            ));
        };
        let connecting = tokio::net::TcpStream::connect(&address);
        Some(match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(Ok(_)) => Finding::good("chat", format!("{spec} accepts connections")),
            Ok(Err(cause)) => Finding::bad("chat", format!("{spec}: cannot reach {address}: {cause}"), fix()),
            Err(_) => Finding::bad("chat", format!("{spec}: {address} does not answer"), fix()),
        })
    }

    fn examine_archive(&self) -> Finding {
        let folder = &self.settings.archive_folder;
        let mut nearest = folder.as_path();
        while !nearest.exists() {
            match nearest.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => nearest = parent,
                _ => break,
            }
        }
        match nearest.metadata() {
            Ok(metadata) if !metadata.is_dir() => Finding::bad(
                "archive",
                format!("{} is not a directory", nearest.display()),
                Some("set `store.archive_folder` to a directory".into()),
            ),
            Ok(metadata) if metadata.permissions().readonly() => Finding::warning(
                "archive",
                format!("{} is not writable", nearest.display()),
                "retention rules that archive will fail; set `store.archive_folder` to a writable directory",
            ),
            _ => Finding::good("archive", format!("{} (created when needed)", folder.display())),
        }
    }
}

/// Checks that rows have partitions to go to, and that the read replica follows.
fn examine_fleet(fleet: &satiety_store::FleetStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    let behind = fleet.partitions.iter().find(|table| {
        table.partitions == 0 || table.default_rows > 0 || table.days_ahead.is_none_or(|days| days < 1)
    });
    if let Some(table) = behind {
        let detail = if table.partitions == 0 {
            format!("{} is not partitioned yet", table.table)
        } else if table.default_rows > 0 {
            format!("{} rows of {} have no partition", table.default_rows, table.table)
        } else {
            format!("{} has no partition after today", table.table)
        };
        findings.push(Finding::warning("partitions", detail, "run `satiety db migrate`"));
    } else if let Some(days) = fleet.partitions.iter().filter_map(|table| table.days_ahead).min() {
        findings.push(Finding::good("partitions", format!("made for {days} days ahead")));
    }
    findings.extend(fleet.replica.as_ref().map(examine_replica));
    findings
}

/// Checks that the read replica follows.
pub(crate) fn examine_replica(replica: &satiety_store::ReplicaStatus) -> Finding {
    match (&replica.problem, replica.lag_seconds) {
        (Some(problem), _) => Finding::warning(
            "replica",
            format!("reads go to the primary: {problem}"),
            "check `store.read_url` and that the replica is running",
        ),
        (None, Some(lag)) if lag > 60.0 => Finding::warning(
            "replica",
            format!("{} is {lag:.0} s behind", replica.place),
            "check the replication of the server",
        ),
        (None, lag) => Finding::good(
            "replica",
            format!("{} is {:.1} s behind", replica.place, lag.unwrap_or(0.0)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Health, Probe, address_of, sandbox_finding};

    #[test]
    fn either_kind_of_namespace_suffices_and_landlock_alone_is_degraded() {
        type State = Result<&'static str, &'static str>;
        let probe = |bubblewrap: State, namespaces: State, landlock: State| Probe {
            bubblewrap: bubblewrap.map(Into::into).map_err(Into::into),
            namespaces: namespaces.map(Into::into).map_err(Into::into),
            landlock: landlock.map(Into::into).map_err(Into::into),
        };
        for (probe, health, word) in [
            (
                probe(Ok("bubblewrap 0.11"), Ok("namespaces"), Ok("6")),
                Health::Good,
                "bubblewrap 0.11",
            ),
            (
                probe(Err("gone"), Ok("user namespaces"), Ok("6")),
                Health::Good,
                "user namespaces isolate",
            ),
            (
                probe(Err("gone"), Err("refused"), Ok("Landlock 6")),
                Health::Warning,
                "degraded sandbox (Landlock 6)",
            ),
            (
                probe(Err("gone"), Err("refused"), Err("old")),
                Health::Warning,
                "bubblewrap: gone; namespaces: refused; Landlock: old",
            ),
        ] {
            let finding = sandbox_finding(&probe);
            assert_eq!(finding.health, health);
            assert!(finding.detail.contains(word), "{}", finding.detail);
        }
    }

    #[test]
    fn addresses_are_found_in_urls() {
        for (url, address) in [
            ("http://localhost:11434", Some("localhost:11434")),
            ("https://api.example/v1", Some("api.example:443")),
            ("http://me:pw@host/x?y", Some("host:80")),
            ("http://[::1]:8080/v1", Some("[::1]:8080")),
            ("http://[::1]/v1", Some("[::1]:80")),
            ("ftp://host", None),
            ("host", None),
            ("http://", None),
        ] {
            assert_eq!(address_of(url).as_deref(), address, "{url}");
        }
    }
}
