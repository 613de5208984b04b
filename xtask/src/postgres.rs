//! Private PostgreSQL server with its own directory and loopback port, removed on drop.
//!
//! Uses the server programs installed on this machine, and can install them from a system package.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Superuser of the private server.
pub const USER: &str = "satiety";
/// Password of the superuser; the server listens on loopback only and exists for the duration of a test.
pub const PASSWORD: &str = "loopback-only";

/// Server options.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// Certificate and key (PEM) for TLS.
    pub tls: Option<(&'a str, &'a str)>,
}

/// A running server.
#[derive(Debug)]
pub struct Cluster {
    directory: tempfile::TempDir,
    programs: PathBuf,
    port: u16,
    owner: Option<(u32, u32)>,
}

impl Cluster {
    /// Creates and starts a server.
    pub fn start(options: Options<'_>) -> Result<Self> {
        let programs = find_programs().context(
            "cannot find the PostgreSQL server programs initdb and pg_ctl\n\
             hint: install them (Debian: `apt-get install postgresql`), or skip these tests: `cargo xtask test --skip postgres`",
        )?;
        let directory = tempfile::Builder::new().prefix("satiety-pg-").tempdir()?;
        let owner = owner_of_servers()?;
        let cluster = Self {
            directory,
            programs,
            port: free_port()?,
            owner,
        };
        cluster.create(options)?;
        cluster.up()?;
        Ok(cluster)
    }

    /// Creates and starts a read replica of this server, which follows it by streaming.
    pub fn start_replica(&self) -> Result<Self> {
        let replica = Self {
            directory: tempfile::Builder::new().prefix("satiety-pg-").tempdir()?,
            programs: self.programs.clone(),
            port: free_port()?,
            owner: self.owner,
        };
        replica.chown_to_owner(replica.directory.path())?;
        run(replica
            .program("pg_basebackup")
            .args(["--write-recovery-conf", "--checkpoint", "fast", "--pgdata"])
            .arg(replica.data())
            .arg("--dbname")
            .arg(self.url("postgres")))?;
        let conf = replica.data().join("postgresql.auto.conf");
        let settings = fs_err::read_to_string(&conf)?;
        // The last of two values counts.
        fs_err::write(&conf, format!("{settings}port = {}\n", replica.port))?;
        replica.up()?;
        Ok(replica)
    }

    fn create(&self, options: Options<'_>) -> Result<()> {
        let password = self.directory.path().join("password");
        fs_err::write(&password, PASSWORD)?;
        self.chown_to_owner(self.directory.path())?;
        self.chown_to_owner(&password)?;
        let mut initdb = self.program("initdb");
        initdb
            .args([
                "--username",
                USER,
                "--auth",
                "scram-sha-256",
                "--encoding",
                "UTF8",
                "--locale",
                "C.UTF-8",
            ])
            .arg("--pwfile")
            .arg(&password)
            .arg("--pgdata")
            .arg(self.data());
        if self.major_version()? >= 15 {
            // A linguistic sort order, as on most servers: reveals queries that rely on byte order.
            initdb.args(["--locale-provider", "icu", "--icu-locale", "en-US"]);
        }
        run(&mut initdb)?;
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {}\nunix_socket_directories = ''\nmax_connections = 100\n",
            self.port
        );
        if let Some((certificate, key)) = options.tls {
            for (name, content) in [("server.crt", certificate), ("server.key", key)] {
                let path = self.data().join(name);
                fs_err::write(&path, content)?;
                fs_err::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                self.chown_to_owner(&path)?;
            }
            settings.push_str("ssl = on\n");
        }
        let conf = self.data().join("postgresql.auto.conf");
        fs_err::write(&conf, settings)?;
        self.chown_to_owner(&conf)
    }

    /// Starts the server and waits until it accepts connections.
    pub fn up(&self) -> Result<()> {
        let log = self.directory.path().join("log");
        let mut start = self.program("pg_ctl");
        start
            .arg("start")
            .arg("--wait")
            .arg("--pgdata")
            .arg(self.data())
            .arg("--log")
            .arg(&log);
        // The server inherits the streams of pg_ctl; a pipe would stay open while it runs.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(
            status.success(),
            "cannot start the private PostgreSQL server:\n{}",
            fs_err::read_to_string(&log).unwrap_or_default()
        );
        Ok(())
    }

    /// Stops the server immediately, as a power failure would.
    pub fn stop_immediately(&self) -> Result<()> {
        run(self
            .program("pg_ctl")
            .args(["stop", "--mode", "immediate", "--wait", "--pgdata"])
            .arg(self.data()))
    }

    /// Stops the server after its transactions have ended.
    pub fn stop(&self) -> Result<()> {
        run(self
            .program("pg_ctl")
            .args(["stop", "--mode", "fast", "--wait", "--pgdata"])
            .arg(self.data()))
    }

    /// Adds lines to the settings, which take effect when the server starts.
    pub fn configure(&self, settings: &str) -> Result<()> {
        use std::io::Write as _;
        let path = self.data().join("postgresql.auto.conf");
        let mut file = fs_err::OpenOptions::new().append(true).open(&path)?;
        writeln!(file, "{settings}")?;
        Ok(())
    }

    /// Creates a directory that the server may write to, for its archive of the log.
    pub fn create_directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs_err::create_dir(&path)?;
        self.chown_to_owner(&path)?;
        Ok(path)
    }

    /// Copies the running server with `pg_basebackup`. The copy has its own directory and port, and is not started.
    pub fn base_backup(&self) -> Result<Self> {
        let copy = Self {
            directory: tempfile::Builder::new().prefix("satiety-pg-").tempdir()?,
            programs: self.programs.clone(),
            port: free_port()?,
            owner: self.owner,
        };
        copy.chown_to_owner(copy.directory.path())?;
        run(copy
            .program("pg_basebackup")
            .args([
                "--checkpoint",
                "fast",
                "--dbname",
                &self.url("postgres"),
                "--pgdata",
            ])
            .arg(copy.data()))?;
        copy.configure(&format!("port = {}", copy.port))?;
        Ok(copy)
    }

    /// Starts a streaming replica of this server.
    pub fn replica(&self) -> Result<Self> {
        let copy = self.base_backup()?;
        copy.configure(&format!(
            "primary_conninfo = 'host=127.0.0.1 port={} user={USER} password={PASSWORD} application_name=replica'",
            self.port
        ))?;
        let signal = copy.data().join("standby.signal");
        fs_err::write(&signal, "")?;
        copy.chown_to_owner(&signal)?;
        copy.up()?;
        Ok(copy)
    }

    /// Makes the next start a recovery from the archive of the log, up to the target in the settings.
    pub fn recover_from_archive(&self, settings: &str) -> Result<()> {
        self.configure(settings)?;
        let signal = self.data().join("recovery.signal");
        fs_err::write(&signal, "")?;
        self.chown_to_owner(&signal)?;
        self.up()
    }

    /// Creates a database and returns its URL.
    pub fn create_database(&self, name: &str) -> Result<String> {
        self.sql("postgres", &format!("CREATE DATABASE \"{name}\""))?;
        Ok(self.url(name))
    }

    /// Runs SQL with `psql`, stopping at the first error, and returns its output.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.arg(self.url(database))
            .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        psql.args(["--set", "ON_ERROR_STOP=1", "--command", sql]);
        Ok(String::from_utf8_lossy(&checked(&mut psql)?.stdout)
            .trim()
            .to_owned())
    }

    /// URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path of a server program, such as `psql` or `pgbench`.
    pub fn program_path(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.directory.path());
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn chown_to_owner(&self, path: &Path) -> Result<()> {
        self.owner.map_or(Ok(()), |owner| chown(path, owner))
    }

    fn major_version(&self) -> Result<u32> {
        let output = checked(self.program("postgres").arg("--version"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let digits: String = text
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        digits
            .parse()
            .with_context(|| format!("no version in `{}`", text.trim()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may already be stopped.
        let _ = self.stop_immediately();
    }
}

/// Installs a Debian package if running as root; otherwise returns an error with the package and how to skip
/// the tests.
pub(crate) fn install_package(package: &str, without: &str) -> Result<()> {
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        bail!(
            "cannot install `{package}`: not running as root on a Debian system\n\
             hint: install the system package `{package}`, or skip these tests: `{without}`"
        );
    }
    for arguments in [
        &["update"][..],
        &["install", "--yes", "--no-install-recommends", package],
    ] {
        run(Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive"))?;
    }
    Ok(())
}

/// Installs the server from a system package, as root on a Debian-like system.
pub fn install() -> Result<()> {
    if find_programs().is_some() {
        return Ok(());
    }
    install_package("postgresql", "cargo xtask test --skip postgres")?;
    ensure!(
        find_programs().is_some(),
        "cannot find initdb and pg_ctl after installing the package `postgresql`"
    );
    Ok(())
}

/// Directory with `initdb` and `pg_ctl`: Debian keeps them out of the PATH, one directory per version.
pub fn find_programs() -> Option<PathBuf> {
    let complete = |directory: &Path| {
        ["initdb", "pg_ctl", "postgres", "psql"]
            .iter()
            .all(|name| directory.join(name).exists())
    };
    let mut versions: Vec<PathBuf> = fs_err::read_dir("/usr/lib/postgresql")
        .map(|entries| {
            entries
                .filter_map(Result::ok)
                .map(|entry| entry.path().join("bin"))
                .collect()
        })
        .unwrap_or_default();
    versions.sort();
    let in_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    versions
        .into_iter()
        .rev()
        .chain(in_path.unwrap_or_default())
        .find(|directory| complete(directory))
}

fn is_root() -> bool {
    // The owner of /proc/self is the effective user of this process.
    std::os::unix::fs::MetadataExt::uid(&match std::fs::metadata("/proc/self") {
        Ok(metadata) => metadata,
        Err(_) => return false,
    }) == 0
}

fn user_ids(name: &str) -> Result<(u32, u32)> {
    let id = |flag: &str| -> Result<u32> {
        let output = checked(Command::new("id").args([flag, name]))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
    };
    Ok((id("-u")?, id("-g")?))
}

/// User and group that servers run as: PostgreSQL and PgBouncer refuse to run as root.
pub(crate) fn owner_of_servers() -> Result<Option<(u32, u32)>> {
    if !is_root() {
        return Ok(None);
    }
    user_ids("postgres").or_else(|_| user_ids("nobody")).map(Some)
}

pub(crate) fn chown(path: &Path, (user, group): (u32, u32)) -> Result<()> {
    Ok(std::os::unix::fs::chown(path, Some(user), Some(group))?)
}

pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn run(command: &mut Command) -> Result<()> {
    checked(command).map(|_| ())
}

fn checked(command: &mut Command) -> Result<Output> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
    ensure!(
        output.status.success(),
        "{} failed:\n{}{}",
        command.get_program().to_string_lossy(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
