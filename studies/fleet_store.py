#!/usr/bin/env python3
"""Fills a private PostgreSQL server with default settings and measures Satiety on it.

Loads logged queries and half as many benchmark results over 90 days, in a database for each size, and measures operations
and dashboard pages over HTTP, and how fast searches are logged and results are written. The runs are copies of one that
`satiety bench run` made. On the largest database, it then measures how long dropping a day takes. Prints tables in Markdown,
and exits with 1 if an operation on the largest takes more than 1.5 times as long as on the smallest, if writing is slower by
that factor, or if dropping a day takes more than a second. Needs the PostgreSQL server programs and a release binary;
everything else is in the standard library.

    cargo build --release -p satiety-cli
    python3 studies/fleet_store.py --binary target/release/satiety --data /var/tmp/fleet

The parts can be run separately, which keeps the data if measuring fails: `fill` (again to continue), `measure` (as often as
you like) and `remove`, each before the options.
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
import signal
import socket
import statistics
import subprocess
import sys
import time

DAY = 86_400_000_000
DAYS = 90
RESULTS_PER_RUN = 250
"""Few enough that the smallest database has more runs than the 100 that a page shows; its pages would be shorter otherwise."""
RUNS_AT_ONCE = 400
MEMORIES = 500
WARM_UP = 5
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
        self.data = pathlib.Path(data).resolve()
        self.owner = "postgres" if os.geteuid() == 0 else None
        for program in ("initdb", "pg_ctl", "psql"):
            if not (self.programs / program).exists():
                sys.exit(f"cannot find {self.programs / program}\nhint: pass the directory of the server programs with --postgres")
        kept = self.data / "port"
        if kept.exists():
            self.port = int(kept.read_text())
            if self.run("pg_ctl", "status", "--pgdata", self.data / "pg", check=False) != 0:
                self.start()
            return
        if self.data.exists():
            sys.exit(f"{self.data} exists\nhint: name a new directory with --data")
        self.port = free_port()
        self.data.mkdir(parents=True)
        try:
            if self.owner:
                entry = pwd.getpwnam(self.owner)
                os.chown(self.data, entry.pw_uid, entry.pw_gid)
            self.run("initdb", "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8",
                     "--pgdata", self.data / "pg")
            self.start()
        except BaseException:
            shutil.rmtree(self.data)
            raise
        kept.write_text(str(self.port))

    def start(self):
        self.run("pg_ctl", "start", "--wait", "--timeout", 600, "--pgdata", self.data / "pg", "--log", self.data / "log",
                 "--options", f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories=''")

    def url(self, database):
        return f"postgres://{USER}@127.0.0.1:{self.port}/{database}"

    def run(self, program, *arguments, check=True):
        options = {"user": self.owner, "group": pwd.getpwnam(self.owner).pw_gid} if self.owner else {}
        return subprocess.run([self.programs / program, *map(str, arguments)], check=check, cwd=self.data,
                              stdout=subprocess.DEVNULL, **options).returncode

    def sql(self, text, database="postgres"):
        command = [self.programs / "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set",
                   "ON_ERROR_STOP=1", self.url(database)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"psql failed: {done.stderr}")
        return done.stdout.strip()

    def remove(self):
        """Stops the server and deletes its data."""
        self.run("pg_ctl", "stop", "--mode", "immediate", "--pgdata", self.data / "pg", check=False)
        shutil.rmtree(self.data)


class Database:
    """One database of the server."""

    def __init__(self, server, size):
        self.server, self.name = server, f"fleet_{size}"
        self.mark = server.data / f"{self.name}.filled"

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
        if (day + 1) % 15 == 0:
            print(f"{queries} queries: day {day + 1} of {DAYS}, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    runs = results // RESULTS_PER_RUN
    suites = max(1, min(20, runs // 2))
    model = database.sql("SELECT run_id FROM bench_runs ORDER BY started_at DESC LIMIT 1")
    columns = [name for name in database.columns("bench_runs") if name not in COPIED_APART]
    database.sql(f"""
        INSERT INTO bench_runs (run_id, suite_id, started_at, completed_at, partition_at, {", ".join(columns)})
        SELECT 'run-' || lpad(n::text, 8, '0'), 'suite-' || n % {suites}, at, at + 60000000, at, {", ".join(columns)}
        FROM (SELECT n, {start} + n::bigint * ({DAYS * DAY} / {runs}) AS at FROM generate_series(0, {runs - 1}) n) rows,
            (SELECT * FROM bench_runs WHERE run_id = '{model}') model;""")
    columns = [name for name in database.columns("bench_results") if name not in COPIED_APART]

    def fill_runs(first):
        database.sql(f"""
            INSERT INTO bench_results (run_id, partition_at, {", ".join(columns)})
            SELECT r.run_id, r.partition_at, {", ".join("model." + name for name in columns)}
            FROM bench_runs r, bench_results model
            WHERE model.run_id = '{model}' AND r.run_id >= 'run-' || lpad('{first}', 8, '0')
              AND r.run_id < 'run-' || lpad('{min(first + RUNS_AT_ONCE, runs)}', 8, '0');""")

    pool = concurrent.futures.ThreadPoolExecutor(2)
    try:
        list(pool.map(fill_day, range(DAYS)))
        list(pool.map(fill_runs, range(0, runs, RUNS_AT_ONCE)))
    finally:
        pool.shutdown(cancel_futures=True)
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

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def command(self, *arguments):
        started = time.monotonic()
        done = subprocess.run([self.binary, *arguments], env=self.environment, cwd=self.directory, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"satiety {' '.join(arguments)} failed: {done.stderr}")
        return time.monotonic() - started, done.stdout

    def start(self):
        with (self.directory / "serve.log").open("ab") as log:
            self.process = subprocess.Popen([self.binary, "serve", "--listen", f"127.0.0.1:{self.port}"], env=self.environment,
                                            cwd=self.directory, stdout=log, stderr=log)
        for _ in range(600):
            try:
                if self.request("GET", "/readyz")[0] == 200:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        log = (self.directory / "serve.log").read_text(errors="replace").splitlines()
        sys.exit("the server does not answer: " + "\n".join(log[-5:]))

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
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def operations(server, today):
    """The measured requests: name, method, path, body."""
    query = server.sql("SELECT query_id FROM eval_queries WHERE created_at < "
                       f"{today - 40 * DAY} ORDER BY created_at DESC LIMIT 1")
    run, other = server.sql("SELECT run_id FROM bench_runs WHERE suite_id = 'suite-0' ORDER BY started_at DESC LIMIT 2").split()
    session = f"session-{DAYS - 1}-1"
    return [
        ("search the memory (logged)", "POST", "/v1/memory/search", {"query": "lease handling", "session": session}),
        ("match triggers", "POST", "/v1/memory/match", {"text": "the lease of a worker"}),
        ("memory health", "GET", "/v1/memory/health", None),
        ("list memories", "GET", "/v1/memories", None),
        ("save a memory", "POST", "/v1/memories", {"title": "fleet", "content": "a lease expires after 30 s #"}),
        ("score a conversation", "POST", "/v1/score", {"conversation": {"rounds": [
            {"round": 1, "agent": "a", "outputs": {"claims": ["The queue is durable."]}}]}}),
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
        ("page: logged queries with a text that none has", "GET", "/memory/queries?q=nowhere", None),
        ("page: a logged query", "GET", f"/memory/queries/{query}", None),
        ("page: runs", "GET", "/bench", None),
        ("page: a run", "GET", f"/bench/runs/{run}", None),
        ("page: a case", "GET", f"/bench/runs/{run}/cases/case-00100", None),
        ("page: comparison", "GET", f"/bench/compare?baseline={other}&candidate={run}", None),
        ("page: conversations", "GET", "/conversations", None),
        ("page: runs of agents", "GET", "/progress", None),
        ("page: retrieval", "GET", "/retrieval", None),
        ("page: experiments", "GET", "/ab", None),
    ]


def save_memories(satiety, database):
    """Gives the memory search something to find."""
    connection = satiety.connection()
    for number in range(int(database.sql("SELECT count(*) FROM memories")), MEMORIES):
        words = ("parser", "planner", "cache", "lease", "index", "worker", "queue", "replica")
        title = f"{words[number % 8]} {words[number // 8 % 8]} {number}"
        body = {"title": title, "content": f"The {title} keeps its state in table {number * 7919} and expires after {number} s."}
        status, text = satiety.request("POST", "/v1/memories", body, connection)
        if status >= 400:
            sys.exit(f"cannot save a memory: status {status}: {text[:200]!r}")


def measure(satiety, requests, repeats):
    """Returns the 95th percentile of each request in milliseconds; not a number if one fails."""
    found = {}
    connection = satiety.connection()
    for name, method, path, body in requests:
        times = []
        for number in range(repeats + WARM_UP):
            sent = body
            if name == "save a memory":
                sent = {**body, "content": f"{body['content']}{time.time_ns()}"}
            started = time.perf_counter()
            try:
                status, text = satiety.request(method, path, sent, connection)
            except (OSError, http.client.HTTPException) as error:
                status, text = 599, repr(error).encode()
                connection.close()
            took = (time.perf_counter() - started) * 1000
            if status >= 400:
                print(f"{name}: status {status}: {text[:200]!r}", file=sys.stderr, flush=True)
                times = []
                break
            if number >= WARM_UP:
                times.append(took)
        found[name] = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else float("nan")
    return found


def logging_rate(satiety, seconds, clients):
    """Searches per second that concurrent clients get answered."""
    until = time.monotonic() + seconds

    def search(client):
        connection, count = satiety.connection(), 0
        while time.monotonic() < until:
            body = {"query": f"client {client} asks {count}", "session": f"c{client}"}
            try:
                status, _ = satiety.request("POST", "/v1/memory/search", body, connection)
            except (OSError, http.client.HTTPException):
                connection.close()
                continue
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
        if database.mark.exists():
            continue
        # What an interrupted `fill` has left.
        server.sql(f"DROP DATABASE IF EXISTS {database.name} WITH (FORCE)")
        server.sql(f"CREATE DATABASE {database.name}")
        satiety = Satiety(arguments.binary, server.url(database.name), server.data)
        satiety.command("db", "migrate")
        lay_out(database, today)
        run_suite(satiety, RESULTS_PER_RUN)
        took = fill(database, today, size, size // 2)
        bytes_used = database.sql("SELECT pg_size_pretty(pg_database_size(current_database()))")
        database.mark.write_text("")
        print(f"{size} queries and {size // 2} results written in {took:.0f} s, {bytes_used}", flush=True)


def table(heading, sizes, measured, ratio):
    print(f"\n| {heading} | " + " | ".join(f"{size:,}" for size in sizes) + " | ratio |")
    print("|---|" + "--:|" * (len(sizes) + 1))
    for name in measured[sizes[0]]:
        row = [measured[size][name] for size in sizes]
        print(f"| {name} | " + " | ".join(f"{value:,.1f}" for value in row) + f" | {ratio(row[0], row[-1]):.2f} |", flush=True)


def measure_all(arguments, server, today, sizes):
    latencies, rates = {}, {}
    for size in sizes:
        database = Database(server, size)
        if not database.mark.exists():
            sys.exit(f"the database of {size} queries is not filled\nhint: run the part `fill` with the same --sizes")
        database.sql("CHECKPOINT")
        count = f"SELECT count(*) FROM eval_queries WHERE partition_at >= {today}"
        with Satiety(arguments.binary, server.url(database.name), server.data) as satiety:
            save_memories(satiety, database)
            latencies[size] = measure(satiety, operations(database, today), arguments.repeats)
            before = int(database.sql(count))
            rate = logging_rate(satiety, arguments.seconds, 8)
            time.sleep(1)
            logged = int(database.sql(count)) - before
        one, many = run_suite(satiety, 1), run_suite(satiety, arguments.cases)
        rates[size] = {"searches answered to 8 clients": rate, "searches logged": logged / arguments.seconds,
                       "results of `satiety bench run`": arguments.cases / max(many - one, 0.001)}
        # In case that a later size fails.
        print(json.dumps({"queries": size, "p95_ms": latencies[size], "per_second": rates[size]}), file=sys.stderr, flush=True)
    table("95th percentile in ms at a number of queries", sizes, latencies, lambda first, last: last / first)
    table("per second at a number of queries", sizes, rates, lambda first, last: first / max(last, 0.001))
    first, last = sizes[0], sizes[-1]
    missed = [name for name, took in latencies[first].items() if not latencies[last][name] <= GROWTH * took]
    missed += [name for name, rate in rates[first].items() if not rates[last][name] * GROWTH >= rate]
    missed += retention(satiety, database)
    if missed:
        sys.exit(f"goal missed: {', '.join(missed)}")


def retention(satiety, database):
    """Drops the two oldest days, each by a rule; returns what misses its goal."""
    now = time.time() * 1e6
    age = int((now - int(database.sql("SELECT min(created_at) FROM eval_queries WHERE NOT is_eval_corpus"))) // DAY)
    satiety.command("db", "retain", "--set", f"eval_queries={age + 1}d:delete", "--list")
    idle, _ = satiety.command("db", "retain")
    print()
    missed = []
    for days in (age - 1, age - 2):
        rows = int(database.sql("SELECT count(*) FROM eval_queries"))
        satiety.command("db", "retain", "--set", f"eval_queries={days}d:delete", "--list")
        took, _ = satiety.command("db", "retain")
        dropped = rows - int(database.sql("SELECT count(*) FROM eval_queries"))
        print(f"`satiety db retain` of {dropped} rows: {took:.2f} s, without any {idle:.2f} s", flush=True)
        if took > RETENTION_SECONDS or dropped == 0:
            missed.append("retention of a day")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("fill", "measure", "remove", "all"), default="all")
    parser.add_argument("--binary", default="target/release/satiety", help="release binary of Satiety [default: %(default)s]")
    parser.add_argument("--data", required=True, help="new directory for the server, removed at the end of `all`")
    parser.add_argument("--postgres", default="/usr/lib/postgresql/15/bin", help="directory of the server programs [default: %(default)s]")
    parser.add_argument("--sizes", default="100000,1000000,20000000", help="numbers of logged queries [default: %(default)s]")
    parser.add_argument("--repeats", type=int, default=200, help="measured requests of each kind [default: %(default)s]")
    parser.add_argument("--seconds", type=float, default=20, help="duration of logging searches [default: %(default)s]")
    parser.add_argument("--cases", type=int, default=20_000, help="cases of the run that is written [default: %(default)s]")
    arguments = parser.parse_args()
    # The servers must not outlive a study that is ended by a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    today = int(datetime.datetime.now(datetime.timezone.utc).timestamp() * 1e6) // DAY * DAY
    sizes = [int(size) for size in arguments.sizes.split(",")]
    if arguments.part != "remove" and not pathlib.Path(arguments.binary).is_file():
        sys.exit(f"cannot find {arguments.binary}\nhint: cargo build --release -p satiety-cli")
    server = Server(arguments.postgres, arguments.data)
    try:
        if arguments.part in ("fill", "all"):
            fill_all(arguments, server, today, sizes)
        if arguments.part in ("measure", "all"):
            measure_all(arguments, server, today, sizes)
    finally:
        if arguments.part in ("remove", "all"):
            server.remove()


if __name__ == "__main__":
    main()
