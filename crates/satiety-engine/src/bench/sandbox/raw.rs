//! System calls of the sandbox helper without a safe wrapper. Each use documents why it is sound.
//!
//! All of them are for the helper process, which runs before anything else in this program, on a single
//! thread.

#![expect(
    unsafe_code,
    reason = "fork, signal masks and closing inherited descriptors have no safe wrapper; each use is justified below"
)]

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::process::Pid;
use rustix::thread::UnshareFlags;

/// Forks the process; `None` is the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the helper has a single thread, so no lock can be held by a thread that the child lacks; the
    // child may do whatever the parent could.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        id => Ok(Pid::from_raw(id)),
    }
}

/// Moves the process into new namespaces.
pub(super) fn unshare(flags: UnshareFlags) -> rustix::io::Result<()> {
    debug_assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: only unsharing the descriptor table can invalidate what safe code relies on, and no caller
    // requests it.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Blocks these signals and opens a descriptor to read them from. `exec` of the standard library unblocks
/// them.
pub(super) fn signal_descriptor(signals: &[libc::c_int]) -> io::Result<OwnedFd> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before it is read; every call gets pointers to live values of
    // the right type; the descriptor that `signalfd` returns is new and has no other owner.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let mut set = set.assume_init();
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            descriptor => Ok(OwnedFd::from_raw_fd(descriptor)),
        }
    }
}

/// Terminates this process with the signal that terminated the target; returns if the signal is not fatal.
pub(super) fn die_by(signal: i32) {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: as above; resetting a signal to its default action installs no handler.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        let set = set.assume_init();
        libc::signal(signal, libc::SIG_DFL);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Sets close-on-exec on every descriptor from `first` on, including inherited ones.
pub(super) fn close_on_exec_from(first: u32) -> io::Result<()> {
    // SAFETY: only the flag changes; no descriptor is closed that safe code still uses.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 {
        return Ok(());
    }
    // Kernels before 5.11.
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        let descriptor = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(descriptor) = descriptor.filter(|descriptor| i64::from(*descriptor) >= i64::from(first)) {
            // SAFETY: as above; a descriptor that was closed meanwhile is an error that changes nothing.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}

/// Brings up the loopback interface of a new network namespace.
pub(super) fn loopback_up() -> io::Result<()> {
    // SAFETY: the request is zeroed, which is valid for this plain structure, and outlives both calls; the
    // descriptor is new and closed by its owner.
    unsafe {
        let socket = match libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => OwnedFd::from_raw_fd(descriptor),
        };
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(*b"lo") {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags =
            libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&socket);
        if libc::ioctl(descriptor, libc::SIOCSIFFLAGS, &raw const request) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Attempts to trace another process; a probe of the sandbox.
pub(super) fn trace(process: Pid) -> bool {
    // SAFETY: these requests take no pointers.
    unsafe {
        let attached = libc::ptrace(libc::PTRACE_SEIZE, process.as_raw_nonzero().get(), 0, 0) == 0;
        if attached {
            libc::ptrace(libc::PTRACE_DETACH, process.as_raw_nonzero().get(), 0, 0);
        }
        attached
    }
}

/// Attempts to access the user's keyring; a probe of the sandbox.
pub(super) fn reach_keyring() -> bool {
    // SAFETY: the request (`KEYCTL_GET_KEYRING_ID` of the user's session keyring) takes no pointers.
    unsafe { libc::syscall(libc::SYS_keyctl, 0, -5_i64, 0) > 0 }
}
