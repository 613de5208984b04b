//! The other side of the sandbox: `satiety __sandbox PLAN PROGRAM [ARGS]` supervises the program in a sandbox.
//!
//! Runs before anything else of this program, on one thread. Whatever cannot be set is an error: a target is never
//! started half confined.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Confinement, HELPER_COMMAND, INNER_COMMAND, PROBE_COMMAND};

/// The exit code for a sandbox that could not be set up.
pub const EXIT_NO_SANDBOX: u8 = 71;

/// Whether this program handles the helper's commands, which is what makes its own path usable as a helper.
static INSTALLED: AtomicBool = AtomicBool::new(false);

/// Runs the helper if the arguments (without the program's name) ask for it, and returns the code to exit with; `None`
/// where they ask for something else.
pub fn run_if_asked(mut args: impl Iterator<Item = OsString>) -> Option<u8> {
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
        // Without stderr there is nobody to tell.
        let _ = std::io::Write::write_fmt(&mut stderr, format_args!("satiety sandbox: {reason}\n"));
        EXIT_NO_SANDBOX
    }))
}

/// Where another program than this one is the helper.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Uses the program at this path as the helper, for programs that do not handle its commands themselves. The first path stays.
pub fn use_program(path: &Path) {
    OTHER.get_or_init(|| path.to_owned());
}

/// The path of the program that can be started as a helper: this one, where it handles the helper's commands.
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
        return Err("no policy was given; this command is for the program's own use".to_owned());
    };
    serde_json::from_str(plan).map_err(|error| format!("the policy cannot be read: {error}"))
}

#[cfg(target_os = "linux")]
fn supervise(args: &[OsString]) -> Result<u8, String> {
    let plan = plan_of(args)?;
    let outcome = match args.get(1) {
        Some(program) => super::supervise::run(&plan, program, args.get(2..).unwrap_or_default()),
        None => Err("no program was given".to_owned()),
    };
    if let (Err(reason), Some(report)) = (&outcome, &plan.report) {
        // Where the runner looks and the target cannot write: what a target prints is never taken for this.
        let _ = fs_err::write(report, reason);
    }
    outcome
}

/// Inside bubblewrap: confines this process and becomes the target.
#[cfg(target_os = "linux")]
fn enter(args: &[OsString]) -> Result<u8, String> {
    let plan = plan_of(args)?;
    let descriptor = args.get(1).and_then(|text| text.to_str());
    let (Some(descriptor), Some(program)) = (descriptor, args.get(2)) else {
        return Err("no program was given".to_owned());
    };
    let mut report = fs_err::OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/fd/{descriptor}"))
        .map_err(|error| format!("cannot report: {error}"))?;
    let say = |report: &mut fs_err::File, words: &[u8]| {
        // The supervisor takes silence for a failure.
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
    Err("there is no sandbox on this system".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn enter(args: &[OsString]) -> Result<u8, String> {
    supervise(args)
}
