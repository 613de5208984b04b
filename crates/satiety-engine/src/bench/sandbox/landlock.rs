//! The degraded sandbox: the kernel's Landlock for files, for machines on which no namespaces can be made.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Confinement, Mount};

/// The first version under which a file outside can be neither written nor cut short (Linux 6.2).
const NEEDED: ABI = ABI::V3;
/// The newest version that is made use of: devices, signals and abstract sockets are restricted too.
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
    Ok(if offers(WANTED) {
        "Landlock 6 or newer"
    } else {
        "Landlock 3 or newer"
    }
    .to_owned())
}

/// Restricts the calling process, and whatever it becomes: it reads what the plan allows and writes in its working directory.
pub(super) fn restrict(plan: &Confinement) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| format!("Landlock: {error}");
    let all = AccessFs::from_all(WANTED);
    let readable = plan.mounts.iter().filter_map(|mount| match mount {
        // There is no mount namespace, so a copy that would lie at another path is read where the original is.
        Mount::Read { to, .. } => Some(to.as_path()),
        _ => None,
    });
    // Other processes' files in /proc stay closed: Landlock forbids looking into processes outside.
    let readable: Vec<&Path> = readable
        .chain(["/proc", "/etc/ld.so.cache"].map(Path::new))
        .filter(|path| path.exists())
        .collect();
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
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(WANTED)))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules([&plan.workdir], all))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules(HARMLESS, all))
        .map_err(|error| failed(&error))?
        .restrict_self()
        .map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock: the kernel does not enforce it".to_owned());
    }
    Ok(())
}

/// Keeps the process from abstract sockets of others, where the kernel can (Landlock 6). They have no file that a mount
/// namespace could hide.
pub(super) fn scope_sockets() {
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(WANTED))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    // Older kernels cannot; network access was asked for.
    drop(scoped);
}
