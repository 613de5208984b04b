//! Allow-list of the files that a target may read: system directories, its interpreter, its own files and the
//! paths in its description.
//!
//! Nothing else exists inside the sandbox: not the suite with its expected answers, the database, the home
//! directory or other cases. Some paths are *protected*: a description that names one, or a directory that
//! contains one, is rejected, and one below a system directory is hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::super::target::OpenError;
use super::Mount;

/// Directories of programs and libraries.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
];

/// Files in `/etc` that programs need to start and to verify certificates. Users, hosts and name services are
/// generated.
const ETC: [&str; 21] = [
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld-musl-x86_64.path",
    "alternatives",
    "ssl",
    "ca-certificates",
    "ca-certificates.conf",
    "pki",
    "crypto-policies",
    "localtime",
    "timezone",
    "locale.alias",
    "locale.conf",
    "os-release",
    "debian_version",
    "mime.types",
    "protocols",
    "services",
    "fonts",
    "magic",
];

/// Files in `/etc` for host name resolution, for a target with network access.
const ETC_NETWORK: [&str; 3] = ["resolv.conf", "host.conf", "gai.conf"];

/// Kernel and service directories: no path below them is allowed.
const FORBIDDEN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/var/run"];

/// Parts of an installation prefix that a program needs; not `share`, where users keep data.
const PREFIX: [&str; 6] = ["bin", "lib", "lib64", "libexec", "include", "pyvenv.cfg"];

/// Maximum number of links followed from a program to its file.
const MAX_LINKS: usize = 40;
/// Maximum depth of interpreters of interpreters.
const MAX_SHEBANG_DEPTH: usize = 4;

/// Paths that a target must not see.
#[derive(Debug, Clone, Default)]
pub struct Protected {
    /// Trees that are hidden completely: the suite file, its cases, baselines, the repository's history, the
    /// database, keys.
    pub trees: Vec<PathBuf>,
    /// Directories that must not be visible as a whole, although parts of them may be allowed: the suite's
    /// directory, the home directory, the directory for temporary files.
    pub wholes: Vec<PathBuf>,
    /// Directory of a tenant. Nothing else is visible except what every sandbox has: a tenant's users write the
    /// descriptions.
    pub within: Option<PathBuf>,
}

impl Protected {
    /// Resolves symbolic links in all paths. Paths that do not exist stay unchanged.
    pub fn resolved(&self) -> Self {
        let resolve = |paths: &[PathBuf]| paths.iter().map(|path| canonical(path)).collect();
        Self {
            trees: resolve(&self.trees),
            wholes: resolve(&self.wholes),
            within: self.within.as_deref().map(canonical),
        }
    }

    /// Reason why a path must not be visible; `None` if it may be.
    fn objection(&self, path: &Path) -> Option<String> {
        let display_path = |path: &Path| path.display().to_string();
        if path.parent().is_none() {
            return Some("is the root of the file system".to_owned());
        }
        if let Some(tree) = self.trees.iter().find(|tree| path.starts_with(tree)) {
            return Some(format!(
                "is in {}, which is hidden from targets",
                display_path(tree)
            ));
        }
        if let Some(found) = self
            .trees
            .iter()
            .chain(&self.wholes)
            .find(|kept| kept.starts_with(path))
        {
            return Some(format!(
                "contains {}, which is hidden from targets",
                display_path(found)
            ));
        }
        let never = FORBIDDEN.iter().find(|kept| path.starts_with(kept))?;
        Some(format!("is below {never}"))
    }

    /// Whether a resolved path is protected itself, or outside of the tenant's directory.
    pub(in super::super) fn covers(&self, path: &Path) -> bool {
        self.is_in_tree(path) || self.is_outside(path)
    }

    fn is_in_tree(&self, path: &Path) -> bool {
        self.trees.iter().any(|tree| path.starts_with(tree))
    }

    /// Whether a resolved path is neither in the tenant's directory nor in every sandbox.
    pub(in super::super) fn is_outside(&self, path: &Path) -> bool {
        let is_shared = || {
            SYSTEM.iter().any(|system| path.starts_with(system))
                || ETC
                    .iter()
                    .any(|name| path.starts_with(Path::new("/etc").join(name)))
        };
        self.within
            .as_ref()
            .is_some_and(|root| !path.starts_with(root) && !is_shared())
    }
}

/// Size of a tree up to which it is copied for a run.
const MAX_COPIED_FILES: u64 = 2_000;
const MAX_COPIED_BYTES: u64 = 32 << 20;

/// Allow-list of one target, created once and used for all its processes.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// Source file or directory, by path inside the sandbox.
    reads: BTreeMap<PathBuf, PathBuf>,
    /// Directories that paths like `{{base}}/../agent.py` pass through; they are empty.
    passed: BTreeSet<PathBuf>,
    protected: Protected,
    /// Directory of copies of the target's files, made when the target was opened.
    copies: PathBuf,
    count: usize,
}

/// Paths in a target description.
#[derive(Debug)]
pub(in super::super) struct Named<'a> {
    /// Resolved path of the program.
    pub(in super::super) program: Option<&'a Path>,
    /// Search path for interpreters.
    pub(in super::super) search: &'a str,
    /// Arguments, with `{{base}}` filled in.
    pub(in super::super) args: Vec<String>,
    /// Directory of the description.
    pub(in super::super) base: &'a Path,
    /// Additional paths to read.
    pub(in super::super) read: &'a [String],
    /// Directory of the skill under test.
    pub(in super::super) skill: Option<&'a Path>,
}

impl Layout {
    pub(super) fn new(
        named: &Named<'_>,
        protected: &Protected,
        copies: &Path,
        network: bool,
    ) -> Result<Self, OpenError> {
        let mut layout = Self {
            protected: protected.resolved(),
            copies: copies.to_owned(),
            ..Self::default()
        };
        for name in ETC.iter().chain(ETC_NETWORK.iter().filter(|_| network)) {
            let path = Path::new("/etc").join(name);
            if path.exists() {
                layout.reads.insert(path.clone(), canonical(&path));
            }
        }
        layout.write_etc(network)?;
        layout.passed.insert(lexical(named.base));
        if let Some(program) = named.program {
            layout.pass_through(program);
            layout.add_program(program, named, MAX_SHEBANG_DEPTH)?;
        }
        for arg in &named.args {
            layout.add_argument(arg, named)?;
        }
        for path in named.read {
            layout.add_read(path, named)?;
        }
        if let Some(skill) = named.skill {
            // The skill contains its benchmarks; the target sees a copy without them.
            layout.add_copy(skill, "skill")?;
        }
        Ok(layout)
    }

    /// Mounts for a process with the working directory `workdir`, outermost first.
    pub(super) fn mounts(&self, workdir: &Path) -> Vec<Mount> {
        let mut mounts = vec![Mount::Memory { at: "/tmp".into() }];
        for path in SYSTEM.map(Path::new) {
            match fs_err::read_link(path) {
                Ok(target) => mounts.push(Mount::Link {
                    target,
                    at: path.to_owned(),
                }),
                Err(_) if path.is_dir() => mounts.push(Mount::Read {
                    from: path.to_owned(),
                    to: path.to_owned(),
                }),
                Err(_) => {}
            }
        }
        let in_system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
        let kept = self.protected.trees.iter().chain(&self.protected.wholes);
        mounts.extend(
            kept.filter(|path| in_system(path) && path.exists())
                .map(|path| Mount::Hide { at: path.clone() }),
        );
        mounts.extend(
            self.reads
                .iter()
                .filter(|(to, from)| !(in_system(to) && to == from && !self.is_hidden(to)))
                .filter(|(_, from)| self.is_in_place(from))
                .map(|(to, from)| Mount::Read {
                    from: from.clone(),
                    to: to.clone(),
                }),
        );
        mounts.extend(
            self.passed
                .iter()
                .map(|path| Mount::Directory { at: path.clone() }),
        );
        mounts.push(Mount::Write {
            path: workdir.to_owned(),
        });
        mounts.sort_by_key(|mount| depth(mount.place()));
        mounts
    }

    /// Whether a source in the tenant's directory is still there: a user may have replaced it by a link.
    fn is_in_place(&self, from: &Path) -> bool {
        match &self.protected.within {
            Some(root) if from.starts_with(root) => canonical(from) == from,
            _ => true,
        }
    }

    fn is_hidden(&self, path: &Path) -> bool {
        self.protected
            .trees
            .iter()
            .chain(&self.protected.wholes)
            .any(|kept| path.starts_with(kept))
    }

    /// Generates users, hosts and name services that reveal nothing about this machine.
    fn write_etc(&mut self, network: bool) -> Result<(), OpenError> {
        let users =
            "root:x:0:0:root:/nonexistent:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n";
        let mut files = vec![
            ("passwd", users),
            ("group", "root:x:0:\nnogroup:x:65534:\n"),
            (
                "nsswitch.conf",
                "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n",
            ),
            ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
            ("hostname", "sandbox\n"),
        ];
        if network && Path::new("/etc/hosts").exists() {
            files.retain(|(name, _)| *name != "hosts");
            self.reads
                .insert("/etc/hosts".into(), canonical(Path::new("/etc/hosts")));
        }
        for (name, content) in files {
            let copy = self.next_copy("etc")?;
            fs_err::write(&copy, content).map_err(|error| OpenError::sandbox(error.to_string()))?;
            self.reads.insert(Path::new("/etc").join(name), copy);
        }
        Ok(())
    }

    fn next_copy(&mut self, kind: &str) -> Result<PathBuf, OpenError> {
        self.count += 1;
        fs_err::create_dir_all(&self.copies).map_err(|error| OpenError::sandbox(error.to_string()))?;
        Ok(self.copies.join(format!("{kind}-{}", self.count)))
    }

    /// Adds the program with the links that lead to it, its installation and its interpreter.
    fn add_program(&mut self, program: &Path, named: &Named<'_>, depth: usize) -> Result<(), OpenError> {
        let mut path = program.to_owned();
        for _ in 0..MAX_LINKS {
            self.add_installed(&path, named)?;
            let Ok(target) = fs_err::read_link(&path) else {
                break;
            };
            path = lexical(&path.parent().unwrap_or(Path::new("/")).join(target));
        }
        let canonical = canonical(&path);
        if canonical != path {
            self.add_installed(&canonical, named)?;
        }
        if depth == 0 {
            return Ok(());
        }
        for interpreter in interpreters(&canonical, named.search) {
            self.add_program(&interpreter, named, depth - 1)?;
        }
        Ok(())
    }

    /// Adds an installed file, with its virtual environment or prefix if it is in one.
    fn add_installed(&mut self, path: &Path, named: &Named<'_>) -> Result<(), OpenError> {
        let real = canonical(path);
        let system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
        if system(path) && !self.is_hidden(&real) {
            return Ok(());
        }
        // A program of npm imports packages that are installed next to its own.
        let is_packages = |folder: &&Path| folder.file_name().is_some_and(|name| name == "node_modules");
        if let Some(packages) = path.ancestors().filter(is_packages).last()
            && !real.starts_with(canonical(named.base))
            && self.allow(packages)
            && self.is_readable(path)
        {
            return Ok(());
        }
        let directory = path.parent();
        let kind = directory.and_then(Path::file_name).and_then(|name| name.to_str());
        let above = directory.and_then(Path::parent);
        match (kind, above) {
            // Version managers: shims that look for the real program next to them.
            (Some("shims"), Some(above))
                if (above.join("versions").is_dir() || above.join("installs").is_dir())
                    && self.allow(above) =>
            {
                return Ok(());
            }
            (Some("bin"), Some(prefix)) if is_installation(prefix) => {
                let mut added = false;
                for part in PREFIX {
                    let part = prefix.join(part);
                    added |= part.exists() && self.allow(&part);
                }
                self.add_base_installation(prefix, named)?;
                if added && self.is_readable(path) {
                    return Ok(());
                }
            }
            _ => {}
        }
        if !path.is_file() {
            return Ok(());
        }
        // A program next to the suite is copied alone, when the target is opened.
        if real.starts_with(canonical(named.base)) || !self.allow(path) {
            self.add_copy(path, "program")?;
        }
        Ok(())
    }

    /// A virtual environment refers to the installation that it is based on.
    fn add_base_installation(&mut self, prefix: &Path, named: &Named<'_>) -> Result<(), OpenError> {
        let settings = fs_err::read_to_string(prefix.join("pyvenv.cfg")).unwrap_or_default();
        let home = settings.lines().find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "home").then(|| PathBuf::from(value.trim()))
        });
        match home {
            Some(home) if home.is_absolute() && home != prefix.join("bin") => {
                self.add_installed(&home.join("python3"), named)
            }
            _ => Ok(()),
        }
    }

    /// Adds an argument that is a path: the description refers to it, so the target is meant to read it.
    fn add_argument(&mut self, arg: &str, named: &Named<'_>) -> Result<(), OpenError> {
        let base = named.base.to_string_lossy();
        let start = match arg.find(base.as_ref()) {
            Some(start) if !base.is_empty() => start,
            _ if arg.starts_with('/') => 0,
            _ => return Ok(()),
        };
        let path = Path::new(arg.get(start..).unwrap_or_default());
        if !path.is_absolute() || !path.exists() {
            return Ok(());
        }
        self.pass_through(path);
        let path = lexical(path);
        let real = canonical(&path);
        if real == canonical(named.base) {
            return Ok(());
        }
        if self.protected.is_in_tree(&real) {
            return Err(OpenError::description(
                "args",
                format!(
                    "{} {}",
                    path.display(),
                    self.protected.objection(&real).unwrap_or_default()
                ),
            ));
        }
        // A directory that contains something protected may be meant as a plain string.
        if self.protected.objection(&real).is_some() {
            return Ok(());
        }
        self.check_inside(&path, &real)?;
        if real.starts_with(canonical(named.base)) {
            self.add_copy(&path, "argument")
        } else {
            self.allow(&path);
            Ok(())
        }
    }

    /// Adds a path listed under `read`; an error if it is protected.
    fn add_read(&mut self, text: &str, named: &Named<'_>) -> Result<(), OpenError> {
        let refused = |reason: String| OpenError::description("read", format!("`{text}` {reason}"));
        let path = lexical(&named.base.join(text));
        let real = canonical(&path);
        // First, so that a tenant does not learn which files exist elsewhere.
        self.check_inside(&path, &real)?;
        if !path.exists() {
            return Err(refused("does not exist".to_owned()));
        }
        if let Some(objection) = self
            .protected
            .objection(&real)
            .or_else(|| self.protected.objection(&path))
        {
            return Err(refused(objection));
        }
        let own = real.starts_with(canonical(named.base));
        if own {
            self.add_copy(&path, "file")?;
        } else {
            self.reads.insert(path, real.clone());
            self.reads.insert(real.clone(), real);
        }
        Ok(())
    }

    /// Fails if a path is outside of the tenant's directory; `real` is the path without links.
    fn check_inside(&self, path: &Path, real: &Path) -> Result<(), OpenError> {
        if self.protected.is_outside(real) {
            return Err(OpenError::outside(path));
        }
        Ok(())
    }

    /// Creates the directories before each `..` of a path.
    fn pass_through(&mut self, path: &Path) {
        let mut passed = PathBuf::new();
        for part in path.components() {
            if part == Component::ParentDir {
                self.passed.insert(lexical(&passed));
            }
            passed.push(part);
        }
    }

    /// Makes a path readable unless it is protected; returns whether it is allowed.
    fn allow(&mut self, path: &Path) -> bool {
        let real = canonical(path);
        let allowed = self.protected.objection(&real).is_none()
            && self.protected.objection(path).is_none()
            && !self.protected.is_outside(&real);
        if allowed {
            self.reads.insert(path.to_owned(), real.clone());
            self.reads.insert(real.clone(), real);
        }
        allowed
    }

    fn is_readable(&self, path: &Path) -> bool {
        self.reads.keys().any(|allowed| path.starts_with(allowed))
    }

    /// Copies a file or tree of the target, without protected files, and mounts the copy in its place.
    /// A large tree without protected files is mounted itself.
    fn add_copy(&mut self, path: &Path, kind: &str) -> Result<(), OpenError> {
        self.check_inside(path, &canonical(path))?;
        if path.is_dir() && is_large(path) && self.allow(path) {
            return Ok(());
        }
        let copy = self.next_copy(kind)?;
        copy_tree(path, &copy, &self.protected)
            .map_err(|error| OpenError::sandbox(format!("cannot copy {}: {error}", path.display())))?;
        if !copy.exists() {
            return Err(OpenError::description(
                "command",
                format!("{} is hidden from targets", path.display()),
            ));
        }
        let real = canonical(path);
        self.reads.insert(real, copy.clone());
        self.reads.insert(lexical(path), copy);
        Ok(())
    }
}

/// Whether a tree has more files or bytes than should be copied for a run, such as a repository with its
/// dependencies. Stops as soon as it knows.
fn is_large(tree: &Path) -> bool {
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let mut open = vec![tree.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs_err::read_dir(&folder).into_iter().flatten().flatten() {
            // The metadata of an entry does not follow links, which copies do not follow either.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                open.push(entry.path());
            }
            files += 1;
            bytes = bytes.saturating_add(metadata.len());
            if files > MAX_COPIED_FILES || bytes > MAX_COPIED_BYTES {
                return true;
            }
        }
    }
    false
}

/// Copies a tree readable for any user, without protected files and without links to them.
pub(in super::super) fn copy_tree(from: &Path, to: &Path, protected: &Protected) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let real = canonical(from);
    if protected.covers(&real) {
        return Ok(());
    }
    let metadata = fs_err::metadata(from)?;
    if metadata.is_file() {
        fs_err::copy(from, to)?;
        let mode = if metadata.permissions().mode() & 0o111 == 0 {
            0o644
        } else {
            0o755
        };
        return fs_err::set_permissions(to, std::fs::Permissions::from_mode(mode));
    }
    if !metadata.is_dir() {
        // Pipes, sockets and devices have no content to copy.
        return Ok(());
    }
    fs_err::create_dir_all(to)?;
    fs_err::set_permissions(to, std::fs::Permissions::from_mode(0o755))?;
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        let path = entry.path();
        if fs_err::symlink_metadata(&path)?.is_symlink() {
            // Kept as a link if it stays inside the tree; targets outside are not part of it.
            let target = fs_err::read_link(&path)?;
            if target.is_relative() && canonical(&path).starts_with(&real) {
                std::os::unix::fs::symlink(target, to.join(entry.file_name()))?;
            }
            continue;
        }
        copy_tree(&path, &to.join(entry.file_name()), protected)?;
    }
    Ok(())
}

/// Whether a directory is an installation prefix rather than a user's directory.
fn is_installation(prefix: &Path) -> bool {
    prefix.join("pyvenv.cfg").is_file() || prefix.join("lib").is_dir() || prefix.join("lib64").is_dir()
}

/// Interpreters named in the first line of a script.
fn interpreters(script: &Path, search: &str) -> Vec<PathBuf> {
    use std::io::Read as _;
    let mut start = Vec::new();
    let read = fs_err::File::open(script).map(|file| file.take(512).read_to_end(&mut start));
    if !matches!(read, Ok(Ok(_))) || !start.starts_with(b"#!") {
        return Vec::new();
    }
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line.get(2..).unwrap_or_default()).into_owned();
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else {
        return Vec::new();
    };
    let mut found = vec![PathBuf::from(first)];
    if Path::new(first).file_name().is_some_and(|name| name == "env") {
        let name = words.find(|word| !word.starts_with('-') && !word.contains('='));
        found.extend(name.and_then(|name| find_program(name, search)));
    }
    found
}

/// Finds a program by name, as the shell would.
pub(in super::super) fn find_program(name: &str, search: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        fs_err::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(runs);
    }
    search
        .split(':')
        .filter(|directory| directory.starts_with('/'))
        .map(|directory| Path::new(directory).join(name))
        .find(runs)
}

/// Number of components of a path; mounts are created outermost first.
fn depth(path: &Path) -> usize {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .count()
}

/// Resolves symbolic links; the path itself if it does not exist.
pub(in super::super) fn canonical(path: &Path) -> PathBuf {
    fs_err::canonicalize(path).unwrap_or_else(|_| lexical(path))
}

/// Normalises `.` and `..` lexically.
fn lexical(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the layout of a description in `suite`, below the tenant's directory `acme`.
    fn layout(
        place: &Path,
        program: Option<&Path>,
        args: &[&str],
        read: &[&str],
    ) -> Result<Layout, OpenError> {
        let base = place.join("acme/suite");
        let read: Vec<String> = read.iter().map(|path| (*path).to_owned()).collect();
        let named = Named {
            program,
            search: "/usr/bin:/bin",
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            base: &base,
            read: &read,
            skill: None,
        };
        let protected = Protected {
            within: Some(place.join("acme")),
            ..Protected::default()
        };
        Layout::new(&named, &protected, &place.join("copies"), false)
    }

    fn assert_outside(found: Result<Layout, OpenError>, what: &str) {
        let error = found.expect_err(what);
        assert!(matches!(error, OpenError::Outside { .. }), "{what}: {error}");
        assert!(error.to_string().starts_with("cannot read "), "{error}");
        assert!(error.hint().is_some());
    }

    #[test]
    fn a_tenant_reads_its_directory_and_the_system() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let place = canonical(folder.path());
        let at = |name: &str| place.join(name);
        let text = |name: &str| at(name).display().to_string();
        for name in [
            "acme/suite/a.txt",
            "acme/common/b.txt",
            "other/bin/run",
            "other/lib/c.txt",
        ] {
            fs_err::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs_err::write(at(name), "#!/bin/sh\n").unwrap();
        }
        fs_err::set_permissions(at("other/bin/run"), std::fs::Permissions::from_mode(0o755)).unwrap();
        symlink(at("other"), at("acme/suite/link")).unwrap();
        let own = [
            text("acme/suite/a.txt"),
            text("acme/common"),
            "/usr/bin".to_owned(),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        layout(
            &place,
            Some(Path::new("/bin/sh")),
            &own,
            &["a.txt", "../common", "/usr/bin"],
        )
        .unwrap();
        // A path that does not exist is a plain text.
        layout(&place, None, &["/api/none"], &[]).unwrap();
        for read in [
            &*text("other"),
            &*text("other/none"),
            "../../other/lib/c.txt",
            "link",
            "/etc/passwd",
        ] {
            assert_outside(layout(&place, None, &[], &[read]), read);
        }
        for arg in [
            text("other/lib/c.txt"),
            text("acme/suite/link/lib/c.txt"),
            "/etc/passwd".into(),
        ] {
            assert_outside(layout(&place, None, &[&arg], &[]), &arg);
        }
        for program in ["other/bin/run", "acme/suite/link/bin/run"] {
            assert_outside(layout(&place, Some(&at(program)), &[], &[]), program);
        }
        // A virtual environment that is based on an installation elsewhere.
        fs_err::create_dir_all(at("acme/venv/bin")).unwrap();
        fs_err::write(at("acme/venv/bin/tool"), "#!/bin/sh\n").unwrap();
        fs_err::write(
            at("acme/venv/pyvenv.cfg"),
            format!("home = {}\n", text("other/bin")),
        )
        .unwrap();
        fs_err::rename(at("other/bin/run"), at("other/bin/python3")).unwrap();
        assert_outside(layout(&place, Some(&at("acme/venv/bin/tool")), &[], &[]), "venv");
    }

    #[test]
    fn a_directory_that_becomes_a_link_is_not_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let place = canonical(folder.path());
        for name in ["acme/suite", "acme/common", "other"] {
            fs_err::create_dir_all(place.join(name)).unwrap();
        }
        let layout = layout(&place, None, &[], &["../common"]).unwrap();
        let shared = place.join("acme/common");
        let is_mounted = || {
            layout
                .mounts(&place.join("work"))
                .iter()
                .any(|mount| mount.place() == shared)
        };
        assert!(is_mounted());
        fs_err::remove_dir(&shared).unwrap();
        std::os::unix::fs::symlink(place.join("other"), &shared).unwrap();
        assert!(!is_mounted());
    }

    #[test]
    fn files_outside_of_a_tenants_directory_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let place = canonical(folder.path());
        for name in ["acme/suite", "other"] {
            fs_err::create_dir_all(place.join(name)).unwrap();
            fs_err::write(place.join(name).join("file"), name).unwrap();
        }
        let protected = Protected {
            within: Some(place.join("acme")),
            ..Protected::default()
        };
        copy_tree(&place.join("acme/suite"), &place.join("one"), &protected).unwrap();
        copy_tree(&place.join("other"), &place.join("two"), &protected).unwrap();
        assert!(place.join("one/file").exists());
        assert!(!place.join("two").exists());
    }
}
