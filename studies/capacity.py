#!/usr/bin/env python3
"""Capacity model: a discrete-event simulation of servers, workers and PostgreSQL with measured costs per operation.

Reads the file that `measure_costs.py` writes and the prices in `capacity_prices.json`. First it simulates the measured machine with 1, 2, 4
and 8 clients and prints the throughput next to the measurement: one client is the calibration, the others are predictions. Then it
plans for 10^6, 10^8 and 10^9 operations a day, simulates the peak hour of each plan, and prints machines, disk, money and the busiest part.

    python3 studies/capacity.py --costs costs.json

What is modeled: processors of each machine (first come, first served), a pool of database connections for each server, processors of
PostgreSQL, and one WAL writer with group commit: a flush takes everything that waits, and its time is a latency plus bytes over throughput.
What is not: locks between transactions, vacuum, checkpoints, cache misses when the data exceeds the memory, and the network.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sys
from collections import deque
from pathlib import Path

DAY = 86_400
# Share of each operation in a day, an assumption: mostly agents that report each step and search a memory.
MIX = {"progress message": 0.45, "search memories": 0.25, "append a round": 0.10, "score a conversation": 0.05, "save a memory": 0.05,
       "bench result": 0.10}
CONNECTIONS = 10
"""Connections of one process to PostgreSQL."""


class Simulation:
    """Events in order of time. A process is a generator that yields functions which take its continuation."""

    def __init__(self):
        self.now, self.events, self.order = 0.0, [], 0

    def at(self, time: float, action) -> None:
        self.order += 1
        heapq.heappush(self.events, (time, self.order, action))

    def spawn(self, process) -> None:
        def step() -> None:
            try:
                request = next(process)
            except StopIteration:
                return
            request(step)
        step()

    def sleep(self, seconds: float):
        return lambda resume: self.at(self.now + seconds, resume)

    def run(self, until: float) -> None:
        while self.events and self.events[0][0] <= until:
            self.now, _, action = heapq.heappop(self.events)
            action()
        self.now = until


class Processors:
    """A number of processors with one queue."""

    def __init__(self, simulation: Simulation, count: int):
        self.simulation, self.count, self.free, self.waiting, self.busy = simulation, count, count, deque(), 0.0

    def work(self, seconds: float):
        def request(resume) -> None:
            if self.free:
                self.free -= 1
                self.start(seconds, resume)
            else:
                self.waiting.append((seconds, resume))
        return request

    def start(self, seconds: float, resume) -> None:
        self.busy += seconds

        def end() -> None:
            if self.waiting:
                self.start(*self.waiting.popleft())
            else:
                self.free += 1
            resume()
        self.simulation.at(self.simulation.now + seconds, end)

    def utilization(self) -> float:
        return min(1.0, self.busy / (self.count * self.simulation.now))


class Pool:
    """Connections: taken and returned."""

    def __init__(self, count: int):
        self.free, self.waiting = count, deque()

    def take(self, resume) -> None:
        if self.free:
            self.free -= 1
            resume()
        else:
            self.waiting.append(resume)

    def give(self) -> None:
        if self.waiting:
            self.waiting.popleft()()
        else:
            self.free += 1


class Wal:
    """The WAL writer: one flush at a time, for all commits that wait when it begins."""

    def __init__(self, simulation: Simulation, latency: float, bytes_per_second: float):
        self.simulation, self.latency, self.speed = simulation, latency, bytes_per_second
        self.waiting, self.bytes, self.active, self.busy, self.flushes = [], 0.0, False, 0.0, 0

    def flush(self, size: float):
        def request(resume) -> None:
            self.waiting.append(resume)
            self.bytes += size
            if not self.active:
                self.begin()
        return request

    def begin(self) -> None:
        group, self.waiting = self.waiting, []
        seconds, self.bytes = self.latency + self.bytes / self.speed, 0.0
        self.active, self.busy, self.flushes = True, self.busy + seconds, self.flushes + 1

        def end() -> None:
            self.active = False
            if self.waiting:
                self.begin()
            for resume in group:
                resume()
            if self.waiting and not self.active:
                self.begin()
        self.simulation.at(self.simulation.now + seconds, end)

    def utilization(self) -> float:
        return min(1.0, self.busy / self.simulation.now)


class Costs:
    """Costs of one operation: means over the measured points, in seconds and bytes."""

    def __init__(self, points: list[dict]):
        def mean(name: str) -> float:
            weight = sum(point["operations"] for point in points)
            return sum(point[name] * point["operations"] for point in points) / weight
        self.server, self.worker, self.postgres, self.client = (mean(f"{name}_ms") / 1000 for name in ("server", "worker", "postgres", "client"))
        self.wal, self.disk = mean("wal_bytes"), mean("disk_bytes")
        # Group commit lets several operations share a flush, so flushes are counted with one client.
        self.flushes = points[0]["syncs"]
        self.extra = 0.0


def operation(simulation, costs: Costs, processors, database, wal, pool: Pool, chance: random.Random, at_worker: bool = False):
    """One operation: half of the computation, the database, the other half."""
    own = costs.worker if at_worker else costs.server
    yield processors.work(own / 2)
    if costs.postgres > 0:
        rounds = int(costs.flushes) + (chance.random() < costs.flushes % 1)
        yield pool.take
        for _ in range(max(1, rounds)):
            yield database.work(costs.postgres / max(1, rounds))
            if rounds:
                yield wal.flush(costs.wal / rounds)
        pool.give()
    if costs.extra:
        yield simulation.sleep(costs.extra)
    yield processors.work(own / 2)


def closed_loop(costs: Costs, name: str, clients: int, cores: int, flush: float, seconds: float = 20.0) -> float:
    """Throughput of the measured machine: clients, server, worker and PostgreSQL share its processors."""
    simulation, chance = Simulation(), random.Random(clients)
    shared = Processors(simulation, cores)
    wal, pool, done = Wal(simulation, flush, 500e6), Pool(CONNECTIONS), [0]

    def client():
        while True:
            if costs.client:
                yield shared.work(costs.client)
            yield from operation(simulation, costs, shared, shared, wal, pool, chance, name == "bench result")
            done[0] += 1
    for _ in range(clients):
        simulation.spawn(client())
    simulation.run(seconds)
    return done[0] / seconds


def validate(data: dict, all_costs: dict[str, Costs]) -> float:
    """Prints the simulation next to the measurement; returns the mean error of the predictions."""
    print(f"### Measured and simulated throughput\n\n{data['program']}, {data['cores']} cores, {data['processor']}, PostgreSQL {data['postgres']}, {data['date']}. "
          "Costs are means over the four points of an operation. Of the throughput only that of one client is an input: it calibrates the time that "
          "no processor accounts for. The other rows are predictions.\n")
    print("| operation | clients | measured/s | simulated/s | error |\n|---|---:|---:|---:|---:|")
    errors = []
    for name, points in data["operations"].items():
        costs, flush = all_costs[name], max(point["sync_ms"] for point in points[:1]) / 1000
        # The wait of a single client that neither processors nor flushes explain: context switches and the network.
        explained = 1 / closed_loop(costs, name, 1, data["cores"], flush)
        costs.extra = max(0.0, points[0]["clients"] / points[0]["per_second"] - explained)
        for measured in points:
            simulated = closed_loop(costs, name, measured["clients"], data["cores"], flush)
            error = simulated / measured["per_second"] - 1
            if measured["clients"] > 1:
                errors.append(abs(error))
            print(f"| {name} | {measured['clients']} | {measured['per_second']:.0f} | {simulated:.0f} | {100 * error:+.0f} % |")
        costs.extra = 0.0
    mean, worst = sum(errors) / len(errors), max(errors)
    print(f"\nMean error of the predictions: {100 * mean:.0f} %, largest {100 * worst:.0f} %.\n")
    return mean


class Plan:
    """Machines for a number of operations a day."""

    def __init__(self, per_day: float, all_costs: dict[str, Costs], prices: dict, options: argparse.Namespace):
        self.per_day, self.prices, self.options = per_day, prices, options
        self.rate = per_day / DAY * options.peak
        mean = lambda name: sum(MIX[key] * getattr(costs, name) for key, costs in all_costs.items())
        self.server_cpu = sum(MIX[key] * costs.server for key, costs in all_costs.items())
        self.worker_cpu, self.database_cpu, self.wal, self.disk = mean("worker"), mean("postgres"), mean("wal"), mean("disk")
        usable = options.utilization
        self.servers = max(2, math.ceil(self.rate * self.server_cpu / (prices["server"]["cores"] * usable)))
        self.workers = max(1, math.ceil(self.rate * self.worker_cpu / (prices["worker"]["cores"] * usable)))
        need = self.rate * self.database_cpu / usable
        largest = prices["database"][-1]
        wal_limit = prices["disk"]["maximum_mb_per_second"] * 1e6 * usable
        # 30 % of a disk stay free.
        self.stored = per_day * self.disk * options.retention_days
        disks = self.stored * 1.3 / (prices["disk"]["maximum_tb"] * 1e12)
        self.databases = max(1, math.ceil(need / largest["cores"]), math.ceil(self.rate * self.wal / wal_limit), math.ceil(disks))
        self.database = next((size for size in prices["database"] if size["cores"] >= need / self.databases), largest)

    def money(self) -> float:
        prices, disk = self.prices, self.prices["disk"]
        hours = prices["hours_per_month"]
        machines = self.servers * prices["server"]["per_hour"] + self.workers * prices["worker"]["per_hour"]
        # A primary and a replica of each database, both with the whole disk.
        machines += 2 * self.databases * self.database["per_hour"]
        speed = max(0.0, self.rate * self.wal / 1e6 / self.databases * 2 - disk["included_mb_per_second"])
        storage = 2 * (self.stored * 1.3 / 1e9 * disk["per_gb_month"] + self.databases * speed * disk["per_mb_per_second_month"])
        return machines * hours + storage

    def connections(self) -> int:
        return CONNECTIONS * math.ceil((self.servers + self.workers) / self.databases)

    def simulate(self, all_costs: dict[str, Costs], most: int = 40_000) -> dict:
        """The peak hour of one database with its share of servers and workers."""
        simulation, chance = Simulation(), random.Random(1)
        share = lambda machines: max(1, round(machines / self.databases))
        servers = [(Processors(simulation, self.prices["server"]["cores"]), Pool(CONNECTIONS)) for _ in range(share(self.servers))]
        workers = [(Processors(simulation, self.prices["worker"]["cores"]), Pool(CONNECTIONS)) for _ in range(share(self.workers))]
        database = Processors(simulation, self.database["cores"])
        wal = Wal(simulation, self.prices["disk"]["flush_ms"] / 1000, self.prices["disk"]["maximum_mb_per_second"] * 1e6)
        rate, times = self.rate / self.databases, []
        names, weights = list(all_costs), [MIX[name] for name in all_costs]
        seconds = min(600.0, most / rate)

        def timed(name: str):
            began, at_worker = simulation.now, name == "bench result"
            processors, pool = chance.choice(workers if at_worker else servers)
            yield from operation(simulation, all_costs[name], processors, database, wal, pool, chance, at_worker)
            times.append(simulation.now - began)

        def arrivals():
            while True:
                yield simulation.sleep(chance.expovariate(rate))
                simulation.spawn(timed(chance.choices(names, weights)[0]))
        simulation.spawn(arrivals())
        simulation.run(seconds)
        times.sort()
        busy = {"servers": max(processors.utilization() for processors, _ in servers), "workers": max(p.utilization() for p, _ in workers),
                "PostgreSQL processors": database.utilization(), "WAL flushes": wal.utilization(),
                "WAL throughput": rate * self.wal / (self.prices["disk"]["maximum_mb_per_second"] * 1e6)}
        return {"p50": 1000 * times[len(times) // 2], "p95": 1000 * times[int(0.95 * len(times))], "busy": busy}


def plans(all_costs: dict[str, Costs], prices: dict, options: argparse.Namespace) -> None:
    print(f"### Machines and money\n\nMix: {', '.join(f'{100 * share:.0f} % {name}' for name, share in MIX.items() if name in all_costs)}. "
          f"Peak {options.peak} times the mean, processors planned for {100 * options.utilization:.0f} %, rows kept for {options.retention_days} days, each database with "
          f"a replica. Prices: {prices['source']}. Assumptions: {prices['assumptions']}.\n")
    print("| operations a day | peak/s | servers | workers | databases | connections each | WAL MB/s | disk TB | " + prices["currency"] + " a month "
          "| p50 ms | p95 ms | busiest part |\n|---:|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|---|")
    for per_day in options.per_day:
        plan = Plan(per_day, all_costs, prices, options)
        found = plan.simulate(all_costs)
        # A single flush at a time is always busy under load, and group commit then shares it: it is not a limit.
        part, busy = max(((name, value) for name, value in found["busy"].items() if name != "WAL flushes"), key=lambda item: item[1])
        print(f"| {per_day:.0e} | {plan.rate:.0f} | {plan.servers} | {plan.workers} | {plan.databases} × {plan.database['name']} | {plan.connections()} | "
              f"{plan.rate * plan.wal / 1e6:.2f} | {plan.stored / 1e12:.2f} | {plan.money():.0f} | {found['p50']:.1f} | {found['p95']:.1f} | {part}, {100 * busy:.0f} % |")
    print()


def limits(all_costs: dict[str, Costs], prices: dict, options: argparse.Namespace) -> None:
    """Operations a day at which each part of a fleet with one database is full."""
    plan = Plan(1e6, all_costs, prices, options)
    largest, disk = prices["database"][-1], prices["disk"]
    day = DAY / options.peak
    rows = [
        ("100 connections (the default of PostgreSQL)", (100 // CONNECTIONS - 1) * prices["server"]["cores"] * options.utilization / plan.server_cpu * day,
         "PgBouncer, or a larger `max_connections`"),
        (f"disk of {disk['included_mb_per_second']} MB/s (included)", disk["included_mb_per_second"] * 1e6 * options.utilization / plan.wal * day, "more throughput, or a local disk"),
        (f"PostgreSQL on {largest['cores']} cores", largest["cores"] * options.utilization / plan.database_cpu * day, "a database for each group of tenants"),
        (f"disk of {disk['maximum_mb_per_second']} MB/s", disk["maximum_mb_per_second"] * 1e6 * options.utilization / plan.wal * day, "a database for each group of tenants"),
        (f"{disk['maximum_tb']} TB of rows", disk["maximum_tb"] * 1e12 / 1.3 / plan.disk / options.retention_days, "shorter retention, old rows as Parquet files"),
    ]
    print("### Where the next bottleneck comes\n\n| part of a fleet with one database | full at operations a day | then |\n|---|---:|---|")
    for name, per_day, then in sorted(rows, key=lambda row: row[1]):
        print(f"| {name} | {per_day:.1e} | {then} |")
    print()


def self_check() -> None:
    """A queue with a known answer: with Poisson arrivals and exponential work, the mean time is 1 / (capacity - rate)."""
    simulation, chance, times = Simulation(), random.Random(7), []
    processors = Processors(simulation, 1)

    def customer():
        began = simulation.now
        yield processors.work(chance.expovariate(10))
        times.append(simulation.now - began)

    def arrivals():
        while True:
            yield simulation.sleep(chance.expovariate(7))
            simulation.spawn(customer())
    simulation.spawn(arrivals())
    simulation.run(20_000)
    mean, expected = sum(times) / len(times), 1 / (10 - 7)
    if abs(mean / expected - 1) > 0.05 or abs(processors.utilization() - 0.7) > 0.02:
        raise SystemExit(f"error: the simulation is wrong: mean time {mean:.3f} s instead of {expected:.3f} s")


def main() -> int:
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", default="costs.json", help="file that measure_costs.py wrote [default: %(default)s]")
    parser.add_argument("--prices", default=here / "capacity_prices.json", help="prices with source and date [default: capacity_prices.json]")
    parser.add_argument("--peak", type=float, default=3, help="peak rate divided by the mean rate [default: %(default)s]")
    parser.add_argument("--utilization", type=float, default=0.6, help="share of a processor that is planned for [default: %(default)s]")
    parser.add_argument("--retention-days", type=float, default=90, help="days that rows are kept [default: %(default)s]")
    parser.add_argument("--per-day", type=lambda text: [float(part) for part in text.split(",")], default=[1e6, 1e8, 1e9])
    parser.add_argument("--most-error", type=float, default=0.35, help="exit with 1 if the mean error of the predictions is larger [default: %(default)s]")
    options = parser.parse_args()
    try:
        data, prices = (json.loads(Path(path).read_text()) for path in (options.costs, options.prices))
    except (OSError, ValueError) as error:
        print(f"error: cannot read costs or prices: {error}\nhint: run studies/measure_costs.py first", file=sys.stderr)
        return 2
    missing = set(MIX) - set(data["operations"])
    if missing:
        print(f"error: {options.costs} has no costs of: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    self_check()
    all_costs = {name: Costs(points) for name, points in data["operations"].items()}
    error = validate(data, all_costs)
    print("### Costs per operation\n\n| operation | server ms | worker ms | PostgreSQL ms | WAL bytes | flushes | disk bytes |\n|---|---:|---:|---:|---:|---:|---:|")
    for name, costs in all_costs.items():
        print(f"| {name} | {1000 * costs.server:.2f} | {1000 * costs.worker:.2f} | {1000 * costs.postgres:.2f} | {costs.wal:.0f} | {costs.flushes:.2f} | {costs.disk:.0f} |")
    print()
    plans(all_costs, prices, options)
    limits(all_costs, prices, options)
    return 1 if error > options.most_error else 0


if __name__ == "__main__":
    sys.exit(main())
