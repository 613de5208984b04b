//! The other side of the fence: `satiety __sandbox POLICY PROGRAM [ARGS]` fences itself in and becomes the program.
//!
//! Runs before anything else of this program, on one thread. Whatever cannot be set is an error: a target is never
//! started with half a fence.

use std::ffi::OsString;
use std::process::Command;

use super::{HELPER_COMMAND, Policy};

/// The exit code for a fence that could not be put up; its words on stderr begin with [`WORDS`].
pub const EXIT_NO_FENCE: u8 = 71;
/// How the helper's own words begin.
pub const WORDS: &str = "satiety sandbox: ";

/// Becomes the target if the arguments (without the program's name) ask for the helper; comes back only where they do
/// not, or with the code to exit with where the fence or the target failed.
pub fn run_if_asked(mut args: impl Iterator<Item = OsString>) -> Option<u8> {
    if args.next()? != HELPER_COMMAND {
        return None;
    }
    let reason = run(args);
    let mut stderr = std::io::stderr().lock();
    // Without stderr there is nobody to tell.
    let _ = std::io::Write::write_fmt(&mut stderr, format_args!("{WORDS}{reason}\n"));
    Some(EXIT_NO_FENCE)
}

/// Returns only with the reason why the program could not be started.
#[cfg(target_os = "linux")]
fn run(mut args: impl Iterator<Item = OsString>) -> String {
    use std::os::unix::process::CommandExt as _;

    let Some(policy) = args.next().and_then(|text| text.into_string().ok()) else {
        return "no policy was given; this command is for the program's own use".to_owned();
    };
    let policy: Policy = match serde_json::from_str(&policy) {
        Ok(policy) => policy,
        Err(error) => return format!("the policy cannot be read: {error}"),
    };
    let Some(program) = args.next() else {
        return "no program was given".to_owned();
    };
    if let Err(reason) = fence(&policy) {
        return reason;
    }
    let error = Command::new(&program).args(args).exec();
    format!("cannot start {}: {error}", program.to_string_lossy())
}

#[cfg(not(target_os = "linux"))]
fn run(_args: impl Iterator<Item = OsString>) -> String {
    let _: Option<(Policy, Command)> = None;
    "there are no fences on this system".to_owned()
}

#[cfg(target_os = "linux")]
fn fence(policy: &Policy) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

    let limits = [
        // Memory that a process can write to and keeps for itself. A limit on addresses would stop runtimes that
        // reserve much more than they use.
        (Resource::Data, policy.memory_bytes, "memory"),
        (Resource::Fsize, policy.file_bytes, "file size"),
        (Resource::Core, 0, "core files"),
        (Resource::Nproc, policy.processes, "processes"),
    ];
    let cpu = policy
        .cpu_seconds
        .map(|seconds| (Resource::Cpu, seconds, "processor time"));
    for (resource, limit, what) in limits.into_iter().chain(cpu) {
        let both = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, both).map_err(|error| format!("cannot limit {what}: {error}"))?;
    }
    if let Some(user) = policy.user {
        become_user(user).map_err(|error| format!("cannot become user {user}: {error}"))?;
    }
    // Changing the user clears this wish, so it comes after. If we are killed, so is the target.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot tie the target to this program: {error}"))?;
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("cannot give up privileges: {error}"))?;
    if policy.landlock {
        super::landlock::fence(policy)?;
    }
    Ok(())
}

/// Leaves root for a user that owns nothing, keeping of root's rights only that to read. Root is exempt from the limit
/// on processes, may remount what is read-only and owns almost every file.
#[cfg(target_os = "linux")]
fn become_user(user: u32) -> rustix::io::Result<()> {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{
        CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities,
        set_keep_capabilities, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    };

    let reading = capabilities(None)?.permitted & CapabilitySet::DAC_READ_SEARCH;
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    let kept = CapabilitySets {
        effective: reading,
        permitted: reading,
        inheritable: reading,
    };
    set_capabilities(None, kept)?;
    if !reading.is_empty() {
        configure_capability_in_ambient_set(reading, true)?;
    }
    Ok(())
}
