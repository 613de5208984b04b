//! Final confinement steps before a target is executed: resource limits, another user, no capabilities, no
//! new privileges, and a system call filter. Any failed step is an error: a target is never started partially
//! confined.

use std::io::Write as _;

use rustix::process::{
    DumpableBehavior, Gid, Resource, Rlimit, Signal, Uid, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use satiety::bench::SandboxIsolation;

use super::{Confinement, filter, raw};

/// Confines the calling process and everything it executes.
pub(super) fn confine(plan: &Confinement) -> Result<(), String> {
    raw::close_on_exec_from(3).map_err(|error| format!("cannot close inherited descriptors: {error}"))?;
    if plan.isolation == SandboxIsolation::None {
        return die_with_parent();
    }
    limit(plan)?;
    // Clear the bounding set while the process still may: nothing could be regained from it later.
    empty_bounding_set()?;
    if let Some(user) = plan.user {
        become_user(user).map_err(|error| format!("cannot become user {user}: {error}"))?;
        own_user_namespace(user);
        empty_bounding_set()?;
    }
    drop_capabilities().map_err(|error| format!("cannot drop capabilities: {error}"))?;
    if plan.isolation == SandboxIsolation::Landlock {
        // Changing the user clears this flag, so it is set afterwards. Namespaces end with their first
        // process anyway.
        die_with_parent()?;
    }
    set_no_new_privs(true).map_err(|error| format!("cannot give up privileges: {error}"))?;
    if plan.isolation == SandboxIsolation::Landlock {
        super::landlock::restrict(plan)?;
    } else if plan.network {
        // Abstract sockets belong to the network namespace, which is shared with the host here.
        super::landlock::scope_sockets();
    }
    filter::apply(plan)
}

fn die_with_parent() -> Result<(), String> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot tie the target to its supervisor: {error}"))
}

fn limit(plan: &Confinement) -> Result<(), String> {
    let limits = [
        // Private writable memory. A limit on the address space would break runtimes that reserve much more
        // than they use.
        (Resource::Data, plan.memory_bytes, "memory"),
        (Resource::Fsize, plan.file_bytes, "file size"),
        (Resource::Core, 0, "core files"),
        (Resource::Nproc, plan.processes, "processes"),
    ];
    let cpu = plan
        .cpu_seconds
        .map(|seconds| (Resource::Cpu, seconds, "CPU time"));
    for (resource, limit, what) in limits.into_iter().chain(cpu) {
        // An unprivileged user cannot raise an existing limit.
        let most = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let both = Rlimit {
            current: Some(limit.min(most)),
            maximum: Some(limit.min(most)),
        };
        setrlimit(resource, both).map_err(|error| format!("cannot limit {what}: {error}"))?;
    }
    Ok(())
}

/// Switches from root to a user that owns only its working directory, which also drops every capability.
fn become_user(user: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // Changing the user made the process's files in /proc owned by root; its own maps are written next.
    set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// Enters a user namespace with this user only. This is additional hardening, since the user has no rights
/// outside either, so a kernel that denies it to unprivileged users is not an error.
fn own_user_namespace(user: u32) {
    if raw::unshare(UnshareFlags::NEWUSER).is_ok() {
        let _ = map_user(user, user);
    }
}

/// Maps one user and one group into the user namespace of this process.
pub(super) fn map_user(user: u32, group: u32) -> std::io::Result<()> {
    for (file, content) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1")),
        ("/proc/self/gid_map", format!("{group} {group} 1")),
    ] {
        // The kernel accepts a map only as a single write.
        std::fs::OpenOptions::new()
            .write(true)
            .open(file)?
            .write_all(content.as_bytes())?;
    }
    Ok(())
}

/// Removes every capability from the bounding set, so that executing a program cannot regain one.
fn empty_bounding_set() -> Result<(), String> {
    let may = capabilities(None)
        .map_err(|error| format!("cannot read capabilities: {error}"))?
        .effective
        .contains(CapabilitySet::SETPCAP);
    if !may {
        // Without CAP_SETPCAP nothing can be gained either: executed programs get no new privileges.
        return Ok(());
    }
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        // The first capability unknown to the kernel ends the list.
        match capability_is_in_bounding_set(capability) {
            Err(_) => break,
            Ok(false) => {}
            Ok(true) => remove_capability_from_bounding_set(capability)
                .map_err(|error| format!("cannot empty the capability bounding set: {error}"))?,
        }
    }
    Ok(())
}

fn drop_capabilities() -> rustix::io::Result<()> {
    // Kernels without ambient capabilities have none to clear.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(
        None,
        CapabilitySets {
            effective: none,
            permitted: none,
            inheritable: none,
        },
    )
}
