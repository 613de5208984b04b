#!/usr/bin/env python3
"""Measures what each operation costs: processor time of server, worker and PostgreSQL, WAL, flushes, disk, and throughput.

A private PostgreSQL with default settings, one server and one worker run in network namespaces; client processes call the server in a
closed loop, with 1, 2, 4 and 8 of them. Processor times are those of /proc/PID/stat, WAL is the difference of pg_current_wal_lsn(), flushes
and their duration are those of pg_stat_wal. The result is the input of `capacity.py`.

    sudo python3 studies/measure_costs.py --binary target/release/satiety --output costs.json
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import random
import resource
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from fleet import DATABASE, USER, Fleet, FleetError, Node, end_on_signals, enter_namespace, require, run

TICKS = os.sysconf("SC_CLK_TCK")
WORDS = ("queue", "index", "timeout", "retry", "schema", "tenant", "budget", "memory", "signal", "round", "latency", "writer", "replica", "lease",
         "token", "search", "cursor", "batch", "worker", "commit", "snapshot", "planner", "vector", "cache", "shard", "stream", "gate", "probe")


def sentence(chance: random.Random, words: int = 12) -> str:
    return " ".join(chance.choice(WORDS) for _ in range(words)) + f" {chance.getrandbits(24):x}."


class Operations:
    """Requests of one client: `next_request(name)` returns path and body."""

    def __init__(self, client: int, transcript: dict):
        self.chance, self.client, self.count, self.transcript = random.Random(client), client, 0, transcript

    def next_request(self, name: str) -> tuple[str, dict]:
        self.count += 1
        chance, group = self.chance, f"{name}-{self.client}-{self.count // 10}"
        match name:
            case "score a conversation":
                return "/v1/score", {"conversation": self.transcript}
            case "append a round":
                body = {"round": self.count % 10 + 1, "agent": "ada", "outputs": {"claims": [sentence(chance), sentence(chance)]}}
                if self.count % 10 == 0 or self.count == 1:
                    return "/v1/conversations", {"conversation_id": group.replace(" ", "-"), "rounds": [body]}
                return f"/v1/conversations/{group.replace(' ', '-')}/rounds", {"rounds": [body]}
            case "progress message":
                call = {"id": str(self.count), "type": "function", "function": {"name": "search", "arguments": json.dumps({"q": sentence(chance, 4)})}}
                messages = [{"role": "assistant", "tool_calls": [call]},
                            {"role": "tool", "tool_call_id": str(self.count), "content": sentence(chance, 30)}]
                return f"/v1/conversations/{group.replace(' ', '-')}/messages", {"messages": messages}
            case "save a memory":
                return "/v1/memories", {"title": sentence(chance, 5), "content": sentence(chance, 40), "on_duplicate": "keep"}
            case "search memories":
                return "/v1/memory/search", {"query": sentence(chance, 5), "limit": 10, "session": f"s{self.client}"}
        raise FleetError(f"unknown operation {name}")


REQUESTS = ("score a conversation", "append a round", "progress message", "save a memory", "search memories")
RESULT = "bench result"


def cpu_seconds(node: Node) -> float:
    """Processor time of all processes of a node, with that of children that have ended."""
    total = 0
    for pid in node.pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += sum(int(value) for value in fields[11:15])
    return total / TICKS


class Meter:
    """Differences of the counters between two moments."""

    def __init__(self, study: Study):
        self.study = study
        self.before = self.read()

    def read(self) -> dict[str, float]:
        fleet = self.study.fleet
        # Counters of PostgreSQL become visible within a second.
        time.sleep(1.2)
        row = fleet.query("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0'), wal_sync, wal_sync_time, wal_fpi, "
                          "(SELECT sum(xact_commit) FROM pg_stat_database), pg_database_size(current_database()) FROM pg_stat_wal")[0]
        client = resource.getrusage(resource.RUSAGE_CHILDREN)
        values = dict(zip(("wal", "syncs", "sync_ms", "full_pages", "commits", "disk"), (float(value) for value in row)))
        return values | {"server": cpu_seconds(self.study.server), "worker": cpu_seconds(self.study.worker), "postgres": cpu_seconds(self.study.primary),
                         "client": client.ru_utime + client.ru_stime}

    def per_operation(self, count: int) -> dict[str, float]:
        after = self.read()
        change = {name: after[name] - self.before[name] for name in after}
        costs = {f"{name}_ms": 1000 * change[name] / count for name in ("server", "worker", "postgres")}
        return costs | {
            "wal_bytes": change["wal"] / count, "disk_bytes": max(0.0, change["disk"]) / count, "syncs": change["syncs"] / count,
            "sync_ms": change["sync_ms"] / change["syncs"] if change["syncs"] else 0.0, "commits": change["commits"] / count,
        }


class Study:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.fleet = fleet = Fleet(options.binary, subnet="10.203.8")
        try:
            self.build(fleet)
        except BaseException:
            fleet.close(keep_logs=options.keep_logs)
            raise

    def build(self, fleet: Fleet) -> None:
        self.primary = fleet.add_primary("track_wal_io_timing = on")
        self.client, self.server, self.worker = fleet.add("client"), fleet.add("server"), fleet.add("worker")
        home, suite = fleet.directory / "home", fleet.directory / "repo" / "suite"
        home.mkdir()
        suite.mkdir(parents=True)
        cases = [{"case_id": f"q{n:05}", "input": {"goal": f"answer {n}"}, "expected": {"mode": "contains", "value": "answer"}}
                 for n in range(self.options.cases)]
        (suite / "suite.json").write_text(json.dumps({"suite_id": "costs", "target": "agent", "cases": cases}))
        (suite / "target.toml").write_text("type = 'echo'\n")
        self.environment = {
            "SATIETY_STORE_URL": f"postgres://{USER}@{self.primary.address}:5432/{DATABASE}", "HOME": str(home), "TMPDIR": str(home),
            "PATH": "/usr/local/bin:/usr/bin:/bin", "SATIETY_SERVER_CALLER_COST": "0", "SATIETY_SERVER_REQUEST_COST": "0",
        }
        if self.options.embedder:
            self.environment["SATIETY_MODELS_EMBEDDER"] = self.options.embedder
        inside = ["ip", "netns", "exec", self.client.namespace, fleet.binary]
        run(*inside, "db", "migrate", env=self.environment, timeout=120)
        made = run(*inside, "token", "create", "study", "--scope", "admin", "--format", "json", env=self.environment)
        self.token = json.loads(made.stdout)["token"]
        self.server.command = [fleet.binary, "serve", "--listen", f"{self.server.address}:8787", "--without-tls", "--rate", "0",
                               "--root", str(suite.parent)]
        self.worker.command = []
        self.server.environment = self.worker.environment = self.environment
        self.server.start()
        fleet.wait_for("the server", lambda: run("ip", "netns", "exec", self.client.namespace, "curl", "-s", "-f", "-m", "5",
                                                 f"http://{self.server.address}:8787/readyz", check=False).returncode == 0)
        self.transcript = json.loads(Path(self.options.transcript).read_text())

    def closed_loop(self, name: str, clients: int, seconds: float) -> tuple[int, list[float]]:
        """Calls the server from processes of their own; returns the number of answers and their times in ms."""
        pipes, children = [], []
        began = time.monotonic()
        for client in range(clients):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.close(reader)
                    # Unique names over all measurements.
                    times = self.one_client(name, client + 100 * clients + int(1e6 * (time.time() % 1000)) * 1000, seconds)
                    with os.fdopen(writer, "w") as out:
                        json.dump(times, out)
                    status = 0
                except BaseException as error:
                    print(f"client failed: {error!r}", file=sys.stderr, flush=True)
                finally:
                    os._exit(status)
            os.close(writer)
            pipes.append(reader)
            children.append(child)
        times: list[float] = []
        for reader in pipes:
            with os.fdopen(reader) as answer:
                text = answer.read()
                times += json.loads(text) if text else []
        failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
        if failed or not times:
            raise FleetError(f"{len(failed)} clients failed in: {name}")
        self.took = time.monotonic() - began
        return len(times), sorted(times)

    def one_client(self, name: str, number: int, seconds: float) -> list[float]:
        enter_namespace(self.client.namespace)
        connection = http.client.HTTPConnection(self.server.address, 8787, timeout=60)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        operations, times, end = Operations(number, self.transcript), [], time.monotonic() + seconds
        while time.monotonic() < end:
            path, body = operations.next_request(name)
            text = json.dumps(body)
            began = time.monotonic()
            connection.request("POST", path, text, headers)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status not in (200, 201):
                raise FleetError(f"{path}: {answer.status} {content[:300]!r}")
            times.append(1000 * (time.monotonic() - began))
        return times

    def measure_requests(self, name: str) -> list[dict]:
        self.closed_loop(name, 1, min(2, self.options.seconds))
        points = []
        for clients in self.options.clients:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            meter = Meter(self)
            count, times = self.closed_loop(name, clients, self.options.seconds)
            took = self.took
            costs = meter.per_operation(count)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            # Children include the commands of the meter; those end in a fixed, small time.
            costs["client_ms"] = 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / count
            points.append(point(name, clients, count, took, times, costs))
        return points

    def measure_results(self) -> list[dict]:
        """Cases of a distributed run whose target answers at once: the cost of leases and results alone."""
        points = []
        for seed, concurrency in enumerate(self.options.clients):
            self.worker.command = [self.fleet.binary, "worker", "--root", str(self.fleet.directory / "repo"), "-j", str(concurrency), "--name", "w"]
            self.worker.start()
            time.sleep(2)
            meter = Meter(self)
            began = time.monotonic()
            body = json.dumps({"suite": "suite", "distributed": True, "seed": seed})
            started = run("ip", "netns", "exec", self.client.namespace, "curl", "-s", "-f", "-H", f"Authorization: Bearer {self.token}", "-H",
                          "Content-Type: application/json", "-d", body, f"http://{self.server.address}:8787/v1/bench/runs")
            run_id = json.loads(started.stdout)["run_id"]
            done = f"SELECT completed_at IS NOT NULL FROM bench_runs WHERE run_id = '{run_id}'"
            self.fleet.wait_for("the run", lambda: self.fleet.query(done) == [["t"]], 600, 0.05)
            took = time.monotonic() - began
            costs = meter.per_operation(self.options.cases) | {"client_ms": 0.0}
            points.append(point(RESULT, concurrency, self.options.cases, took, [], costs))
            self.worker.stop()
        return points


def point(name: str, clients: int, count: int, took: float, times: list[float], costs: dict) -> dict:
    found = {"clients": clients, "operations": count, "per_second": count / took,
             "p50_ms": times[len(times) // 2] if times else None, "p95_ms": times[int(len(times) * 0.95)] if times else None} | costs
    print(f"{name:<22}{clients:>3} clients {count / took:9.1f}/s  server {costs['server_ms']:7.2f} ms  worker {costs['worker_ms']:6.2f} ms  "
          f"PostgreSQL {costs['postgres_ms']:6.2f} ms  WAL {costs['wal_bytes']:8.0f} B  {costs['syncs']:5.2f} flushes of {costs['sync_ms']:5.2f} ms",
          flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/satiety", help="program to measure [default: %(default)s]")
    parser.add_argument("--output", default="costs.json", help="file with the result [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=10, help="duration of a point [default: %(default)s]")
    parser.add_argument("--clients", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8])
    parser.add_argument("--cases", type=int, default=2000, help="cases of a run [default: %(default)s]")
    parser.add_argument("--embedder", default="", help="sentence model [default: the built-in one]")
    parser.add_argument("--transcript", default="examples/transcripts/checkout.json", help="conversation to score [default: %(default)s]")
    parser.add_argument("--realtime", action="store_true", help="run before all other processes (SCHED_RR), on a machine with other work")
    parser.add_argument("--only", default="", help="measure only operations whose name contains this text")
    parser.add_argument("--keep-logs", action="store_true", help="keep the directory with the log files")
    options = parser.parse_args()
    end_on_signals()
    require("curl")
    if options.realtime:
        # Inherited by all processes of the study. A niceness would not do: each session is a scheduling group of its own.
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    version = run(options.binary, "--version").stdout.strip()
    study = Study(options)
    try:
        measured = {name: study.measure_requests(name) for name in REQUESTS if options.only in name}
        if options.only in RESULT:
            measured[RESULT] = study.measure_results()
        postgres = study.fleet.query("SHOW server_version")[0][0]
    finally:
        if options.keep_logs:
            print(f"log files: {study.fleet.directory}")
        study.fleet.close(keep_logs=options.keep_logs)
    result = {
        "program": version, "binary": Path(options.binary).parent.name, "postgres": postgres, "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "processor": processor(), "cores": os.cpu_count(), "realtime": options.realtime, "operations": measured,
    }
    Path(options.output).write_text(json.dumps(result, indent=1) + "\n")
    print(f"wrote {options.output}")
    return 0


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (FleetError, KeyboardInterrupt) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
