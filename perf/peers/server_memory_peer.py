"""Searches of the MCP server @modelcontextprotocol/server-memory over standard input and output.

Run by `cargo run --release -p perf --bin memory -- --server-memory COMMAND`; reads entities and queries from a directory, prints JSON.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path


class Client:
    def __init__(self, command, memory_file):
        environment = {**os.environ, "MEMORY_FILE_PATH": str(memory_file)}
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.number = 0

    def send(self, message):
        self.process.stdin.write((json.dumps({"jsonrpc": "2.0", **message}) + "\n").encode())
        self.process.stdin.flush()

    def call(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(answer["error"])
                return answer["result"]

    def search(self, query):
        result = self.call("tools/call", {"name": "search_nodes", "arguments": {"query": query}})
        text = "".join(part.get("text", "") for part in result["content"])
        if result.get("isError"):
            raise RuntimeError(text[:300])
        return text

    def usage(self):
        """CPU seconds and resident megabytes of the process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        ticks = int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main():
    folder = Path(sys.argv[1])
    queries = json.loads((folder / "queries.json").read_text())
    began = time.perf_counter()
    client = Client(sys.argv[2], folder / "memory.jsonl")
    client.call(
        "initialize",
        {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "perf", "version": "1"}},
    )
    client.send({"method": "notifications/initialized"})
    client.search(queries[0])
    build = time.perf_counter() - began
    cpu, _ = client.usage()
    times = []
    for query in queries:
        start = time.perf_counter()
        client.search(query)
        times.append((time.perf_counter() - start) * 1e3)
    after, megabytes = client.usage()
    client.process.kill()
    print(
        json.dumps(
            {
                "name": "server-memory: substring",
                "times": times,
                "cpu": (after - cpu) * 1e3 / len(queries),
                "megabytes": megabytes,
                "build_seconds": build,
            }
        )
    )


if __name__ == "__main__":
    main()
