//! One process per case: request on stdin, response on stdout, success or failure by exit code.

use std::time::{Duration, Instant};

use satiety::bench::contract::parse::from_stdout;
use satiety::bench::contract::spec::{ExecSpec, RequestForm};
use satiety::bench::contract::{EXIT_TRY_AGAIN, ErrorKind, Exit, Request, Response, TargetError};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep, timeout};

use super::pipes::{Capture, Overflow, Tail};
use super::process::{Process, exit};
use super::program::{CommandSpec, Program, sandbox_failure};
use super::workdir::Workdirs;
use super::{Attempt, OpenError, TargetContext};

/// Time to wait for remaining output after all processes have ended.
const LAST_BYTES: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Exec {
    program: Program,
    workdirs: Workdirs,
    form: RequestForm,
    max_output: u64,
}

/// Reason why reading the output ended.
enum ListenEnd {
    ByItself(Exit),
    TooLong,
    TooMuch,
    Lost(std::io::Error),
}

impl Exec {
    pub(super) fn open(spec: &ExecSpec, context: &TargetContext) -> Result<Self, OpenError> {
        let described = CommandSpec {
            command: &spec.command,
            args: &spec.args,
            env: &spec.env,
            set_env: &spec.set_env,
            read: &spec.read,
            sandbox: spec.sandbox.as_ref(),
        };
        Ok(Self {
            program: Program::new(&described, context)?,
            workdirs: Workdirs::new(context, &spec.files).with_skills(spec.skills.as_deref()),
            form: spec.request,
            max_output: spec.max_output_bytes,
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        match self.attempt(request).await {
            Ok(attempt) => attempt,
            // Nothing ran, so the latency is zero.
            Err(error) => Attempt::bare(Err(error), Duration::ZERO),
        }
    }

    async fn attempt(&self, request: &Request) -> Result<Attempt, TargetError> {
        let workdir = self.workdirs.fresh(request)?;
        let mut input = Vec::new();
        match self.form {
            RequestForm::Json => request
                .write_line(Some(&workdir.path().to_string_lossy()), &mut input)
                .map_err(|error| {
                    TargetError::new(ErrorKind::Harness, format!("cannot write the request: {error}"))
                })?,
            RequestForm::Goal => input.extend_from_slice(request.input.goal.as_bytes()),
            RequestForm::Argument | RequestForm::Promptfoo => {}
        }
        let goal = request.input.goal.clone();
        let extra = match self.form {
            RequestForm::Argument => vec![goal],
            RequestForm::Promptfoo => {
                let context =
                    json!({"vars": request.input.config_overrides.get("vars"), "prompt": {"raw": goal}});
                vec![goal, json!({"config": {}}).to_string(), context.to_string()]
            }
            RequestForm::Json | RequestForm::Goal => Vec::new(),
        };
        let ready = self.program.ready(workdir.path(), &extra)?;
        let started = Instant::now();
        let report = ready.report;
        let mut process = self.program.start(ready.command, report.is_some())?;
        let mut stdout = Capture::new(self.max_output);
        let mut stderr = Tail::default();
        let limit = Duration::from_millis(request.deadline_ms);
        let (ended, latency) = listen(&mut process, &input, &mut stdout, &mut stderr, started, limit).await;
        let (outcome, exit) = match ended {
            ListenEnd::ByItself(exit) => {
                let outcome = answer(exit, &stdout.bytes).map(|response| match self.form {
                    RequestForm::Promptfoo => Response::text(String::from_utf8_lossy(&stdout.bytes).trim()),
                    _ => response,
                });
                (outcome, Some(exit))
            }
            ListenEnd::TooLong => (Err(too_long(request.deadline_ms)), process.end().await),
            ListenEnd::TooMuch => (Err(too_much(self.max_output)), process.end().await),
            ListenEnd::Lost(error) => {
                let error = TargetError::new(
                    ErrorKind::Harness,
                    format!("cannot wait for the process: {error}"),
                );
                (Err(error), process.end().await)
            }
        };
        let stderr = stderr.take();
        let outcome = match sandbox_failure(report.as_deref()) {
            Some(error) => Err(error),
            None => outcome,
        };
        Ok(Attempt {
            outcome,
            latency,
            stderr,
            exit,
            workdir: Some(workdir),
        })
    }
}

/// Writes the input and reads the output until the process ends, writes too much or times out.
async fn listen(
    process: &mut Process,
    input: &[u8],
    stdout: &mut Capture,
    stderr: &mut Tail,
    started: Instant,
    limit: Duration,
) -> (ListenEnd, Duration) {
    let pipes = (
        process.child.stdin.take(),
        process.child.stdout.take(),
        process.child.stderr.take(),
    );
    let (Some(mut to), Some(from), Some(errors)) = pipes else {
        let lost = std::io::Error::other("the process has no pipes");
        return (ListenEnd::Lost(lost), started.elapsed());
    };
    let talk = async {
        let feed = async {
            // A program may respond without reading its input to the end.
            let _ = to.write_all(input).await;
            drop(to);
            Ok(())
        };
        let errors = async {
            stderr.fill(errors).await;
            Ok::<(), Overflow>(())
        };
        tokio::try_join!(feed, stdout.fill(from), errors)
    };
    tokio::pin!(talk);
    let deadline = sleep(limit.saturating_sub(started.elapsed()));
    tokio::pin!(deadline);
    let mut said_all = false;
    let status = loop {
        tokio::select! {
            status = process.child.wait() => break status,
            said = &mut talk, if !said_all => match said {
                Ok(_) => said_all = true,
                Err(Overflow) => return (ListenEnd::TooMuch, started.elapsed()),
            },
            () = &mut deadline => return (ListenEnd::TooLong, started.elapsed()),
        }
    };
    let latency = started.elapsed();
    // Leftover processes hold the pipes open; their output is not part of the response.
    process.end_leftovers().await;
    if !said_all && matches!(timeout(LAST_BYTES, &mut talk).await, Ok(Err(Overflow))) {
        return (ListenEnd::TooMuch, latency);
    }
    match status {
        Ok(status) => (ListenEnd::ByItself(exit(status)), latency),
        Err(error) => (ListenEnd::Lost(error), latency),
    }
}

/// Combines exit status and output to a response or an error.
fn answer(exit: Exit, stdout: &[u8]) -> Result<Response, TargetError> {
    match exit {
        Exit::Code(0) => from_stdout(stdout),
        exit => Err(match from_stdout(stdout) {
            // The error that the target itself reports has precedence.
            Err(reported) if reported.kind != ErrorKind::Protocol => reported,
            _ => unanswered(exit),
        }),
    }
}

/// Error of a process that ended without a response.
pub(super) fn unanswered(exit: Exit) -> TargetError {
    match exit {
        Exit::Code(EXIT_TRY_AGAIN) => TargetError::new(
            ErrorKind::Infra,
            format!("the process exited with {EXIT_TRY_AGAIN}: temporary failure, retry requested"),
        ),
        Exit::Code(code) => TargetError::new(ErrorKind::Exit, format!("the process exited with code {code}")),
        Exit::Signal(signal) => TargetError::new(
            ErrorKind::Exit,
            format!("the process was terminated by signal {signal}"),
        ),
    }
}

/// Error of a request that exceeded its deadline.
pub(super) fn too_long(deadline_ms: u64) -> TargetError {
    TargetError::new(
        ErrorKind::Timeout,
        format!("timeout: no response within {deadline_ms} ms"),
    )
}

/// Error of a response that exceeds the size limit.
pub(super) fn too_much(limit: u64) -> TargetError {
    TargetError::new(
        ErrorKind::TooLarge,
        format!("the response is larger than {limit} bytes (limit set by `max_output_bytes`)"),
    )
}
