//! `cargo xtask dist`: what a release needs, from one commit, with the same bytes each time.
//!
//! Times in archives are those of the commit, and paths of this machine are removed from programs. The files are
//! for the platform that builds them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::quantize::hex;
use crate::test::{cargo, root};
use crate::wheel;

/// Checksums of all files, in the format of `sha256sum`.
const CHECKSUMS: &str = "SHA256SUMS";

/// Shells with completions, and the path of the file below `usr/share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/satiety"),
    ("fish", "fish/vendor_completions.d/satiety.fish"),
    ("zsh", "zsh/site-functions/_satiety"),
];

/// Files of the repository that every archive contains.
const NOTICES: [&str; 5] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "crates/satiety-models/assets/NOTICE",
];

/// Builds everything into `target/artifacts` and returns the lines to print.
pub fn run(arguments: &[String]) -> Result<String> {
    let (mut verify, mut allow_dirty) = (false, false);
    for argument in arguments {
        match argument.as_str() {
            "--verify" => verify = true,
            "--allow-dirty" => allow_dirty = true,
            _ => bail!("usage: cargo xtask dist [--verify] [--allow-dirty]"),
        }
    }
    let changes = output(Command::new("git").args(["status", "--porcelain"]))?;
    ensure!(
        allow_dirty || changes.is_empty(),
        "uncommitted changes; a release is made from one commit\nhint: commit them, or try with `--allow-dirty`"
    );
    let directory = root().join("target/artifacts");
    let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]))?;
    let release = Release::new(directory, time)?;
    release.build()?;
    let checksums = fs_err::read_to_string(release.directory.join(CHECKSUMS))?;
    if verify {
        compare_with_a_second_build(&checksums)?;
    }
    Ok(format!("{}\n{checksums}", release.directory.display()))
}

/// Builds the same commit in another directory and compares the checksums.
fn compare_with_a_second_build(checksums: &str) -> Result<()> {
    let clone = tempfile::tempdir()?;
    let copy = clone.path().join("satiety");
    output(Command::new("git").args(["clone", "--quiet", "."]).arg(&copy))?;
    let mut again = Command::new(cargo());
    again
        .args(["xtask", "dist"])
        .current_dir(&copy)
        .env_remove("CARGO_TARGET_DIR");
    ensure!(again.status()?.success(), "the second build failed");
    let second = fs_err::read_to_string(copy.join("target/artifacts").join(CHECKSUMS))?;
    let different: Vec<&str> = checksums
        .lines()
        .filter(|line| !second.lines().any(|other| other == *line))
        .collect();
    ensure!(
        different.is_empty(),
        "not reproducible; these differ in a second build:\n{}",
        different.join("\n")
    );
    Ok(())
}

struct Release {
    directory: PathBuf,
    version: String,
    /// Name of the platform in Rust's terms, for example `x86_64-unknown-linux-gnu`.
    target: String,
    /// Time of the commit in seconds since 1970.
    time: String,
}

impl Release {
    fn new(directory: PathBuf, time: String) -> Result<Self> {
        let rustc = output(Command::new("rustc").arg("-vV"))?;
        let target = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            target: target.context("rustc does not name its platform")?.to_owned(),
            time,
            directory,
        })
    }

    fn build(&self) -> Result<()> {
        if self.directory.is_dir() {
            fs_err::remove_dir_all(&self.directory)?;
        }
        fs_err::create_dir_all(&self.directory)?;
        let program = self.build_program()?;
        self.pack_archive(&program)?;
        self.pack_debian(&program)?;
        self.write_components()?;
        let wheel = wheel::build_release(&self.environment()?)?;
        let name = wheel.file_name().context("the wheel has no name")?;
        fs_err::copy(&wheel, self.directory.join(name))?;
        if crate::node::has_npm() {
            crate::npm::pack(&program, &self.directory)?;
        } else {
            complain("npm is not installed: no npm packages");
        }
        fs_err::copy(
            root().join("contrib/install.sh"),
            self.directory.join("install.sh"),
        )?;
        self.write_checksums()
    }

    /// Variables that make builds independent of the time and the directory.
    fn environment(&self) -> Result<Vec<(String, String)>> {
        let home =
            std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cargo"))?;
        let root = root().display().to_string();
        let flags = [
            format!("--remap-path-prefix={home}=/cargo"),
            format!("--remap-path-prefix={root}=/satiety"),
        ];
        Ok(vec![
            ("SOURCE_DATE_EPOCH".to_owned(), self.time.clone()),
            ("CARGO_ENCODED_RUSTFLAGS".to_owned(), flags.join("\x1f")),
            (
                "CFLAGS".to_owned(),
                format!("-ffile-prefix-map={home}=/cargo -ffile-prefix-map={root}=/satiety"),
            ),
        ])
    }

    fn build_program(&self) -> Result<PathBuf> {
        let status = Command::new(cargo())
            .args([
                "build",
                "--profile",
                "dist",
                "--locked",
                "--package",
                "satiety-cli",
            ])
            .envs(self.environment()?)
            .current_dir(root())
            .status()?;
        ensure!(status.success(), "cannot build the command ({status})");
        // The wheel has a command of its own at the same path, built afterwards.
        let program = self.directory.with_file_name("artifacts-program");
        fs_err::copy(root().join("target/dist/satiety"), &program)?;
        Ok(program)
    }

    fn pack_archive(&self, program: &Path) -> Result<()> {
        let name = format!("satiety-{}", self.target);
        let stage = tempfile::tempdir()?;
        let top = stage.path().join(&name);
        copy(program, &top.join("satiety"))?;
        for notice in NOTICES {
            let file = Path::new(notice).file_name().context("a notice without a name")?;
            copy(&root().join(notice), &top.join(file))?;
        }
        copy_directory(&root().join("docs/reference/man"), &top.join("man"))?;
        for (shell, path) in COMPLETIONS {
            let file = Path::new(path)
                .file_name()
                .context("a completion without a name")?;
            write(&top.join("completions").join(file), &completions(program, shell)?)?;
        }
        self.tar(
            stage.path(),
            &name,
            &self.directory.join(format!("{name}.tar.gz")),
        )
    }

    /// A Debian package, if `dpkg-deb` is installed.
    fn pack_debian(&self, program: &Path) -> Result<()> {
        let Some(architecture) = debian_architecture(&self.target) else {
            return Ok(());
        };
        if Command::new("dpkg-deb").arg("--version").output().is_err() {
            complain("dpkg-deb is not installed: no Debian package");
            return Ok(());
        }
        let stage = tempfile::tempdir()?;
        let usr = stage.path().join("usr");
        copy(program, &usr.join("bin/satiety"))?;
        let documents = usr.join("share/doc/satiety");
        for notice in NOTICES {
            let file = Path::new(notice).file_name().context("a notice without a name")?;
            copy(&root().join(notice), &documents.join(file))?;
        }
        write(&documents.join("copyright"), COPYRIGHT)?;
        copy_directory(&root().join("docs/reference/man"), &usr.join("share/man/man1"))?;
        for (shell, path) in COMPLETIONS {
            write(&usr.join("share").join(path), &completions(program, shell)?)?;
        }
        copy(
            &root().join("contrib/satiety.service"),
            &usr.join("share/doc/satiety/examples/satiety.service"),
        )?;
        let size = fs_err::metadata(program)?.len() / 1024;
        let libc = newest_symbol_version(&fs_err::read(program)?, b"GLIBC_");
        write(
            &stage.path().join("DEBIAN/control"),
            &format!(
                "Package: satiety\nVersion: {}\nArchitecture: {architecture}\nMaintainer: The authors of Satiety <noreply@github.com>\n\
                 Installed-Size: {size}\nDepends: libc6 (>= {libc})\nSection: devel\nPriority: optional\nDescription: {}\n",
                self.version, DESCRIPTION
            ),
        )?;
        let file = format!("satiety_{}_{architecture}.deb", self.version);
        self.set_times(stage.path())?;
        let status = Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .arg(stage.path())
            .arg(self.directory.join(file))
            .env("SOURCE_DATE_EPOCH", &self.time)
            .stdout(std::process::Stdio::null())
            .status()?;
        ensure!(status.success(), "cannot build the Debian package ({status})");
        Ok(())
    }

    /// Components of the program as `CycloneDX` 1.5: the crates that it is linked from.
    fn write_components(&self) -> Result<()> {
        let tree = output(Command::new(cargo()).args([
            "tree",
            "--locked",
            "--package=satiety-cli",
            "--edges=normal,no-proc-macro",
            "--prefix=none",
            "--format={p}|{l}",
        ]))?;
        let crates: BTreeSet<(&str, &str, &str)> = tree.lines().filter_map(parse_crate).collect();
        let components = crates.iter().filter(|(name, ..)| *name != "satiety-cli");
        let components = components.map(|(name, version, license)| {
            let reference = format!("pkg:cargo/{name}@{version}");
            let mut component = json!({
                "type": "library",
                "bom-ref": reference,
                "purl": reference,
                "name": name,
                "version": version,
            });
            if !license.is_empty() {
                // Old manifests separate alternatives by a slash.
                component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
            }
            component
        });
        let document = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"component": {"type": "application", "name": "satiety", "version": self.version}},
            "components": components.collect::<Vec<_>>(),
        });
        let text = serde_json::to_string_pretty(&document)? + "\n";
        write(&self.directory.join("satiety.cdx.json"), &text)
    }

    fn write_checksums(&self) -> Result<()> {
        let mut files: Vec<PathBuf> = fs_err::read_dir(&self.directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        files.sort();
        let mut lines = String::new();
        for file in files {
            let hash = hex(&Sha256::digest(fs_err::read(&file)?));
            let name = file
                .file_name()
                .and_then(|name| name.to_str())
                .context("a file without a name")?;
            writeln!(lines, "{hash}  {name}")?;
        }
        write(&self.directory.join(CHECKSUMS), &lines)
    }

    /// Packs a directory with names in order, without owners, and with the time of the commit.
    fn tar(&self, directory: &Path, name: &str, archive: &Path) -> Result<()> {
        // The tar of macOS cannot sort.
        let status = Command::new(if cfg!(target_os = "macos") { "gtar" } else { "tar" })
            .args([
                "--sort=name",
                "--owner=0",
                "--group=0",
                "--numeric-owner",
                "--format=ustar",
            ])
            .arg(format!("--mtime=@{}", self.time))
            .args([
                "--use-compress-program=gzip --no-name --best",
                "--create",
                "--file",
            ])
            .arg(archive)
            .arg("--directory")
            .arg(directory)
            .arg(name)
            .status()
            .context("cannot run tar")?;
        ensure!(status.success(), "cannot pack {} ({status})", archive.display());
        Ok(())
    }

    fn set_times(&self, directory: &Path) -> Result<()> {
        let status = Command::new("find")
            .arg(directory)
            .args(["-exec", "touch", "--no-dereference"])
            .arg(format!("--date=@{}", self.time))
            .args(["{}", "+"])
            .status()?;
        ensure!(
            status.success(),
            "cannot set the times of {}",
            directory.display()
        );
        Ok(())
    }
}

const DESCRIPTION: &str = "tells AI agents when they have had enough\n \
    Says whether one more round, search, token or benchmark still buys anything: stopping rules for agents,\n \
    memory with measured retrieval, context eviction, benchmarks with exact statistics, and a one-way ratchet\n \
    for evaluation harnesses.";

const COPYRIGHT: &str = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
    Upstream-Name: satiety\n\nFiles: *\nCopyright: The authors of Satiety\nLicense: MIT or Apache-2.0\n \
    See LICENSE-MIT and LICENSE-APACHE in this directory, and NOTICE for the sentence model.\n";

fn debian_architecture(target: &str) -> Option<&'static str> {
    match target {
        "x86_64-unknown-linux-gnu" => Some("amd64"),
        "aarch64-unknown-linux-gnu" => Some("arm64"),
        _ => None,
    }
}

/// The newest version of the symbols with this prefix that a program needs, for example `2.34`.
fn newest_symbol_version(program: &[u8], prefix: &[u8]) -> String {
    let versions = program
        .windows(prefix.len())
        .enumerate()
        .filter_map(|(at, window)| {
            let rest = (window == prefix).then(|| program.get(at + prefix.len()..))??;
            let end = rest
                .iter()
                .position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
            let numbers = std::str::from_utf8(rest.get(..end)?).ok()?;
            numbers
                .split('.')
                .map(|number| number.parse::<u32>().ok())
                .collect::<Option<Vec<_>>>()
        });
    let newest = versions.max().unwrap_or_else(|| vec![2, 34]);
    newest.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn completions(program: &Path, shell: &str) -> Result<String> {
    let mut text = output(Command::new(program).args(["completions", shell]))?;
    text.push('\n');
    Ok(text)
}

/// Name, version and license of a line of `cargo tree`, for example `memchr v2.8.3|Unlicense OR MIT`.
fn parse_crate(line: &str) -> Option<(&str, &str, &str)> {
    let (package, license) = line.split_once('|')?;
    let mut words = package.split(' ');
    Some((
        words.next()?,
        words.next()?.strip_prefix('v')?,
        license.trim_end_matches(" (*)"),
    ))
}

/// Standard output of a command that must succeed, without the last line end.
fn output(command: &mut Command) -> Result<String> {
    let what = format!("{command:?}");
    let output = command
        .current_dir(root())
        .output()
        .with_context(|| format!("cannot run {what}"))?;
    ensure!(
        output.status.success(),
        "{what} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(fs_err::write(path, text)?)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    fs_err::copy(from, to)?;
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    for entry in fs_err::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what is missing from the release")]
fn complain(text: &str) {
    eprintln!("warning: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "1700000000";

    #[test]
    fn the_newest_version_is_compared_by_number() {
        let program = b"x\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_PRIVATE\0GLIBCXX_9.1\0";
        assert_eq!(newest_symbol_version(program, b"GLIBC_"), "2.34");
    }

    /// A directory of releases with one program, which prints its version.
    fn releases(checksum: Option<&str>) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let download = directory.path().join("download/v0.9.0");
        let mut release = Release::new(download, TIME.to_owned()).unwrap();
        release.version = "0.9.0".to_owned();
        fs_err::create_dir_all(&release.directory).unwrap();
        let program = directory.path().join("satiety");
        let script = "#!/bin/sh\necho \"satiety 0.9.0 $*\"\n";
        fs_err::write(&program, script).unwrap();
        fs_err::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        release.pack_archive(&program).unwrap();
        release.write_checksums().unwrap();
        if let Some(checksum) = checksum {
            let line = format!("{checksum}  satiety-{}.tar.gz\n", release.target);
            fs_err::write(release.directory.join(CHECKSUMS), line).unwrap();
        }
        directory
    }

    fn install(releases: &Path, to: &Path) -> std::process::Output {
        Command::new("sh")
            .arg(root().join("contrib/install.sh"))
            .args(["--version", "v0.9.0", "--to"])
            .arg(to)
            .env("SATIETY_RELEASES", format!("file://{}", releases.display()))
            .output()
            .unwrap()
    }

    #[test]
    fn an_archive_has_the_same_bytes_twice_and_is_installed() {
        let (first, second) = (releases(None), releases(None));
        let sums = |directory: &Path| {
            fs_err::read_to_string(directory.join("download/v0.9.0").join(CHECKSUMS)).unwrap()
        };
        assert_eq!(sums(first.path()), sums(second.path()));
        let to = first.path().join("new/bin");
        let output = install(first.path(), &to);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("satiety 0.9.0"),
            "{output:?}"
        );
        assert!(to.join("satiety").is_file());
    }

    #[test]
    fn a_wrong_checksum_installs_nothing() {
        let releases = releases(Some(&"0".repeat(64)));
        let to = releases.path().join("bin");
        let output = install(releases.path(), &to);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains("checksum"),
            "{output:?}"
        );
        assert!(!to.exists());
    }

    #[test]
    fn components_are_what_the_program_is_linked_from() {
        let directory = tempfile::tempdir().unwrap();
        let release = Release::new(directory.path().to_owned(), TIME.to_owned()).unwrap();
        release.write_components().unwrap();
        let text = fs_err::read_to_string(directory.path().join("satiety.cdx.json")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names: BTreeSet<&str> = document["components"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|part| part["name"].as_str())
            .collect();
        assert!(names.contains("sqlx") && names.contains("satiety-engine"));
        assert!(
            !names.contains("proptest") && !names.contains("satiety-cli"),
            "only what is linked"
        );
    }
}
