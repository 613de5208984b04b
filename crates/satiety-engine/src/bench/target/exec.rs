//! A process for each case: request on stdin, answer on stdout, the exit code says whether it is one.

use std::time::{Duration, Instant};

use satiety::bench::contract::parse::from_stdout;
use satiety::bench::contract::spec::{ExecSpec, RequestForm};
use satiety::bench::contract::{EXIT_TRY_AGAIN, ErrorKind, Exit, Request, Response, TargetError};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{sleep, timeout};

use super::pipes::{Capture, Overflow, Tail};
use super::process::{Process, exit};
use super::program::{LocatedTarget, Program, sandbox_failure};
use super::workdir::Workdirs;
use super::{Attempt, OpenError, TargetContext};

/// How long output is waited for when everything that could write it has been ended.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// The target.
#[derive(Debug)]
pub struct Exec {
    program: Program,
    workdirs: Workdirs,
    form: RequestForm,
    max_output: u64,
}

/// Why we stopped listening.
enum FinalizedRun {
    ByItself(Exit),
    TooLong,
    TooMuch,
    Lost(std::io::Error),
}

impl Exec {
    pub(super) fn open(spec: &ExecSpec, context: &TargetContext) -> Result<Self, OpenError> {
        let described = LocatedTarget {
            command: &spec.command,
            args: &spec.args,
            env: &spec.env,
            set_env: &spec.set_env,
            read: &spec.read,
            sandbox: spec.sandbox.as_ref(),
        };
        Ok(Self {
            program: Program::new(&described, context)?,
            workdirs: Workdirs::new(context, &spec.files),
            form: spec.request,
            max_output: spec.max_output_bytes,
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        match self.attempt(request).await {
            Ok(attempt) => attempt,
            // Nothing ran, so nothing took time.
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
            RequestForm::Argument => {}
        }
        let extra = (self.form == RequestForm::Argument).then_some(request.input.goal.as_str());
        let ready = self.program.ready(workdir.path(), extra)?;
        let started = Instant::now();
        let report = ready.report;
        let mut process = self.program.start(ready.command, report.is_some())?;
        let mut stdout = Capture::new(self.max_output);
        let mut stderr = Tail::default();
        let limit = Duration::from_millis(request.deadline_ms);
        let (ended, latency) = listen(&mut process, &input, &mut stdout, &mut stderr, started, limit).await;
        let (outcome, exit) = match ended {
            FinalizedRun::ByItself(exit) => (answer(exit, &stdout.bytes), Some(exit)),
            FinalizedRun::TooLong => (Err(too_long(request.deadline_ms)), process.end().await),
            FinalizedRun::TooMuch => (Err(too_much(self.max_output)), process.end().await),
            FinalizedRun::Lost(error) => {
                let error = TargetError::new(ErrorKind::Harness, format!("the process was lost: {error}"));
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

/// Feeds the process and reads what it writes until it ends, writes too much or takes too long.
async fn listen(
    process: &mut Process,
    input: &[u8],
    stdout: &mut Capture,
    stderr: &mut Tail,
    started: Instant,
    limit: Duration,
) -> (FinalizedRun, Duration) {
    let pipes = (
        process.child.stdin.take(),
        process.child.stdout.take(),
        process.child.stderr.take(),
    );
    let (Some(mut to), Some(from), Some(errors)) = pipes else {
        let lost = std::io::Error::other("it has no pipes");
        return (FinalizedRun::Lost(lost), started.elapsed());
    };
    let talk = async {
        let feed = async {
            // A program may answer without having read its input to the end.
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
                Err(Overflow) => return (FinalizedRun::TooMuch, started.elapsed()),
            },
            () = &mut deadline => return (FinalizedRun::TooLong, started.elapsed()),
        }
    };
    let latency = started.elapsed();
    // What still runs holds the pipes open; what it would yet write is not the answer.
    process.end_leftovers().await;
    if !said_all && matches!(timeout(LAST_BYTES, &mut talk).await, Ok(Err(Overflow))) {
        return (FinalizedRun::TooMuch, latency);
    }
    match status {
        Ok(status) => (FinalizedRun::ByItself(exit(status)), latency),
        Err(error) => (FinalizedRun::Lost(error), latency),
    }
}

/// What the exit and the output mean together.
fn answer(exit: Exit, stdout: &[u8]) -> Result<Response, TargetError> {
    match exit {
        Exit::Code(0) => from_stdout(stdout),
        exit => Err(match from_stdout(stdout) {
            // A target that failed and says why knows best.
            Err(told) if told.kind != ErrorKind::Protocol => told,
            _ => unanswered(exit),
        }),
    }
}

/// The error for a process that ended in a way that means no answer.
pub(super) fn unanswered(exit: Exit) -> TargetError {
    match exit {
        Exit::Code(EXIT_TRY_AGAIN) => TargetError::new(
            ErrorKind::Infra,
            format!("the process exited with {EXIT_TRY_AGAIN}: it asks to be tried again"),
        ),
        Exit::Code(code) => TargetError::new(ErrorKind::Exit, format!("the process exited with code {code}")),
        Exit::Signal(signal) => TargetError::new(
            ErrorKind::Exit,
            format!("the process was ended by signal {signal}"),
        ),
    }
}

/// The error for a deadline that passed.
pub(super) fn too_long(deadline_ms: u64) -> TargetError {
    TargetError::new(ErrorKind::Timeout, format!("no answer within {deadline_ms} ms"))
}

/// The error for an answer that would not end.
pub(super) fn too_much(limit: u64) -> TargetError {
    TargetError::new(
        ErrorKind::TooLarge,
        format!("the answer has more than {limit} bytes (`max_output_bytes` sets the limit)"),
    )
}
