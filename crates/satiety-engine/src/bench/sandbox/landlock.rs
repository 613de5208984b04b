//! The fence that the kernel gives anybody: Landlock for files, a filter of system calls for the rest.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::Policy;

/// The first version under which a file outside can be neither written nor cut short (Linux 6.2).
const NEEDED: ABI = ABI::V3;
/// The newest version that is made use of: devices, signals and abstract sockets are fenced off too.
const WANTED: ABI = ABI::V6;
/// Devices that swallow or give bytes and keep none.
const HARMLESS: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// What the kernel offers, or why that is not enough.
pub(super) fn probe() -> Result<String, String> {
    let offers = |abi: ABI| {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))
            .and_then(Ruleset::create)
            .is_ok()
    };
    if !offers(NEEDED) {
        return Err(if offers(ABI::V1) {
            "the kernel's version cannot protect files from being cut short (Linux 6.2 can)".to_owned()
        } else {
            "the kernel does not offer it (Linux 6.2 and newer do, where it is switched on)".to_owned()
        });
    }
    filter(SOCKETS)?;
    Ok(if offers(WANTED) {
        "Landlock 6 or newer"
    } else {
        "Landlock 3 or newer"
    }
    .to_owned())
}

/// Fences the calling thread, and whatever it becomes, in.
pub(super) fn fence(policy: &Policy) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| format!("Landlock: {error}");
    let all = AccessFs::from_all(WANTED);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))
        .map_err(|error| failed(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(|error| failed(&error))?
        .scope(Scope::from_all(WANTED))
        .map_err(|error| failed(&error))?
        .create()
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(WANTED)))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules([&policy.workdir], all))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules(HARMLESS, all))
        .map_err(|error| failed(&error))?
        .restrict_self()
        .map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock: the kernel does not enforce it".to_owned());
    }
    let forbidden = forbidden(policy);
    if forbidden.is_empty() {
        return Ok(());
    }
    let filter = filter(&forbidden)?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("the filter of system calls: {error}"))
}

/// No socket can be made, by either way there is. Pairs of connected sockets, which lead nowhere, can.
const SOCKETS: &[i64] = &[libc::SYS_socket, libc::SYS_io_uring_setup];

/// Landlock does not cover a file's mode, owner and attributes.
const ATTRIBUTES: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];

fn forbidden(policy: &Policy) -> Vec<i64> {
    let mut calls = Vec::new();
    if !policy.network {
        calls.extend_from_slice(SOCKETS);
    }
    // One who became another user owns nothing outside, and needs these for its own files.
    if policy.user.is_none() {
        calls.extend_from_slice(ATTRIBUTES);
    }
    calls
}

/// A filter under which these calls fail as forbidden.
fn filter(calls: &[i64]) -> Result<BpfProgram, String> {
    let failed = |error: &dyn std::error::Error| format!("the filter of system calls: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let rules: BTreeMap<i64, Vec<_>> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let forbid = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, forbid, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| failed(&error))
}
