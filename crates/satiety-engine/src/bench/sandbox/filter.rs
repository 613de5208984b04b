//! System call filter (seccomp): denies calls that a target never needs and that reach beyond its namespaces.

use std::collections::BTreeMap;

use satiety::bench::SandboxIsolation;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::Confinement;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Denied in every sandbox: the user's keyring, namespaces, mounts, tracing and kernel administration.
const ALWAYS: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_vhangup,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

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

/// Calls on another process, with the index of the argument that identifies it: only 0, the caller itself, is
/// allowed if other processes are visible.
const OTHERS: &[(i64, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_migrate_pages, 0),
    (libc::SYS_move_pages, 0),
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: u64 = 0x7E02_0000;

/// Bit of the x32 calling convention of x86-64, whose call numbers would bypass the list.
#[cfg(target_arch = "x86_64")]
const X32: i64 = 0x4000_0000;

/// Installs the filters for the calling process and everything it executes. There are two: one returns EPERM,
/// the other ENOSYS for the one call that libraries fall back from.
pub(super) fn apply(plan: &Confinement) -> Result<(), String> {
    for program in programs(plan)? {
        seccompiler::apply_filter(&program)
            .map_err(|error| format!("cannot install the system call filter: {error}"))?;
    }
    Ok(())
}

/// Compiles the filters of a plan.
pub(super) fn programs(plan: &Confinement) -> Result<[BpfProgram; 2], String> {
    let degraded = plan.isolation == SandboxIsolation::Landlock;
    let mut rules = Rules::new();
    let mut forbid = |call: i64, conditions: Vec<SeccompRule>| {
        rules.insert(call, conditions.clone());
        #[cfg(target_arch = "x86_64")]
        rules.insert(call | X32, conditions);
    };
    for call in ALWAYS {
        forbid(*call, Vec::new());
    }
    forbid(libc::SYS_clone, any_bit(0, NAMESPACES)?);
    // TIOCSTI: injecting characters into the input of another program's terminal.
    forbid(
        libc::SYS_ioctl,
        vec![equal(1, libc::TIOCSTI)?, equal(1, libc::TIOCLINUX)?],
    );
    if degraded {
        if !plan.network {
            forbid(libc::SYS_socket, Vec::new());
        }
        // A process that became another user owns nothing outside, and needs these calls for its own files.
        if plan.user.is_none() {
            for call in ATTRIBUTES {
                forbid(*call, Vec::new());
            }
        }
        for (call, place) in OTHERS {
            forbid(*call, vec![not_zero(*place)?]);
        }
        forbid(libc::SYS_ptrace, Vec::new());
        forbid(libc::SYS_process_vm_readv, Vec::new());
        forbid(libc::SYS_process_vm_writev, Vec::new());
    }
    let forbidden = compile(rules, libc::EPERM)?;
    let mut unknown = Rules::new();
    unknown.insert(libc::SYS_clone3, Vec::new());
    #[cfg(target_arch = "x86_64")]
    unknown.insert(libc::SYS_clone3 | X32, Vec::new());
    Ok([forbidden, compile(unknown, libc::ENOSYS)?])
}

fn compile(rules: Rules, error: i32) -> Result<BpfProgram, String> {
    let failed = |error: &dyn std::error::Error| format!("cannot build the system call filter: {error}");
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| failed(&error))?;
    let action = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| failed(&error))
}

fn rule(place: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    SeccompCondition::new(place, SeccompCmpArgLen::Dword, operator, value)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| format!("cannot build the system call filter: {error}"))
}

fn equal(place: u8, value: u64) -> Result<SeccompRule, String> {
    rule(place, SeccompCmpOp::Eq, value)
}

fn not_zero(place: u8) -> Result<SeccompRule, String> {
    rule(place, SeccompCmpOp::Ne, 0)
}

/// Matches if any of these bits is set: one rule per bit, since a masked comparison matches a single value.
fn any_bit(place: u8, bits: u64) -> Result<Vec<SeccompRule>, String> {
    (0..u64::BITS)
        .map(|bit| 1 << bit)
        .filter(|bit| bits & bit != 0)
        .map(|bit| rule(place, SeccompCmpOp::MaskedEq(bit), bit))
        .collect()
}
