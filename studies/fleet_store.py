#!/usr/bin/env python3
"""Fills a private PostgreSQL server with default settings and measures Satiety on it.

Loads logged queries and half as many benchmark results over 90 days, in a database for each size, and measures operations
and dashboard pages over HTTP. The runs are copies of one that `satiety bench run` made. On the largest database, it then
measures how fast searches are logged and results are written, and how long dropping a day takes. Prints tables in Markdown,
and exits with 1 if an operation on the largest takes more than 1.5 times as long as on the smallest, or dropping a day more
than a second. Needs the PostgreSQL server programs and a release binary; everything else is in the
standard library. `fill` and `measure` do the two parts separately.

    cargo build --release -p satiety-cli
    python3 studies/fleet_store.py --binary target/release/satiety --data /var/tmp/fleet
"""

import argparse
import concurrent.futures
import datetime
import http.client
import json
import os
import pathlib
import pwd
import shutil
import socket
import statistics
import subprocess
import sys
import time

DAY = 86_400_000_000
DAYS = 90
RESULTS_PER_RUN = 1000
USER = "satiety"
COPIED_APART = ("run_id", "suite_id", "started_at", "completed_at", "partition_at")
"""Columns that differ between a run and the one that it is a copy of."""
GROWTH = 1.5
RETENTION_SECONDS = 1.0


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A PostgreSQL server with the settings that initdb writes, on a loopback port."""

    def __init__(self, programs, data):
        self.programs = pathlib.Path(programs)
        self.data = pathlib.Path(data)
        self.owner = "postgres" if os.geteuid() == 0 else None
        kept = self.data / "port"
        if kept.exists():
            self.port = int(kept.read_text())
            return
        self.port = free_port()
        self.data.mkdir(parents=True)
        if self.owner:
            entry = pwd.getpwnam(self.owner)
            os.chown(self.data, entry.pw_uid, entry.pw_gid)
        self.run("initdb", "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8",
                 "--pgdata", self.data / "pg")
        self.run("pg_ctl", "start", "--wait", "--pgdata", self.data / "pg", "--log", self.data / "log", "--options",
                 f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories=''")
        kept.write_text(str(self.port))

    def url(self, database):
        return f"postgres://{USER}@127.0.0.1:{self.port}/{database}"

    def run(self, program, *arguments):
        options = {"user": self.owner, "group": pwd.getpwnam(self.owner).pw_gid} if self.owner else {}
        subprocess.run([self.programs / program, *map(str, arguments)], check=True, cwd=self.data,
                       stdout=subprocess.DEVNULL, **options)

    def sql(self, text, database="postgres"):
        command = [self.programs / "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set",
                   "ON_ERROR_STOP=1", self.url(database)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"psql failed: {done.stderr}")
        return done.stdout.strip()

    def stop(self):
        self.run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", self.data / "pg")
        shutil.rmtree(self.data)


class Database:
    """One database of the server."""

    def __init__(self, server, size):
        self.server, self.name = server, f"fleet_{size}"

    def sql(self, text):
        return self.server.sql(text, self.name)

    def columns(self, table):
        return self.sql("SELECT column_name FROM information_schema.columns WHERE is_generated = 'NEVER' AND "
                        f"table_name = '{table}'").split()


def lay_out(server, today):
    """Gives the tables the partitions that they have after 90 days of use."""
    start = today - DAYS * DAY
    for table, width in (("eval_queries", 1), ("bench_results", 30)):
        statements = [
            f"ALTER TABLE {table} DETACH PARTITION {table}_before;",
            f"ALTER TABLE {table} ATTACH PARTITION {table}_before FOR VALUES FROM (MINVALUE) TO ({start});",
        ]
        for day in range(0, DAYS, width):
            begin, end = start + day * DAY, start + (day + width) * DAY
            name = table + "_p" + time.strftime("%Y%m%d", time.gmtime(begin / 1e6))
            statements.append(f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS);")
            statements.append(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({begin}) TO ({end});")
        server.sql("\n".join(statements))


def fill(database, today, queries, results):
    """Writes logged queries and results, evenly over the days."""
    started = time.monotonic()
    start = today - DAYS * DAY
    each = queries // DAYS
    step = DAY // max(each, 1)

    def fill_day(day):
        begin = start + day * DAY
        database.sql(f"""
            INSERT INTO eval_queries (query_id, query, intent, mode, session_id, tool_name, result_ids, result_count,
                channel_contributions, total_latency_ms, quality_proxy_score, created_at, is_eval_corpus, detail,
                partition_at)
            SELECT 'eq-' || lpad(to_hex(at / 1000), 12, '0') || '7' || substr(md5(n::text || '/{day}'), 1, 19),
                'how does the ' || (ARRAY['parser','planner','cache','lease','index'])[1 + n % 5] || ' handle case ' || n,
                'how_to', 'focused', 'session-' || {day} || '-' || n / 20, 'memory_search',
                '["mem-' || md5((n % 997)::text) || '","mem-' || md5((n % 991)::text) || '"]', 2,
                '{{"words":2}}', 4.2 + n % 17, 0.5, at, FALSE, '{{}}', at / 1000 * 1000
            FROM (SELECT n, {begin} + n::bigint * {step} AS at FROM generate_series(0, {each - 1}) n) rows;""")

    runs = results // RESULTS_PER_RUN
    model = database.sql("SELECT run_id FROM bench_runs ORDER BY started_at DESC LIMIT 1")
    columns = [name for name in database.columns("bench_runs") if name not in COPIED_APART]
    database.sql(f"""
        INSERT INTO bench_runs (run_id, suite_id, started_at, completed_at, partition_at, {", ".join(columns)})
        SELECT 'run-' || lpad(n::text, 8, '0'), 'suite-' || n % 20, at, at + 60000000, at, {", ".join(columns)}
        FROM (SELECT n, {start} + n::bigint * ({DAYS * DAY} / {runs}) AS at FROM generate_series(0, {runs - 1}) n) rows,
            (SELECT * FROM bench_runs WHERE run_id = '{model}') model;""")
    columns = [name for name in database.columns("bench_results") if name not in COPIED_APART]

    def fill_runs(first):
        database.sql(f"""
            INSERT INTO bench_results (run_id, partition_at, {", ".join(columns)})
            SELECT r.run_id, r.partition_at, {", ".join("model." + name for name in columns)}
            FROM bench_runs r, bench_results model
            WHERE model.run_id = '{model}' AND r.run_id >= 'run-' || lpad('{first}', 8, '0')
              AND r.run_id < 'run-' || lpad('{min(first + 100, runs)}', 8, '0');""")

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(fill_day, range(DAYS)))
        list(pool.map(fill_runs, range(0, runs, 100)))
    database.sql("VACUUM (ANALYZE) eval_queries; VACUUM (ANALYZE) bench_results; ANALYZE bench_runs; CHECKPOINT;")
    return time.monotonic() - started


class Satiety:
    """A Satiety server on the database."""

    def __init__(self, binary, url, data):
        self.binary, self.port = str(pathlib.Path(binary).resolve()), free_port()
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(data), "SATIETY_STORE_URL": url, "SATIETY_MODELS_EMBEDDER": "none",
            "SATIETY_SERVER_RETAIN_HOURS": "0", "SATIETY_SERVER_CALLER_COST": "0", "SATIETY_STORE_ARCHIVE_FOLDER": str(data),
        }
        self.directory = data
        self.process = None

    def command(self, *arguments):
        started = time.monotonic()
        done = subprocess.run([self.binary, *arguments], env=self.environment, cwd=self.directory, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"satiety {' '.join(arguments)} failed: {done.stderr}")
        return time.monotonic() - started, done.stdout

    def start(self):
        self.process = subprocess.Popen([self.binary, "serve", "--listen", f"127.0.0.1:{self.port}"], env=self.environment,
                                        cwd=self.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                if self.request("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit("the server does not answer")

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def request(self, method, path, body=None, connection=None):
        own = connection or self.connection()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        own.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = own.getresponse()
        text = response.read()
        if connection is None:
            own.close()
        return response.status, text

    def stop(self):
        self.process.terminate()
        self.process.wait()


def operations(server, today):
    """The measured requests: name, method, path, body."""
    query = server.sql("SELECT query_id FROM eval_queries WHERE created_at < "
                       f"{today - 40 * DAY} ORDER BY created_at DESC LIMIT 1")
    run, other = server.sql("SELECT run_id FROM bench_runs WHERE suite_id = 'suite-3' ORDER BY started_at DESC LIMIT 2").split()
    session = f"session-{DAYS - 1}-1"
    return [
        ("search the memory (logged)", "POST", "/v1/memory/search", {"query": "lease handling", "session": session}),
        ("match triggers", "POST", "/v1/memory/match", {"text": "the lease of a worker"}),
        ("memory health", "GET", "/v1/memory/health", None),
        ("list memories", "GET", "/v1/memories", None),
        ("save a memory", "POST", "/v1/memories", {"title": "fleet", "content": "a lease expires after 30 s #"}),
        ("list runs", "GET", "/v1/bench/runs", None),
        ("get a run", "GET", f"/v1/bench/runs/{run}", None),
        ("list jobs", "GET", "/v1/jobs", None),
        ("list conversations", "GET", "/v1/conversations", None),
        ("start a conversation", "POST", "/v1/conversations", {"topic": "fleet"}),
        ("list runs of agents", "GET", "/v1/progress", None),
        ("audit log", "GET", "/v1/audit", None),
        ("list measured runs", "GET", "/v1/retrieval/runs", None),
        ("list research", "GET", "/v1/research/runs", None),
        ("list experiments", "GET", "/v1/ab", None),
        ("page: overview", "GET", "/", None),
        ("page: memory", "GET", "/memory", None),
        ("page: logged queries", "GET", "/memory/queries", None),
        ("page: logged queries with a text", "GET", "/memory/queries?q=planner", None),
        ("page: a logged query", "GET", f"/memory/queries/{query}", None),
        ("page: runs", "GET", "/bench", None),
        ("page: a run", "GET", f"/bench/runs/{run}", None),
        ("page: a case", "GET", f"/bench/runs/{run}/cases/case-00500", None),
        ("page: comparison", "GET", f"/bench/compare?baseline={other}&candidate={run}", None),
        ("page: conversations", "GET", "/conversations", None),
        ("page: runs of agents", "GET", "/progress", None),
        ("page: retrieval", "GET", "/retrieval", None),
        ("page: experiments", "GET", "/ab", None),
    ]


def measure(satiety, requests, repeats):
    """Returns the 95th percentile of each request in milliseconds."""
    found = {}
    connection = satiety.connection()
    for name, method, path, body in requests:
        times = []
        for number in range(repeats + 5):
            if name == "save a memory":
                body = {**body, "content": body["content"] + str(time.time_ns())}
            started = time.perf_counter()
            status, text = satiety.request(method, path, body, connection)
            took = (time.perf_counter() - started) * 1000
            if status >= 400:
                print(f"{name}: status {status}: {text[:200]!r}", file=sys.stderr)
                times = [float("nan")]
                break
            if number >= 5:
                times.append(took)
        if times:
            found[name] = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
    return found


def logging_rate(satiety, seconds, clients):
    """Searches per second that are logged by concurrent clients, and the number of logged rows."""
    until = time.monotonic() + seconds

    def search(client):
        connection, count = satiety.connection(), 0
        while time.monotonic() < until:
            status, _ = satiety.request("POST", "/v1/memory/search",
                                        {"query": f"client {client} asks {count}", "session": f"c{client}"}, connection)
            count += status == 200
        return count

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return sum(pool.map(search, range(clients))) / seconds


def run_suite(satiety, cases):
    """Runs a suite against the target `echo`, and returns the seconds that it took."""
    goals = [f"What is the answer to question {number} of this suite?" for number in range(cases)]
    suite = {"suite_id": f"echo-{cases}", "version": "1.0.0", "cases": [
        {"case_id": f"case-{number:05}", "input": {"goal": goal},
         "expected": {"mode": "exact", "value": goal if number % 10 != 9 else "another"}}
        for number, goal in enumerate(goals)]}
    path = satiety.directory / f"echo-{cases}.json"
    path.write_text(json.dumps(suite))
    return satiety.command("bench", "run", str(path), "--target", "echo")[0]


def fill_all(arguments, server, today, sizes):
    for size in sizes:
        database = Database(server, size)
        server.sql(f"CREATE DATABASE {database.name}")
        satiety = Satiety(arguments.binary, server.url(database.name), server.data)
        satiety.command("db", "migrate")
        lay_out(database, today)
        run_suite(satiety, RESULTS_PER_RUN)
        took = fill(database, today, size, size // 2)
        bytes_used = database.sql("SELECT pg_size_pretty(pg_database_size(current_database()))")
        print(f"{size} queries and {size // 2} results written in {took:.0f} s, {bytes_used}", flush=True)


def measure_all(arguments, server, today, sizes):
    measured = {}
    for size in sizes:
        database = Database(server, size)
        satiety = Satiety(arguments.binary, server.url(database.name), server.data)
        satiety.start()
        measured[size] = measure(satiety, operations(database, today), arguments.repeats)
        satiety.stop()
    print("\n| operation | " + " | ".join(f"p95 at {size:,} (ms)" for size in sizes) + " | ratio |")
    print("|---|" + "--:|" * (len(sizes) + 1))
    for name in measured[sizes[0]]:
        row = [measured[size].get(name, float("nan")) for size in sizes]
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in row) + f" | {row[-1] / row[0]:.2f} |", flush=True)
    count = f"SELECT count(*) FROM eval_queries WHERE partition_at >= {today}"
    satiety.start()
    before = int(database.sql(count))
    rate = logging_rate(satiety, 20, 8)
    time.sleep(1)
    after = int(database.sql(count))
    satiety.stop()
    print(f"\nsearches logged by 8 clients: {rate:.0f} per second ({after - before} rows)")
    one, many = run_suite(satiety, 1), run_suite(satiety, 20_000)
    print(f"results written by `satiety bench run`: {20_000 / (many - one):.0f} per second")
    satiety.command("db", "retain", "--set", "eval_queries=91d:delete", "--list")
    idle, _ = satiety.command("db", "retain")
    slowest = 0.0
    for days in (89, 88):
        rows = int(database.sql("SELECT count(*) FROM eval_queries"))
        satiety.command("db", "retain", "--set", f"eval_queries={days}d:delete", "--list")
        took, _ = satiety.command("db", "retain")
        slowest = max(slowest, took)
        left = int(database.sql("SELECT count(*) FROM eval_queries"))
        print(f"`satiety db retain` of {rows - left} rows: {took:.2f} s, without any {idle:.2f} s", flush=True)
    first, last = measured[sizes[0]], measured[sizes[-1]]
    missed = [name for name, took in first.items() if not last.get(name, float("inf")) <= GROWTH * took]
    if slowest > RETENTION_SECONDS:
        missed.append("retention of a day")
    if missed:
        sys.exit(f"goal missed: {', '.join(missed)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("fill", "measure", "all"), default="all")
    parser.add_argument("--binary", required=True, help="release binary of Satiety")
    parser.add_argument("--data", required=True, help="new directory for the server, removed at the end of `all`")
    parser.add_argument("--postgres", default="/usr/lib/postgresql/15/bin", help="directory of the server programs")
    parser.add_argument("--sizes", default="100000,1000000,20000000", help="numbers of logged queries")
    parser.add_argument("--repeats", type=int, default=40, help="measured requests of each kind")
    arguments = parser.parse_args()
    today = int(datetime.datetime.now(datetime.timezone.utc).timestamp() * 1e6) // DAY * DAY
    sizes = [int(size) for size in arguments.sizes.split(",")]
    server = Server(arguments.postgres, arguments.data)
    try:
        if arguments.part != "measure":
            fill_all(arguments, server, today, sizes)
        if arguments.part != "fill":
            measure_all(arguments, server, today, sizes)
    finally:
        if arguments.part == "all":
            server.stop()


if __name__ == "__main__":
    main()
