//! Sandbox helper: `satiety __sandbox PLAN PROGRAM [ARGS]` supervises the program in a sandbox.
//!
//! Runs before anything else in this program, on a single thread. Any failed step is an error: a target is
//! never started partially confined.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Confinement, HELPER_COMMAND, INNER_COMMAND, PROBE_COMMAND};

/// Exit code when the sandbox could not be set up.
pub const EXIT_NO_SANDBOX: u8 = 71;

/// Whether this program handles the helper commands, so that its own path can be used as the helper.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Runs the helper if the arguments (without the program name) request it, and returns the exit code; `None`
/// otherwise.
pub fn run_if_requested(mut args: impl Iterator<Item = OsString>) -> Option<u8> {
    INSTALLED.store(true, Ordering::Relaxed);
    let command = args.next()?;
    let args: Vec<OsString> = args.collect();
    let outcome = if command == HELPER_COMMAND {
        supervise(&args)
    } else if command == INNER_COMMAND {
        enter(&args)
    } else if command == PROBE_COMMAND {
        probe(&args)
    } else {
        return None;
    };
    Some(outcome.unwrap_or_else(|reason| {
        let mut stderr = std::io::stderr().lock();
        // Without stderr the error cannot be reported.
        let _ = std::io::Write::write_fmt(&mut stderr, format_args!("satiety sandbox: {reason}\n"));
        EXIT_NO_SANDBOX
    }))
}

/// Path of the helper, if it is another program.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Uses the program at this path as the helper, for programs that do not handle its commands themselves. Only
/// the first call has an effect.
pub fn use_program(path: &Path) {
    OTHER.get_or_init(|| path.to_owned());
}

/// Path of the program to start as the helper; this program if it handles the helper commands.
pub fn own_path() -> Option<PathBuf> {
    if let Some(path) = OTHER.get() {
        return Some(path.clone());
    }
    INSTALLED
        .load(Ordering::Relaxed)
        .then(std::env::current_exe)?
        .ok()
}

fn plan_of(args: &[OsString]) -> Result<Confinement, String> {
    let Some(plan) = args.first().and_then(|text| text.to_str()) else {
        return Err("missing policy; this command is for internal use".to_owned());
    };
    serde_json::from_str(plan).map_err(|error| format!("cannot read the policy: {error}"))
}

#[cfg(target_os = "linux")]
fn supervise(args: &[OsString]) -> Result<u8, String> {
    let plan = plan_of(args)?;
    // Opened before the root changes. The runner reads this file and the target cannot write it, so the
    // output of a target is never mistaken for a sandbox failure.
    let report = plan.report.as_ref().map(fs_err::File::create).transpose();
    let mut report = report.map_err(|error| format!("cannot create the report: {error}"))?;
    let outcome = match args.get(1) {
        Some(program) => super::supervise::run(&plan, program, args.get(2..).unwrap_or_default()),
        None => Err("missing program".to_owned()),
    };
    if let (Err(reason), Some(report)) = (&outcome, &mut report) {
        // If writing fails, the exit code counts as a failure of the target.
        let _ = std::io::Write::write_all(report, reason.as_bytes());
    }
    outcome
}

/// Inside bubblewrap: confines this process and executes the target.
#[cfg(target_os = "linux")]
fn enter(args: &[OsString]) -> Result<u8, String> {
    let plan = plan_of(args)?;
    let descriptor = args.get(1).and_then(|text| text.to_str());
    let (Some(descriptor), Some(program)) = (descriptor, args.get(2)) else {
        return Err("missing program".to_owned());
    };
    let mut report = fs_err::OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{descriptor}"))
        .map_err(|error| format!("cannot open the report: {error}"))?;
    let say = |report: &mut fs_err::File, words: &[u8]| {
        // The supervisor treats a missing report as a failure.
        let _ = std::io::Write::write_all(report, words);
    };
    if let Err(reason) = super::confine::confine(&plan) {
        say(&mut report, format!("E{reason}").as_bytes());
        return Err(reason);
    }
    say(&mut report, super::supervise::CONFINED);
    Err(super::supervise::execute(
        program,
        args.get(3..).unwrap_or_default(),
    ))
}

#[cfg(target_os = "linux")]
fn probe(args: &[OsString]) -> Result<u8, String> {
    super::probes::attempt(args)
}

#[cfg(not(target_os = "linux"))]
fn probe(args: &[OsString]) -> Result<u8, String> {
    supervise(args)
}

#[cfg(not(target_os = "linux"))]
fn supervise(args: &[OsString]) -> Result<u8, String> {
    plan_of(args)?;
    Err("the sandbox is not supported on this system".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn enter(args: &[OsString]) -> Result<u8, String> {
    supervise(args)
}
