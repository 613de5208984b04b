//! Alert hooks: run a command, post to a webhook, or both. Delivery does not affect verdicts: a hook that
//! fails is a warning.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use satiety::harness::Driver;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use satiety_models::http::{Client, HttpError, HttpPolicy, Method};

use crate::bench::target::post_address;

/// Default timeout of a hook.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a command's stderr that are reported.
const MAX_STDERR_BYTES: u64 = 2000;

/// Actions after a gated run, a harness cycle or a rollback. They belong to the process, not to a request: a
/// caller whose agent is measured cannot choose who is notified or what is recorded.
#[derive(Debug, Clone, Default)]
pub struct HookSettings {
    /// Alert for every regression that was not accepted.
    pub regression: Alert,
    /// Alert for harness cycles that need a person, and for rollbacks.
    pub harness: Alert,
    /// Harness whose next cycle is recorded after a gated run; `None` records none.
    pub cycle: Option<HarnessCycle>,
}

/// The harness that gated runs belong to.
#[derive(Debug, Clone)]
pub struct HarnessCycle {
    /// Directory with the suites of the harness.
    pub folder: PathBuf,
    /// Score that drives its window.
    pub driver: Driver,
}

/// Destinations of an alert.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alert {
    /// Shell command that receives the report on standard input.
    pub command: Option<String>,
    /// URL that the report is posted to.
    pub webhook: Option<String>,
    /// Timeout of each hook; ten seconds if `None`.
    pub limit: Option<Duration>,
}

impl Alert {
    /// Returns true if no destination is configured.
    pub(crate) fn is_empty(&self) -> bool {
        self.command.is_none() && self.webhook.is_none()
    }

    /// Delivers the alert to every destination. Returns a warning for each hook that failed; `name` is the
    /// settings section and the prefix of the hook names.
    pub(crate) async fn send(&self, name: &str, body: &Value) -> Vec<String> {
        let limit = self.limit.unwrap_or(DEFAULT_TIMEOUT);
        let mut warnings = Vec::new();
        if let Some(command) = &self.command
            && let Err(problem) = run(command, body.to_string(), limit).await
        {
            warnings.push(format!("{name}_command: {problem}"));
        }
        if let Some(url) = &self.webhook
            && let Err(problem) = post(url, body, limit).await
        {
            warnings.push(format!("{name}_webhook: {problem}"));
        }
        warnings
    }
}

async fn run(command: &str, input: String, limit: Duration) -> Result<(), String> {
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start the shell: {error}"))?;
    let group = child
        .id()
        .and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let exchange = async {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that ignores its input may close the pipe.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
        };
        let listen = async {
            let mut said = Vec::new();
            if let Some(mut stderr) = stderr {
                let _ = (&mut stderr).take(MAX_STDERR_BYTES).read_to_end(&mut said).await;
                // Drain the rest of stderr, or the command would block on a full pipe.
                let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            String::from_utf8_lossy(&said).trim().to_owned()
        };
        let ((), said, ended) = tokio::join!(feed, listen, child.wait());
        (said, ended)
    };
    let outcome = timeout(limit, exchange).await;
    let Ok((said, ended)) = outcome else {
        if let Some(group) = group {
            // The process group may have exited already.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        return Err(format!(
            "timed out after {} seconds and was killed",
            limit.as_secs_f64()
        ));
    };
    let status = ended.map_err(|error| error.to_string())?;
    if status.success() {
        return Ok(());
    }
    let said = if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    };
    Err(format!("{status}{said}"))
}

async fn post(url: &str, body: &Value, limit: Duration) -> Result<(), String> {
    let address = post_address(url).map_err(|problem| problem.to_string())?;
    let policy = HttpPolicy::single_attempt(Some(limit));
    let client = Client::new(policy).map_err(|problem| problem.to_string())?;
    let request = client.request(Method::POST, address).json(body);
    match client.send(request).await {
        Ok(answer) if !answer.status.is_success() => {
            Err(format!("unexpected HTTP status {}", answer.status.as_u16()))
        }
        Ok(_) | Err(HttpError::TooLarge { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_command_gets_the_report_and_its_errors_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("got.json");
        let limit = Duration::from_secs(10);
        run(&format!("cat > {}", file.display()), "{\"a\":1}".into(), limit)
            .await
            .unwrap();
        assert_eq!(fs_err::read_to_string(&file).unwrap(), "{\"a\":1}");
        let problem = run("echo no such channel >&2; exit 3", "x".repeat(1 << 20), limit)
            .await
            .unwrap_err();
        assert!(
            problem.contains('3') && problem.contains("no such channel"),
            "{problem}"
        );
    }

    #[tokio::test]
    async fn a_hanging_command_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("late");
        let started = std::time::Instant::now();
        let command = format!("(sleep 2; touch {}) & sleep 60", file.display());
        let problem = run(&command, String::new(), Duration::from_millis(300))
            .await
            .unwrap_err();
        assert!(problem.contains("0.3 seconds"), "{problem}");
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert!(!file.exists(), "a child process survived");
    }

    #[tokio::test]
    async fn webhook_errors_do_not_contain_the_address() {
        let server = wiremock::MockServer::start().await;
        wiremock::Mock::given(wiremock::matchers::method("POST"))
            .and(wiremock::matchers::body_json(json!({"a": 1})))
            .respond_with(wiremock::ResponseTemplate::new(204))
            .mount(&server)
            .await;
        let limit = Duration::from_secs(10);
        post(&server.uri(), &json!({"a": 1}), limit).await.unwrap();
        assert_eq!(
            post(&server.uri(), &json!({"a": 2}), limit).await,
            Err("unexpected HTTP status 404".into())
        );
        let problem = post("http://127.0.0.1:9/secret", &json!({}), limit)
            .await
            .unwrap_err();
        assert!(!problem.contains("secret"), "{problem}");
        assert!(post("nowhere", &json!({}), limit).await.is_err());
    }
}
