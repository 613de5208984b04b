//! PgBouncer in transaction mode in front of a private PostgreSQL server, for tests of connection pooling.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::postgres::{PASSWORD, USER, chown, free_port, install_package, owner_of_servers};

/// A running pooler; it stops on drop.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Pooler {
    /// Starts PgBouncer with few server connections for the server on a loopback port; `None` if it is not
    /// installed.
    pub fn start(server_port: u16) -> Result<Option<Self>> {
        let Some(program) = find_program() else {
            return Ok(None);
        };
        let directory = tempfile::Builder::new().prefix("satiety-pgbouncer-").tempdir()?;
        let port = free_port()?;
        let settings = directory.path().join("pgbouncer.ini");
        // Few server connections, so that clients share them all the time.
        fs_err::write(
            &settings,
            format!(
                "[databases]\n* = host=127.0.0.1 port={server_port} user={USER} password={PASSWORD}\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n\
                 pool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 500\nmax_db_connections = 4\n\
                 server_idle_timeout = 5\n\
                 ignore_startup_parameters = extra_float_digits\nlogfile = {}\n",
                directory.path().join("log").display()
            ),
        )?;
        let mut command = Command::new(program);
        if let Some((user, group)) = owner_of_servers()? {
            for path in [directory.path(), &settings] {
                chown(path, (user, group))?;
            }
            command.uid(user).gid(group);
        }
        let child = command
            .arg(&settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start pgbouncer")?;
        let pooler = Self {
            child,
            port,
            _directory: directory,
        };
        let until = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(
                Instant::now() < until,
                "cannot start pgbouncer: it does not listen after 10 seconds"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(pooler))
    }

    /// URL of a database through the pooler.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Installs PgBouncer from a system package, as root on a Debian-like system.
pub fn install() -> Result<()> {
    if find_program().is_some() {
        return Ok(());
    }
    install_package("pgbouncer", "cargo xtask test --skip postgres")
}

fn find_program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory: PathBuf| directory.join("pgbouncer"))
        .find(|program| program.is_file())
}
