#!/usr/bin/env python3
"""Faults in a fleet: 3 servers and 8 workers on one PostgreSQL, in network namespaces, while machines and links fail.

A seeded generator kills, restarts, pauses and powers off nodes and cuts the network between any two, for `--seconds`. Meanwhile clients
save memories and rounds of conversations over HTTP and start distributed benchmark runs. After each round of faults everything is healed
and the recovery is timed; at the end the study checks:

  every case of every acknowledged run has exactly one result; no acknowledged write is lost; no lease is stuck;
  each recovery took at most the lease time; no answer was an internal error.

It prints one line per round and a table, and exits with 1 if a check fails.

    sudo python3 studies/fleet_faults.py --binary target/release/satiety --seconds 600 --pgbouncer --replica
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from fleet import DATABASE, USER, Fleet, FleetError, Node, end_on_signals, enter_namespace, require, run

AGENT = """import json, sys, time
while line := sys.stdin.readline():
    request = json.loads(line)
    time.sleep(TARGET_SECONDS)
    print(json.dumps({"output": request["input"]["goal"]}), flush=True)
"""
KINDS = ("kill", "restart", "cut", "pause", "power")
SLOW_ANSWER = 8.0
"""Seconds after which a client gives up on a request."""


def call(server: Node, token: str, path: str, body: object | None = None, key: str | None = None) -> tuple[int, dict]:
    """One HTTP request; status 0 if no complete answer arrived."""
    connection = http.client.HTTPConnection(server.address, 8787, timeout=SLOW_ANSWER)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = key
        connection.request("POST" if body is not None else "GET", path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, {}
    except (OSError, http.client.HTTPException):
        return 0, {}
    finally:
        connection.close()


class Load:
    """Clients in their own namespace: they write, start runs, and remember what was acknowledged."""

    def __init__(self, study: Study):
        self.study = study
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.memories: set[str] = set()
        self.claims: set[str] = set()
        self.runs: list[str] = []
        self.statuses: dict[int, int] = {}
        self.acknowledged_at: dict[str, float] = {}
        self.threads = [threading.Thread(target=self.guard, args=(work, *arguments)) for work, *arguments in (
            (self.save_memories, 0), (self.save_memories, 1), (self.hold_conversations, 2), (self.start_runs,),
            *((self.probe, server) for server in study.servers))]

    def guard(self, work, *arguments) -> None:
        try:
            enter_namespace(self.study.client.namespace)
            work(*arguments)
        except Exception:  # A client that ends early would hide lost writes.
            self.study.violations.append(f"client failed: {traceback.format_exc()}")

    def post(self, server: Node, path: str, body: object, key: str | None = None) -> dict | None:
        status, answer = call(server, self.study.token, path, body, key)
        with self.lock:
            self.statuses[status] = self.statuses.get(status, 0) + 1
        if status not in (200, 201, 202):
            self.stop.wait(0.2)
            return None
        return answer

    def save_memories(self, number: int) -> None:
        chance, count = random.Random(number), 0
        while not self.stop.is_set():
            count += 1
            words = " ".join(f"{chance.getrandbits(32):x}" for _ in range(12))
            server = chance.choice(self.study.servers)
            answer = self.post(server, "/v1/memories", {"title": f"Record {number}-{count}", "content": f"Record {words}."})
            if answer:
                with self.lock:
                    self.memories.add(answer["memory"]["id"])
            self.stop.wait(0.05)

    def hold_conversations(self, number: int) -> None:
        """Each round goes to any server, and has a claim by which it is found again."""
        chance, count = random.Random(number), 0
        while not self.stop.is_set():
            count += 1
            name = f"faults-{count}"
            while not self.post(chance.choice(self.study.servers), "/v1/conversations", {"conversation_id": name}, f"{name}-0"):
                if self.stop.is_set():
                    return
                # The first attempt may have been stored without an answer.
                if call(chance.choice(self.study.servers), self.study.token, f"/v1/conversations/{name}")[0] == 200:
                    break
            for index in range(1, 6):
                claim = f"{chance.getrandbits(64):016x}"
                body = {"rounds": [{"round": index, "agent": "a", "outputs": {"claims": [f"Claim {claim} holds."]}}]}
                if self.post(chance.choice(self.study.servers), f"/v1/conversations/{name}/rounds", body, f"{name}-{index}"):
                    with self.lock:
                        self.claims.add(claim)
                self.stop.wait(0.05)

    def start_runs(self) -> None:
        """Keeps the queue of cases filled."""
        chance, seed = random.Random(3), 0
        while not self.stop.is_set():
            waiting = self.study.fleet.query("SELECT count(*) FROM bench_work")
            if waiting is None or int(waiting[0][0]) >= self.study.options.cases:
                self.stop.wait(0.5)
                continue
            seed += 1
            answer = self.post(chance.choice(self.study.servers), "/v1/bench/runs", {"suite": "suite", "distributed": True, "seed": seed})
            if answer:
                with self.lock:
                    self.runs.append(answer["run_id"])

    def probe(self, server: Node) -> None:
        """Notes when each server last acknowledged a write."""
        count = 0
        while not self.stop.is_set():
            count += 1
            began = time.monotonic()
            if self.post(server, "/v1/conversations", {"conversation_id": f"probe-{server.name}-{count}"}):
                self.acknowledged_at[server.name] = began
            self.stop.wait(0.25)


class Study:
    """The fleet, the load on it, and the faults."""

    def __init__(self, options: argparse.Namespace):
        self.options, self.violations, self.recoveries, self.restarts = options, [], [], {}
        self.fleet = fleet = Fleet(options.binary)
        try:
            self.build(fleet)
        except BaseException:
            fleet.close(keep_logs=options.keep_logs)
            raise

    def build(self, fleet: Fleet) -> None:
        options = self.options
        suite = fleet.directory / "repo" / "suite"
        suite.mkdir(parents=True)
        cases = [{"case_id": f"q{n:04}", "input": {"goal": f"answer {n}"}, "expected": {"mode": "exact", "value": f"answer {n}"}}
                 for n in range(options.cases)]
        (suite / "suite.json").write_text(json.dumps({"suite_id": "faults", "target": "agent", "cases": cases}))
        (suite / "agent.py").write_text(AGENT.replace("TARGET_SECONDS", str(options.target_seconds)))
        (suite / "target.toml").write_text("type = 'worker'\ncommand = 'python3'\nargs = ['-S', '{{base}}/agent.py']\nworkers = 1\n")
        # A replica that was away must find the WAL that it missed, also after a checkpoint.
        primary = fleet.add_primary("wal_keep_size = '1GB'" if options.replica else "")
        self.infrastructure = [primary]
        address = f"{primary.address}:5432"
        if options.replica:
            self.infrastructure.append(fleet.add_replica(primary))
        if options.pgbouncer:
            bouncer = fleet.add_bouncer(primary)
            self.infrastructure.append(bouncer)
            address = f"{bouncer.address}:6432"
        self.client = fleet.add("client")
        home = fleet.directory / "home"
        home.mkdir()
        environment = {
            "SATIETY_STORE_URL": f"postgres://{USER}@{address}/{DATABASE}", "SATIETY_MODELS_EMBEDDER": "none", "HOME": str(home),
            "TMPDIR": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "SATIETY_LOG_LEVEL": "info",
        }
        if options.replica and options.read_url:
            environment["SATIETY_STORE_READ_URL"] = f"postgres://{USER}@{fleet.nodes['replica'].address}:5432/{DATABASE}"
        command = ["ip", "netns", "exec", self.client.namespace, fleet.binary]
        if options.pgbouncer:
            fleet.wait_for("PgBouncer", lambda: run(*command, "db", "migrate", check=False, env=environment).returncode == 0)
        else:
            run(*command, "db", "migrate", env=environment, timeout=120)
        made = run(*command, "token", "create", "study", "--scope", "admin", "--format", "json", env=environment)
        self.token = json.loads(made.stdout)["token"]
        self.servers, self.workers = [], []
        for number in range(1, options.servers + 1):
            node = fleet.add(f"s{number}")
            node.command = [fleet.binary, "serve", "--listen", f"{node.address}:8787", "--without-tls", "--root", str(suite.parent),
                            "--rate", "0", "--jobs", "8"]
            self.servers.append(node)
        for number in range(1, options.workers + 1):
            node = fleet.add(f"w{number}")
            node.command = [fleet.binary, "worker", "--root", str(suite.parent), "-j", "1", "--lease", str(options.lease), "--name", node.name]
            self.workers.append(node)
        for node in self.servers + self.workers:
            node.environment = environment
            start(node)
        for node in self.infrastructure:
            node.wanted = True

    def results(self) -> int | None:
        found = self.fleet.query("SELECT count(*) FROM bench_results")
        return int(found[0][0]) if found else None

    def active_workers(self, since: float) -> set[str]:
        """Workers that took or renewed a lease after a moment; PostgreSQL reads the same clock."""
        limit = int((since + self.options.lease) * 1e6)
        rows = self.fleet.query(f"SELECT DISTINCT worker FROM bench_work WHERE holder IS NOT NULL AND lease_until > {limit}")
        return {row[0] for row in rows or []}

    def wait_until_recovered(self, what: str) -> None:
        """Times the recovery from the moment when everything is healed."""
        began, healed, limit = time.monotonic(), time.time(), 6 * self.options.lease
        before, seen, progress, missing = self.results(), set(), False, set()
        while True:
            now = self.results()
            before = now if before is None else before
            progress |= now is not None and before is not None and now > before
            seen |= self.active_workers(healed)
            missing = {server.name for server in self.servers if self.load.acknowledged_at.get(server.name, 0) < began}
            missing |= {worker.name for worker in self.workers} - seen
            took = time.monotonic() - began
            if (progress and not missing) or took > limit:
                break
            time.sleep(0.1)
        self.recoveries.append((took, what))
        late = took > self.options.lease
        if late:
            waited = f"; still missing: {', '.join(sorted(missing)) or 'a result'}" if took > limit else ""
            self.violations.append(f"recovery of {took:.1f} s > {self.options.lease} s after {what}{waited}")
        print(f"{self.elapsed():7.1f} s  {what:<58} recovered in {took:5.1f} s{'  LATE' if late else ''}", flush=True)

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def links(self) -> list[tuple[Node, Node]]:
        """Pairs of nodes that talk to each other: another cut would test nothing."""
        primary, entry = self.infrastructure[0], self.infrastructure[-1] if self.options.pgbouncer else self.infrastructure[0]
        pairs = [(server, self.client) for server in self.servers] + [(node, entry) for node in self.servers + self.workers]
        pairs += [(other, primary) for other in self.infrastructure[1:]]
        if self.options.read_url:
            pairs += [(server, self.fleet.nodes["replica"]) for server in self.servers]
        return pairs

    def inject(self, chance: random.Random) -> tuple[str, list]:
        """One fault; returns its description and what heals it."""
        nodes = self.all_nodes()
        kind, node = chance.choice(self.options.kinds), chance.choice(nodes)
        if kind == "cut":
            node, other = chance.choice(self.links())
            node.cut(other)
            return f"cut {node.name}-{other.name}", [node.heal, other.heal]
        if kind == "pause":
            node.signal_all(signal.SIGSTOP)
            return f"pause {node.name}", [lambda: node.signal_all(signal.SIGCONT)]
        with node.lock:
            node.wanted = False
        {"kill": node.kill, "restart": node.stop, "power": node.lose_power}[kind]()
        return f"{kind} {node.name}", [lambda: start(node)]

    def supervise(self) -> None:
        """Restarts programs that ended by themselves, as systemd and Kubernetes do: a worker ends if its database is unreachable at its
        start, and PostgreSQL refuses to start while old children hold its memory."""
        while not self.load.stop.wait(1):
            for node in self.all_nodes():
                with node.lock:
                    if node.wanted and not node.is_running():
                        self.restarts[node.name] = self.restarts.get(node.name, 0) + 1
                        node.start()

    def all_nodes(self) -> list[Node]:
        return self.infrastructure + self.servers + self.workers

    def run(self) -> None:
        options, chance = self.options, random.Random(self.options.seed)
        self.began = time.monotonic()
        self.load = Load(self)
        self.load.threads.append(threading.Thread(target=self.supervise))
        for thread in self.load.threads:
            thread.start()
        try:
            self.wait_until_recovered("start")
            # The time that the fleet needs to start is not a recovery.
            self.violations = [text for text in self.violations if not text.startswith("recovery")]
            self.recoveries.clear()
            while self.elapsed() < options.seconds:
                faults = [self.inject(chance) for _ in range(chance.choice((1, 1, 2, 3)))]
                time.sleep(options.hold or chance.uniform(0.5, 1.5 * options.lease))
                for _, remedies in faults:
                    for heal in remedies:
                        heal()
                self.wait_until_recovered(" + ".join(name for name, _ in faults))
                time.sleep(chance.uniform(0, 2))
        finally:
            self.load.stop.set()
            for thread in self.load.threads:
                thread.join()
        for node in self.all_nodes():
            if not node.is_running():
                self.violations.append(f"{node.name} is not running at the end: {last_line(node.log)}")
        self.drain()

    def drain(self) -> None:
        """No new work: the queue has to become empty and all runs complete."""
        limit = 4 * self.options.lease + self.options.cases * 4
        began = time.monotonic()
        while time.monotonic() - began < limit:
            left = self.fleet.query("SELECT count(*) FROM bench_work")
            open_runs = self.fleet.query("SELECT count(*) FROM bench_runs WHERE completed_at IS NULL")
            if left == [["0"]] and open_runs == [["0"]]:
                return
            time.sleep(0.5)
        self.violations.append(f"stuck: {left} cases and {open_runs} runs are open {limit:.0f} s after the last fault")
        for row in self.fleet.query("SELECT run_id, case_id, takes, worker, lease_until FROM bench_work LIMIT 5") or []:
            self.violations.append(f"  open case {row}")

    def check(self) -> list[tuple[str, str]]:
        """Compares the database with what clients were told."""
        fleet, load, cases = self.fleet, self.load, self.options.cases
        rows = fleet.query("SELECT r.run_id, count(b.case_id), count(DISTINCT b.case_id), count(*) FILTER (WHERE b.status = 'pass'), "
                           "max(CASE WHEN r.completed_at IS NULL THEN 1 ELSE 0 END) FROM bench_runs r LEFT JOIN bench_results b "
                           "USING (run_id) GROUP BY 1") or []
        runs = {row[0]: [int(value) for value in row[1:]] for row in rows}
        for run_id in load.runs:
            if run_id not in runs:
                self.violations.append(f"acknowledged run {run_id} is lost")
        for run_id, (results, distinct, _, is_open) in runs.items():
            if (results, distinct, is_open) != (cases, cases, 0):
                self.violations.append(f"run {run_id}: {results} results, {distinct} cases of {cases}, {'open' if is_open else 'complete'}")
        stored = {row[0] for row in fleet.query("SELECT memory_id FROM memories", timeout=60) or []}
        lost = load.memories - stored
        if lost:
            self.violations.append(f"{len(lost)} acknowledged memories are lost, such as {min(lost)}")
        found = fleet.query("SELECT substring(body FROM 'Claim ([0-9a-f]{16}) holds') FROM rounds", timeout=60) or []
        missing = load.claims - {row[0] for row in found}
        if missing:
            self.violations.append(f"{len(missing)} acknowledged rounds are lost, such as the one with claim {min(missing)}")
        if load.statuses.get(500):
            self.violations.append(f"{load.statuses[500]} answers with status 500; a database that is away is 503")
        held = fleet.query("SELECT count(*) FROM bench_work WHERE holder IS NOT NULL")
        if held != [["0"]]:
            self.violations.append(f"stuck leases: {held}")
        if self.options.replica:
            self.check_replica()
        total, passed = sum(run[0] for run in runs.values()), sum(run[2] for run in runs.values())
        times = sorted(took for took, _ in self.recoveries)
        return [
            ("rounds of faults", f"{len(times)}"),
            ("runs acknowledged, stored", f"{len(load.runs)}, {len(runs)}"),
            ("results, of which pass", f"{total}, {passed}"),
            ("memories acknowledged, lost", f"{len(load.memories)}, {len(lost)}"),
            ("rounds acknowledged, lost", f"{len(load.claims)}, {len(missing)}"),
            ("answers by status (0: none)", ", ".join(f"{status}: {count}" for status, count in sorted(load.statuses.items()))),
            ("restarts by the supervisor", ", ".join(f"{name}: {count}" for name, count in sorted(self.restarts.items())) or "0"),
            ("leases held at the end", held[0][0] if held else "unknown"),
            ("recovery median, maximum", f"{times[len(times) // 2]:.1f} s, {times[-1]:.1f} s (lease {self.options.lease} s)" if times else "-"),
        ]

    def check_replica(self) -> None:
        target = self.fleet.query("SELECT pg_current_wal_lsn()")
        caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{target[0][0]}'"
        try:
            self.fleet.wait_for("replay", lambda: self.fleet.query(caught_up, socket=self.fleet.replica_socket) == [["t"]], self.options.lease)
        except FleetError:
            self.violations.append(f"the replica did not reach {target[0][0]} within {self.options.lease} s")


def start(node: Node) -> None:
    """Starts a program, unless it runs: two faults of a round may hit one node."""
    with node.lock:
        node.wanted = True
        if not node.is_running():
            node.start()


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "no output"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/satiety", help="program under test [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=600, help="duration of the faults [default: %(default)s]")
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults [default: %(default)s]")
    parser.add_argument("--servers", type=int, default=3, help="number of servers [default: %(default)s]")
    parser.add_argument("--workers", type=int, default=8, help="number of workers [default: %(default)s]")
    parser.add_argument("--lease", type=int, default=30, help="lease in seconds, and limit of a recovery [default: %(default)s]")
    parser.add_argument("--cases", type=int, default=200, help="cases of a run [default: %(default)s]")
    parser.add_argument("--target-seconds", type=float, default=0.1, help="duration of a case [default: %(default)s]")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help="faults [default: all of " + ",".join(KINDS) + "]")
    parser.add_argument("--hold", type=float, default=0, help="seconds that each fault lasts [default: up to 1.5 leases]")
    parser.add_argument("--pgbouncer", action="store_true", help="connect through PgBouncer in transaction mode")
    parser.add_argument("--replica", action="store_true", help="add a streaming replica")
    parser.add_argument("--read-url", action="store_true", help="with --replica: servers read from it (store.read_url)")
    parser.add_argument("--keep-logs", action="store_true", help="keep the directory with the log files")
    options = parser.parse_args()
    unknown = set(options.kinds) - set(KINDS)
    if unknown:
        parser.error(f"unknown kinds: {', '.join(sorted(unknown))} (expected some of: {', '.join(KINDS)})")
    if options.read_url and not options.replica:
        parser.error("--read-url needs --replica")
    end_on_signals()
    if "cut" in options.kinds:
        require("nft")
    if options.pgbouncer:
        require("pgbouncer")
    study = Study(options)
    try:
        study.run()
        table = study.check()
    finally:
        if options.keep_logs:
            print(f"log files: {study.fleet.directory}")
        study.fleet.close(keep_logs=options.keep_logs)
    print()
    for label, value in table:
        print(f"{label:<32}{value}")
    for violation in study.violations:
        print(f"VIOLATION  {violation}")
    print("all checks passed" if not study.violations else f"{len(study.violations)} violations")
    return 1 if study.violations else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FleetError, KeyboardInterrupt) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
