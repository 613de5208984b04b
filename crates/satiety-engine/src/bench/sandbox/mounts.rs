//! File system of a sandbox: a new root with only the allow-list mounted, read-only.

use std::ffi::CString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind_recursive, mount_change,
    mount_remount, unmount,
};

use super::{Confinement, Mount};

/// Devices without state, and the controlling terminal, which the target does not have.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links that programs expect in `/dev`.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
];
/// Size of each writable in-memory file system.
const MEMORY_FILES: &str = "mode=1777,size=64m,nr_inodes=16k";

/// Builds the root of a plan and makes it the root of this process, which is the first of its pid namespace.
pub(super) fn enter(plan: &Confinement) -> Result<(), String> {
    let failed = |what: &str, path: &Path| {
        let (what, path) = (what.to_owned(), path.display().to_string());
        move |error: std::io::Error| format!("cannot {what} {path}: {error}")
    };
    // Isolate mount propagation in both directions.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| format!("cannot make mounts private: {error}"))?;
    let root = plan.root.as_path();
    memory_files(root, "mode=755,size=16m,nr_inodes=16k").map_err(failed("mount", root))?;
    let inside = |path: &Path| -> PathBuf { root.join(path.strip_prefix("/").unwrap_or(path)) };
    let mut writable = vec![];
    for wanted in &plan.mounts {
        let to = inside(wanted.place());
        match wanted {
            Mount::Read { from, .. } => bind(from, &to).map_err(failed("mount", from))?,
            Mount::Link { target, .. } => {
                directory(to.parent().unwrap_or(root)).map_err(failed("make", &to))?;
                symlink(target, &to).map_err(failed("link", &to))?;
            }
            Mount::Hide { .. } => {
                // A bind mount reveals the path; in a root built from scratch there is nothing to hide.
                if to.is_dir() {
                    memory_files(&to, "mode=755,size=4k,nr_inodes=2k").map_err(failed("hide", &to))?;
                } else if to.exists() {
                    bind(Path::new("/dev/null"), &to).map_err(failed("hide", &to))?;
                }
            }
            Mount::Memory { .. } => {
                directory(&to).map_err(failed("make", &to))?;
                memory_files(&to, MEMORY_FILES).map_err(failed("mount", &to))?;
                writable.push(to);
            }
            Mount::Directory { .. } => directory(&to).map_err(failed("make", &to))?,
            Mount::Write { path } => {
                bind(path, &to).map_err(failed("mount", path))?;
                writable.push(to);
            }
        }
    }
    for way in super::intermediate_directories(&plan.mounts) {
        use std::os::unix::fs::PermissionsExt as _;
        let way = inside(way);
        std::fs::set_permissions(&way, std::fs::Permissions::from_mode(0o555))
            .map_err(failed("close", &way))?;
    }
    devices(&inside(Path::new("/dev")), &mut writable)?;
    let proc = inside(Path::new("/proc"));
    directory(&proc).map_err(failed("make", &proc))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None).map_err(|error| format!("cannot mount /proc: {error}"))?;
    writable.push(proc);
    make_read_only(root, &writable)?;
    swap_root(root)?;
    std::env::set_current_dir(&plan.workdir)
        .map_err(|error| format!("cannot enter the working directory: {error}"))
}

fn memory_files(at: &Path, options: &str) -> std::io::Result<()> {
    let options = CString::new(options).map_err(|_| ErrorKind::InvalidInput)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount("tmpfs", at, "tmpfs", flags, options.as_c_str())?)
}

fn directory(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(path)
}

/// Binds a file or directory recursively: in a user namespace the kernel denies non-recursive binds.
fn bind(from: &Path, to: &Path) -> std::io::Result<()> {
    let metadata = std::fs::metadata(from)?;
    if metadata.is_dir() {
        directory(to)?;
    } else if !to.exists() {
        directory(to.parent().unwrap_or(to))?;
        fs_err::File::create(to)?;
    }
    Ok(mount_bind_recursive(from, to)?)
}

fn devices(at: &Path, writable: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot create /dev: {error}");
    directory(at).map_err(failed)?;
    for name in DEVICES {
        let from = Path::new("/dev").join(name);
        if from.exists() {
            bind(&from, &at.join(name)).map_err(failed)?;
            writable.push(at.join(name));
        }
    }
    for (target, name) in DEVICE_LINKS {
        symlink(target, at.join(name)).map_err(failed)?;
    }
    let shared = at.join("shm");
    directory(&shared)
        .and_then(|()| memory_files(&shared, MEMORY_FILES))
        .map_err(failed)?;
    writable.push(shared);
    // Separate pseudo-terminals; if the kernel denies them, the target has none.
    let terminals = at.join("pts");
    let options = c"newinstance,ptmxmode=0666,mode=620";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    if directory(&terminals).is_ok() && mount("devpts", &terminals, "devpts", flags, options).is_ok() {
        symlink("pts/ptmx", at.join("ptmx")).map_err(failed)?;
        writable.push(terminals);
    }
    Ok(())
}

/// Makes every mount below the root read-only, including nested ones, except the writable ones.
fn make_read_only(root: &Path, writable: &[PathBuf]) -> Result<(), String> {
    let table =
        fs_err::read("/proc/self/mountinfo").map_err(|error| format!("cannot list mounts: {error}"))?;
    let mut points: Vec<PathBuf> = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|point| point.starts_with(root))
        .collect();
    points.sort();
    points.dedup();
    for point in points {
        let stays = writable.contains(&point);
        // Existing flags of a mount must be repeated: the kernel does not allow removing them.
        let found = statvfs(&point)
            .map_err(|error| format!("cannot examine the mount {}: {error}", point.display()))?
            .f_flag;
        let mut flags = MountFlags::BIND | MountFlags::NOSUID;
        for (has, keep) in [
            (StatVfsMountFlags::NODEV, MountFlags::NODEV),
            (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
            (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
            (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
            (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
            (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        ] {
            if found.contains(has) {
                flags |= keep;
            }
        }
        if !stays {
            flags |= MountFlags::RDONLY;
        }
        mount_remount(&point, flags, "")
            .map_err(|error| format!("cannot make {} read-only: {error}", point.display()))?;
    }
    Ok(())
}

/// Decodes the octal escapes in the kernel's mount table.
fn unescape(name: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = code {
            bytes.push(byte);
            rest = tail.get(3..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

/// Makes the directory the root and detaches the old one.
fn swap_root(root: &Path) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot change the root: {error}");
    std::env::set_current_dir(root).map_err(|error| failed(&error))?;
    rustix::process::pivot_root(".", ".").map_err(|error| failed(&error))?;
    // The old root is now mounted on top of the new one.
    unmount(".", UnmountFlags::DETACH).map_err(|error| failed(&error))?;
    std::env::set_current_dir("/").map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_mount_names_are_decoded() {
        for (text, name) in [
            ("/a/b", "/a/b"),
            ("/a\\040b\\011c", "/a b\tc"),
            ("/a\\134040", "/a\\040"),
            ("/a\\", "/a\\"),
            ("/a\\9zz", "/a\\9zz"),
        ] {
            assert_eq!(unescape(text.as_bytes()), Path::new(name), "{text}");
        }
    }
}
