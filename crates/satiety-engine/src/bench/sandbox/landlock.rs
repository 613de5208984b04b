//! Degraded sandbox: restricts files with Landlock on machines that cannot create namespaces.

use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};

use super::{Confinement, Mount};

/// Minimum version, which prevents both writing and truncating files outside (Linux 6.2).
const MIN_ABI: ABI = ABI::V3;
/// Newest version in use: also restricts devices, signals and abstract sockets.
const BEST_ABI: ABI = ABI::V6;
/// Devices without state.
const STATELESS_DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Supported Landlock version, or the reason why it is insufficient.
pub(super) fn probe() -> Result<String, String> {
    let offers = |abi: ABI| {
        Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(abi))
            .and_then(Ruleset::create)
            .is_ok()
    };
    if !offers(MIN_ABI) {
        return Err(if offers(ABI::V1) {
            "this version cannot protect files from truncation (requires Linux 6.2)".to_owned()
        } else {
            "not supported or not enabled by the kernel (requires Linux 6.2)".to_owned()
        });
    }
    Ok(if offers(BEST_ABI) {
        "Landlock 6 or newer"
    } else {
        "Landlock 3 or newer"
    }
    .to_owned())
}

/// Restricts the calling process and everything it executes: it reads only what the plan allows and writes
/// only in its working directory.
pub(super) fn restrict(plan: &Confinement) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| format!("Landlock: {error}");
    let all = AccessFs::from_all(BEST_ABI);
    let readable = plan.mounts.iter().filter_map(|mount| match mount {
        // Without a mount namespace, a copy meant for another path is replaced by the original.
        Mount::Read { to, .. } => Some(to.as_path()),
        _ => None,
    });
    // Other processes' files in /proc stay inaccessible: Landlock denies inspecting processes outside.
    let readable: Vec<&Path> = readable
        .chain(["/proc", "/etc/ld.so.cache"].map(Path::new))
        .filter(|path| path.exists())
        .collect();
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(MIN_ABI))
        .map_err(|error| failed(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(|error| failed(&error))?
        .scope(Scope::from_all(BEST_ABI))
        .map_err(|error| failed(&error))?
        .create()
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(BEST_ABI)))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules([&plan.workdir], all))
        .map_err(|error| failed(&error))?
        .add_rules(path_beneath_rules(STATELESS_DEVICES, all))
        .map_err(|error| failed(&error))?
        .restrict_self()
        .map_err(|error| failed(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock: not enforced by the kernel".to_owned());
    }
    Ok(())
}

/// Denies abstract sockets of other processes if the kernel supports it (Landlock 6). They have no file that
/// a mount namespace could hide.
pub(super) fn scope_sockets() {
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(BEST_ABI))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self);
    // Not supported by older kernels, which is acceptable: network access was requested.
    drop(scoped);
}
