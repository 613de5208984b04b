//! Long-lived processes: a line of JSON in, a line of JSON out, one request in flight in each.
//!
//! A worker that breaks the rhythm (dies, answers late or with something else than an answer) is ended, since nothing
//! tells which request its next line would belong to; the next request starts a fresh one.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use satiety::bench::contract::parse::from_line;
use satiety::bench::contract::spec::WorkerSpec;
use satiety::bench::contract::{ErrorKind, Exit, Request, TargetError};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::exec::{too_long, too_much, unanswered};
use super::pipes::{Tail, keep_tail};
use super::process::{Process, exit};
use super::program::{LocatedTarget, Program, sandbox_failure};
use super::workdir::{Workdir, Workdirs};
use super::{Attempt, OpenError, TargetContext};

/// How long a worker that closed its output has to end by itself, so that its exit code is known.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The target.
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
    /// Reads stderr until it is closed.
    listener: JoinHandle<()>,
    /// Who it is, where it is not us.
    user: Option<u32>,
    /// Where its supervisor writes why it failed.
    report: Option<PathBuf>,
    /// The process's own folder; those of cases are inside.
    home: Workdir,
    /// Used again for each request and each answer.
    line: Vec<u8>,
}

/// How a conversation broke off.
enum Broken {
    Closed,
    TooMuch,
}

impl Pool {
    pub(super) fn open(spec: &WorkerSpec, context: &TargetContext) -> Result<Self, OpenError> {
        if spec.workers == 0 {
            return Err(OpenError::description("workers", "must be at least 1"));
        }
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
            fresh_workdir: spec.fresh_workdir,
            max_output: spec.max_output_bytes,
            permits: Semaphore::new(spec.workers as usize),
            workers: spec.workers,
            idle: Mutex::new(Vec::new()),
        })
    }

    pub(super) async fn call(&self, request: &Request) -> Attempt {
        // Waiting for a free worker is ours, not the target's: the clock starts when one is there.
        let Ok(_permit) = self.permits.acquire().await else {
            let error = TargetError::new(ErrorKind::Harness, "the workers were ended");
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

    /// Ends all workers: their input is closed, which asks them to end, then their groups are.
    pub(super) async fn close(&self) {
        // Whoever is still asking finishes first.
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
        let ready = self.program.ready(home.path(), None)?;
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
        let latency = started.elapsed();
        let (outcome, exit) = match exchanged {
            Ok(Ok(())) => {
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
                let exit = worker.last_words().await;
                (Err(died(exit, &worker.line)), exit)
            }
            Err(_) => (Err(too_long(request.deadline_ms)), worker.process.end().await),
        };
        // The process has ended, so its last words are on their way, if not here.
        let _ = timeout(LAST_WORDS, &mut worker.listener).await;
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
    async fn exchange(&mut self, request: &Request, folder: &str, max_output: u64) -> Result<(), Broken> {
        self.line.clear();
        // Serialising a request into memory cannot fail: its maps have text for keys.
        request
            .write_line(Some(folder), &mut self.line)
            .map_err(|_| Broken::Closed)?;
        // A request may be larger than the pipe, and a worker may answer before it has read all of it.
        self.to.write_all(&self.line).await.map_err(|_| Broken::Closed)?;
        self.line.clear();
        read_line(&mut self.from, &mut self.line, max_output).await
    }

    /// How a worker that closed its output ended, by itself or by us.
    async fn last_words(&mut self) -> Option<Exit> {
        match timeout(LAST_WORDS, self.process.child.wait()).await {
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

/// Reads up to the next line end, which is not kept.
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
        _ if line.is_empty() => TargetError::new(ErrorKind::Exit, "the worker ended without an answer"),
        _ => TargetError::new(
            ErrorKind::Protocol,
            "the worker ended in the middle of its answer",
        ),
    }
}
