//! Persistent target processes: a line of JSON in, a line of JSON out, one request in flight per process.
//!
//! A process that violates the protocol (exits, responds late or with an invalid line) is ended, since its
//! next line could belong to any request; the next request starts a new one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use satiety::bench::contract::parse::from_line;
use satiety::bench::contract::spec::WorkerSpec;
use satiety::bench::contract::{ErrorKind, Exit, Request, TargetError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::exec::{too_long, too_much, unanswered};
use super::pipes::{Tail, keep_tail};
use super::process::{Process, exit};
use super::program::{CommandSpec, Program, sandbox_failure};
use super::workdir::{Workdir, Workdirs};
use super::{Attempt, OpenError, TargetContext};

/// Time for a process that closed its output to exit by itself, so that its exit code is known.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);
/// How often a process that was just started is checked for having read its first request.
const START_POLL: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub struct Pool {
    program: Program,
    workdirs: Workdirs,
    fresh_workdir: bool,
    max_output: u64,
    permits: Semaphore,
    workers: u32,
    idle: Mutex<Vec<Worker>>,
}

#[derive(Debug)]
struct Worker {
    process: Process,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    stderr: Arc<Mutex<Tail>>,
    /// Task that reads stderr until it is closed.
    listener: JoinHandle<()>,
    /// User that the process runs as, if not the current one.
    user: Option<u32>,
    /// File for the supervisor's error.
    report: Option<PathBuf>,
    /// Working directory of the process; those of cases are inside.
    home: Workdir,
    /// Whether the process has not read a request yet.
    is_starting: bool,
    /// Buffer reused for each request and response.
    line: Vec<u8>,
}

/// How an exchange failed.
enum Broken {
    Closed,
    TooMuch,
}

impl Pool {
    pub(super) fn open(spec: &WorkerSpec, context: &TargetContext) -> Result<Self, OpenError> {
        if spec.workers == 0 {
            return Err(OpenError::description("workers", "must be at least 1"));
        }
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
            workdirs: Workdirs::new(context, &spec.files),
            fresh_workdir: spec.fresh_workdir,
            max_output: spec.max_output_bytes,
            permits: Semaphore::new(spec.workers as usize),
            workers: spec.workers,
            idle: Mutex::new(Vec::new()),
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        // Waiting for a free process is not the target's latency: the clock starts once one is available.
        let Ok(_permit) = self.permits.acquire().await else {
            let error = TargetError::new(ErrorKind::Harness, "the workers have been shut down");
            return Attempt::bare(Err(error), Duration::ZERO);
        };
        let started = Instant::now();
        let worker = self.idle().pop();
        let worker = match worker {
            Some(worker) => Ok(worker),
            None => self.start(),
        };
        match worker {
            Ok(worker) => self.ask(worker, request, started).await,
            Err(error) => Attempt::bare(Err(error), started.elapsed()),
        }
    }

    /// Shuts down all processes: closes their input, then ends their process groups.
    pub(super) async fn close(&self) {
        // Calls in flight finish first.
        let _all = self.permits.acquire_many(self.workers).await;
        let workers = std::mem::take(&mut *self.idle());
        let ends = workers.into_iter().map(|worker| async {
            let Worker { mut process, to, .. } = worker;
            drop(to);
            process.end().await;
        });
        futures_util::future::join_all(ends).await;
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Worker>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start(&self) -> Result<Worker, TargetError> {
        let home = self.workdirs.shared("worker")?;
        let ready = self.program.ready(home.path(), &[])?;
        let (user, report) = (ready.user, ready.report);
        let mut process = self.program.start(ready.command, report.is_some())?;
        let pipes = (
            process.child.stdin.take(),
            process.child.stdout.take(),
            process.child.stderr.take(),
        );
        let (Some(to), Some(from), Some(errors)) = pipes else {
            return Err(TargetError::new(ErrorKind::Harness, "the worker has no pipes"));
        };
        let stderr = Arc::new(Mutex::new(Tail::default()));
        let listener = tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        Ok(Worker {
            process,
            to,
            from: BufReader::new(from),
            stderr,
            listener,
            user,
            report,
            home,
            is_starting: true,
            line: Vec::new(),
        })
    }

    async fn ask(&self, mut worker: Worker, request: &Request, started: Instant) -> Attempt {
        let needs_folder = self.fresh_workdir || self.workdirs.are_needed(request);
        let workdir = needs_folder.then(|| {
            self.workdirs
                .fresh_inside(request, worker.home.path(), worker.user)
        });
        let workdir = match workdir.transpose() {
            Ok(workdir) => workdir,
            Err(error) => {
                self.idle().push(worker);
                return Attempt::bare(Err(error), started.elapsed());
            }
        };
        let folder = workdir
            .as_ref()
            .unwrap_or(&worker.home)
            .path()
            .to_string_lossy()
            .into_owned();
        let limit = Duration::from_millis(request.deadline_ms).saturating_sub(started.elapsed());
        let exchanged = timeout(limit, worker.exchange(request, &folder, self.max_output)).await;
        let mut latency = started.elapsed();
        let (outcome, exit) = match exchanged {
            Ok(Ok(read_at)) => {
                latency = read_at.map_or(latency, |read_at| read_at.elapsed());
                let outcome = from_line(&worker.line);
                if !outcome
                    .as_ref()
                    .is_err_and(|error| error.kind == ErrorKind::Protocol)
                {
                    let stderr = worker.take_stderr();
                    self.idle().push(worker);
                    return Attempt {
                        outcome,
                        latency,
                        stderr,
                        exit: None,
                        workdir,
                    };
                }
                (outcome, worker.process.end().await)
            }
            Ok(Err(Broken::TooMuch)) => (Err(too_much(self.max_output)), worker.process.end().await),
            Ok(Err(Broken::Closed)) => {
                let exit = worker.exit_status().await;
                (Err(died(exit, &worker.line)), exit)
            }
            Err(_) => (Err(too_long(request.deadline_ms)), worker.process.end().await),
        };
        // The process has ended, so the rest of its stderr is about to arrive.
        let _ = timeout(EXIT_TIMEOUT, &mut worker.listener).await;
        let stderr = worker.take_stderr();
        let outcome = match sandbox_failure(worker.report.as_deref()) {
            Some(error) => Err(error),
            None => outcome,
        };
        Attempt {
            outcome,
            latency,
            stderr,
            exit,
            workdir,
        }
    }
}

impl Worker {
    /// Sends a request and reads the answer into `line`. Returns when the process read the request, if it was its
    /// first one: until then it was starting, which says nothing about the case.
    async fn exchange(
        &mut self,
        request: &Request,
        folder: &str,
        max_output: u64,
    ) -> Result<Option<Instant>, Broken> {
        self.line.clear();
        // Serialisation into memory cannot fail: the maps have string keys.
        request
            .write_line(Some(folder), &mut self.line)
            .map_err(|_| Broken::Closed)?;
        // A request may be larger than the pipe, and a process may respond before it has read all of it.
        self.to.write_all(&self.line).await.map_err(|_| Broken::Closed)?;
        self.line.clear();
        let answer = read_line(&mut self.from, &mut self.line, max_output);
        if !std::mem::take(&mut self.is_starting) {
            return answer.await.map(|()| None);
        }
        tokio::pin!(answer);
        let mut read_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                answered = &mut answer => return answered.map(|()| Some(read_at)),
                () = sleep(START_POLL) => {
                    // A request that was read is no longer in the pipe.
                    if ioctl_fionread(&self.to).unwrap_or(0) == 0 {
                        break;
                    }
                    read_at = Instant::now();
                }
            }
        }
        answer.await.map(|()| Some(read_at))
    }

    /// Exit status of a process that closed its output, ended by itself or by us.
    async fn exit_status(&mut self) -> Option<Exit> {
        match timeout(EXIT_TIMEOUT, self.process.child.wait()).await {
            Ok(Ok(status)) => {
                self.process.end_leftovers().await;
                Some(exit(status))
            }
            _ => self.process.end().await,
        }
    }

    fn take_stderr(&self) -> String {
        self.stderr.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Reads up to the next newline, which is not included.
async fn read_line(from: &mut BufReader<ChildStdout>, line: &mut Vec<u8>, limit: u64) -> Result<(), Broken> {
    loop {
        let available = from.fill_buf().await.map_err(|_| Broken::Closed)?;
        if available.is_empty() {
            return Err(Broken::Closed);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = end.unwrap_or(available.len());
        line.extend_from_slice(available.get(..part).unwrap_or_default());
        from.consume(end.map_or(part, |end| end + 1));
        if line.len() as u64 > limit {
            return Err(Broken::TooMuch);
        }
        if end.is_some() {
            return Ok(());
        }
    }
}

fn died(exit: Option<Exit>, line: &[u8]) -> TargetError {
    match exit {
        Some(exit @ (Exit::Signal(_) | Exit::Code(1..))) => unanswered(exit),
        _ if line.is_empty() => TargetError::new(ErrorKind::Exit, "the worker exited without a response"),
        _ => TargetError::new(
            ErrorKind::Protocol,
            "the worker exited in the middle of its response",
        ),
    }
}
