"""A fleet on one machine: each node is a network namespace on a bridge, with PostgreSQL, PgBouncer, servers and workers.

Used by `fleet_faults.py` and `measure_costs.py`. Needs root, iproute2, the programs of PostgreSQL and, to cut links, nftables. Every process that
is started here is ended here, by its id; every namespace and the directory are removed by `Fleet.close`.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

USER = "postgres"
DATABASE = "satiety"


class FleetError(Exception):
    """A part of the fleet cannot be built or does not start."""


def run(*command: str, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Runs a short command and returns its output as text."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.pop("timeout", 60), **options)
    if check and done.returncode != 0:
        raise FleetError(f"cannot run {' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done


def require(*programs: str) -> None:
    """Fails before anything is started if a program is missing."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing:
        raise FleetError(f"cannot find {', '.join(missing)}\nhint: install them (Debian: apt-get install iproute2 nftables util-linux curl)")


def end_on_signals() -> None:
    """Makes SIGTERM and SIGHUP end the study like Ctrl-C, so that nothing of the fleet is left."""
    def end(*_) -> None:
        raise KeyboardInterrupt("ended by a signal")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # `nohup` ignores the second one.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def postgres_programs() -> Path:
    """The directory with the programs of PostgreSQL: on the path, or that of the newest Debian package."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parts[-2]), reverse=True)
    on_path = [Path(name) for name in os.environ.get("PATH", "").split(os.pathsep) if name]
    for directory in on_path + packaged:
        if all((directory / name).exists() for name in ("initdb", "postgres", "pg_basebackup", "psql")):
            return directory
    raise FleetError("cannot find initdb and postgres\nhint: install PostgreSQL (Debian: apt-get install postgresql)")


def enter_namespace(name: str) -> None:
    """Moves the calling thread into a network namespace; its new sockets belong to it."""
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0x40000000) != 0:
            raise FleetError(f"cannot enter namespace {name}: {os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)


class Node:
    """A machine of the fleet: a namespace with one address, and the program that runs on it."""

    def __init__(self, fleet: Fleet, name: str, number: int):
        self.fleet, self.name = fleet, name
        self.address = f"{fleet.subnet}.{number}"
        self.hardware_address = f"02:00:00:00:00:{number:02x}"
        self.namespace = f"{fleet.prefix}{name}"
        self.port = f"{fleet.prefix}p{number}"
        self.command: list[str] = []
        self.environment: dict[str, str] = {}
        self.user: str | None = None
        self.stop_signal = signal.SIGTERM
        self.process: subprocess.Popen | None = None
        self.log = fleet.directory / f"{name}.log"
        self.wanted = False
        self.lock = threading.Lock()

    def create(self) -> None:
        """Makes the namespace and connects it to the bridge."""
        hub = self.fleet.hub
        run("ip", "netns", "add", self.namespace)
        # A machine keeps its hardware address when its power fails: its peers need not resolve it again.
        run("ip", "link", "add", "eth0", "address", self.hardware_address, "netns", self.namespace, "type", "veth", "peer", "name", self.port,
            "netns", hub)
        self.inside("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        self.inside("ip", "link", "set", "lo", "up")
        self.inside("ip", "link", "set", "eth0", "up")
        run("ip", "-n", hub, "link", "set", self.port, "master", "bridge0", "up")

    def inside(self, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Runs a command in the namespace."""
        return run("ip", "netns", "exec", self.namespace, *command, check=check)

    def start(self) -> None:
        """Starts the program of this node in its namespace, as the node's user."""
        entry = ["ip", "netns", "exec", self.namespace]
        if self.user:
            entry += ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", "--"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                entry + self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.fleet.directory,
                env=dict(os.environ, **self.environment), start_new_session=True,
            )

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def pids(self) -> list[int]:
        """All processes of the namespace; all of them descend from the node's program."""
        found = run("ip", "netns", "pids", self.namespace, check=False).stdout
        return [int(pid) for pid in found.split()]

    def signal_all(self, number: int) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self) -> None:
        """SIGKILL to every process of the node."""
        deadline = time.monotonic() + 20
        while self.pids():
            self.signal_all(signal.SIGKILL)
            if time.monotonic() > deadline:
                raise FleetError(f"cannot kill the processes of {self.name}")
            time.sleep(0.02)
        if self.process:
            self.process.wait()

    def stop(self, timeout: float = 30) -> None:
        """Graceful shutdown; SIGKILL after the timeout."""
        if self.process and self.is_running():
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def lose_power(self) -> None:
        """Ends the node without a packet: peers keep their half of each connection. The node is made again, empty."""
        run("ip", "-n", self.fleet.hub, "link", "set", self.port, "down")
        self.kill()
        # The interfaces would stay as long as sockets without a process keep the namespace.
        run("ip", "-n", self.fleet.hub, "link", "del", self.port)
        run("ip", "netns", "del", self.namespace)
        self.create()

    def cut(self, other: Node) -> None:
        """Drops all packets between two nodes silently, in both directions."""
        self.drop_packets_of(other)
        other.drop_packets_of(self)

    def drop_packets_of(self, other: Node) -> None:
        # Adding a table or a chain that exists changes nothing.
        self.inside("nft", "add", "table", "inet", "faults")
        self.inside("nft", "add", "chain", "inet", "faults", "input", "{ type filter hook input priority 0; }")
        self.inside("nft", "add", "rule", "inet", "faults", "input", "ip", "saddr", other.address, "drop")

    def heal(self) -> None:
        """Accepts all packets again."""
        self.inside("nft", "flush", "chain", "inet", "faults", "input", check=False)


class Fleet:
    """Namespaces, processes and files of one study."""

    def __init__(self, binary: str, subnet: str = "10.203.7"):
        if os.geteuid() != 0:
            raise FleetError("cannot create network namespaces: run as root")
        require("ip", "setpriv")
        self.binary, self.subnet = str(Path(binary).resolve()), subnet
        if not os.access(self.binary, os.X_OK):
            raise FleetError(f"cannot find the program {self.binary}\nhint: cargo build --release -p satiety-cli")
        self.programs = postgres_programs()
        self.prefix = f"sf{os.getpid() % 10000}"
        self.hub = f"{self.prefix}hub"
        self.directory = Path(tempfile.mkdtemp(prefix="satiety-fleet-"))
        self.directory.chmod(0o755)
        self.nodes: dict[str, Node] = {}
        try:
            run("ip", "netns", "add", self.hub)
            run("ip", "-n", self.hub, "link", "add", "bridge0", "type", "bridge")
            run("ip", "-n", self.hub, "link", "set", "bridge0", "up")
        except BaseException:
            self.close()
            raise

    def add(self, name: str) -> Node:
        node = Node(self, name, len(self.nodes) + 10)
        self.nodes[name] = node
        node.create()
        return node

    def owned_directory(self, name: str) -> Path:
        """A directory that belongs to the user of PostgreSQL."""
        path = self.directory / name
        path.mkdir(mode=0o700)
        owner = pwd.getpwnam(USER)
        os.chown(path, owner.pw_uid, owner.pw_gid)
        return path

    def as_postgres(self, *command: str, node: Node | None = None, timeout: float = 120) -> str:
        entry = ["ip", "netns", "exec", node.namespace] if node else []
        entry += ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"]
        return run(*entry, *command, timeout=timeout, cwd=self.directory).stdout

    def add_primary(self, settings: str = "") -> Node:
        """PostgreSQL with default settings, reachable from the subnet and through a socket that no fault affects."""
        node = self.add("pg")
        data, self.socket = self.owned_directory("pg-data"), self.owned_directory("pg-socket")
        self.as_postgres(str(self.programs / "initdb"), "-D", str(data), "-A", "trust", "-N", "--locale=C.UTF-8", "-E", "UTF8")
        with (data / "pg_hba.conf").open("a") as access:
            access.write(f"host all all {self.subnet}.0/24 trust\nhost replication all {self.subnet}.0/24 trust\n")
        with (data / "postgresql.conf").open("a") as config:
            config.write(f"listen_addresses = '*'\nunix_socket_directories = '{self.socket}'\n{settings}\n")
        node.user, node.stop_signal = USER, signal.SIGINT
        node.command = [str(self.programs / "postgres"), "-D", str(data)]
        node.start()
        self.wait_for("PostgreSQL", lambda: self.query("SELECT 1", "postgres") == [["1"]])
        self.query(f"CREATE DATABASE {DATABASE}", "postgres")
        return node

    def add_replica(self, primary: Node) -> Node:
        """A streaming replica of the primary."""
        node = self.add("replica")
        data, socket = self.owned_directory("replica-data"), self.owned_directory("replica-socket")
        self.as_postgres(
            str(self.programs / "pg_basebackup"), "-h", primary.address, "-D", str(data), "-R", "-X", "stream", "-c", "fast", node=node)
        with (data / "postgresql.conf").open("a") as config:
            config.write(f"unix_socket_directories = '{socket}'\nhot_standby = on\n")
        node.user, node.stop_signal = USER, signal.SIGINT
        node.command = [str(self.programs / "postgres"), "-D", str(data)]
        node.start()
        self.wait_for("the replica", lambda: self.query("SELECT 1", "postgres", socket) == [["1"]])
        self.replica_socket = socket
        return node

    def add_bouncer(self, primary: Node, pool: int = 20) -> Node:
        """PgBouncer in transaction mode in front of the primary."""
        program = shutil.which("pgbouncer")
        if not program:
            raise FleetError("cannot find pgbouncer\nhint: install it (Debian: apt-get install pgbouncer), or omit --pgbouncer")
        node = self.add("bouncer")
        home = self.owned_directory("bouncer")
        (home / "pgbouncer.ini").write_text(
            f"[databases]\n* = host={primary.address} port=5432\n[pgbouncer]\nlisten_addr = {node.address}\nlisten_port = 6432\n"
            f"auth_type = trust\nauth_file = {home}/users\npool_mode = transaction\ndefault_pool_size = {pool}\nmax_client_conn = 500\n"
            f"unix_socket_dir =\nignore_startup_parameters = extra_float_digits\nserver_login_retry = 1\n")
        (home / "users").write_text(f'"{USER}" ""\n')
        node.user, node.stop_signal = USER, signal.SIGINT
        node.command = [program, str(home / "pgbouncer.ini")]
        node.start()
        return node

    def query(self, sql: str, database: str = DATABASE, socket: Path | None = None, timeout: float = 20) -> list[list[str]] | None:
        """Rows of a query through the local socket; `None` if the server does not answer."""
        host = str(socket or self.socket)
        try:
            text = self.as_postgres(
                str(self.programs / "psql"), "-h", host, "-d", database, "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", sql, timeout=timeout)
        except (FleetError, subprocess.TimeoutExpired):
            return None
        return [line.split("\t") for line in text.splitlines()]

    def wait_for(self, what: str, condition, timeout: float = 60, pause: float = 0.1) -> float:
        """Waits until the condition is true and returns the seconds that took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout:
                raise FleetError(f"{what} is not ready after {timeout:.0f} s; see the log files in {self.directory}")
            time.sleep(pause)
        return time.monotonic() - began

    def close(self, keep_logs: bool = False) -> None:
        """Ends all processes by id, removes the namespaces and, unless asked to keep it, the directory."""
        for node in self.nodes.values():
            try:
                node.signal_all(signal.SIGCONT)
                node.kill()
                run("ip", "netns", "del", node.namespace, check=False)
            except (FleetError, OSError, subprocess.SubprocessError) as error:
                # The other nodes must still be ended.
                print(f"cannot remove {node.namespace}: {error}", file=sys.stderr, flush=True)
        run("ip", "netns", "del", self.hub, check=False)
        if not keep_logs:
            shutil.rmtree(self.directory, ignore_errors=True)
