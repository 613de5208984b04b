"""Drives `/mcp` of `satiety serve` with the official Python SDK: with the handshake of older clients, which makes a session,
and as newer clients do. Usage: mcp_http.py URL TOKEN RESEARCH_ID ADMIN_TOKEN. Prints the failed check and exits with 1."""

import asyncio
import http.client
import json
import sys
from urllib.parse import urlsplit

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

URL, TOKEN, RESEARCH, ADMIN = sys.argv[1:]
HELLO = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}},
}


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def transport(headers):
    return streamable_http_client(URL, http_client=httpx2.AsyncClient(headers=headers, timeout=30))


def connect(headers, mode):
    return Client(transport(headers), mode=mode)


async def call(client, tool, /, **arguments):
    result = await client.call_tool(tool, arguments)
    check(not result.is_error, f"{tool}: {result.content[0].text}")
    check(json.loads(result.content[0].text) == result.structured_content, f"{tool}: text and structured content differ")
    return result.structured_content


async def check_tools(mode):
    async with connect({"Authorization": f"Bearer {TOKEN}"}, mode) as client:
        check(client.server_info.name == "satiety", client.server_info)
        names = {tool.name for tool in (await client.list_tools()).tools}
        check({"memory_search", "gate", "harness_propose"} <= names, names)
        check(not any("approve" in name for name in names), f"no tool may approve: {names}")
        text = f"Readers of {mode} never wait for the writer."
        saved = (await call(client, "memory_save", title=f"WAL {mode}", content=text))["memory"]["id"]
        session = {} if mode == "legacy" else {"session": "newer"}
        found = await call(client, "memory_search", query=f"do readers of {mode} wait", **session)
        read = await call(client, "memory_read", id=saved, **session)
        # Both calls share a session: the read is attributed to the search before it.
        check(read["query_id"] == found["query_id"], (mode, read, found))
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        check("satiety://research/{id}" in templates, templates)
        listed = [str(one.uri) for one in (await client.list_resources()).resources]
        check(f"satiety://research/{RESEARCH}" in listed, listed)
        report = (await client.read_resource(f"satiety://research/{RESEARCH}")).contents[0]
        check("heat pump" in report.text.lower() and report.mime_type == "text/markdown", report)
        check(report.meta["satiety/data"] is True, "a report must be marked as data")
        check("examples/research" not in report.text, "the report must not name local paths")
        for uri in ["satiety://research/none", "satiety://research/../x", "file:///etc/passwd"]:
            try:
                await client.read_resource(uri)
                check(False, f"{uri} must not exist")
            except MCPError as error:
                check("root:" not in str(error), error)


async def benchmarks():
    async def refused(client, tool, words, **arguments):
        result = await client.call_tool(tool, arguments)
        text = result.content[0].text
        check(result.is_error and words in text, (tool, arguments, text))
        check("/examples" not in text, f"errors must not name the root: {text}")

    async with connect({"Authorization": f"Bearer {TOKEN}"}, "legacy") as client:
        await refused(client, "bench_run", "scope `admin`", suite="executor")
        await refused(client, "harness_record", "scope `admin`")
        await refused(client, "bench_status", "not found", run="/etc/passwd")
    async with connect({"Authorization": f"Bearer {ADMIN}"}, "legacy") as client:
        await refused(client, "bench_run", "not a path below the root", suite="../transcripts")
        await refused(client, "bench_run", "not a path below the root", suite="/etc")
        await refused(client, "bench_run", "not found", suite="nowhere")
        await refused(client, "bench_run", "not allowed for remote callers", suite="executor", target="/bin/sh")
        await refused(client, "bench_run", "from 1 to", suite="executor", repeats=1000000)
        ran = await call(client, "bench_run", suite="executor")
        check(ran["summary"]["passed"] > 0 and not ran["interrupted"], ran)
        status = await call(client, "bench_status", run=ran["run_id"])
        check(status["summary"] == ran["summary"], (status, ran))
        check((await call(client, "bench_status", run="latest"))["runs"][0]["run_id"] == ran["run_id"], ran)
        compared = await call(client, "bench_compare", baseline=ran["run_id"], candidate=ran["run_id"])
        check(compared["verdict"] != "regression", compared)
        await refused(client, "bench_compare", "not found", baseline=ran["run_id"], candidate="Cargo.toml")


def check_audit_log():
    address = urlsplit(URL)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    connection.request("GET", "/v1/audit", headers={"Authorization": f"Bearer {ADMIN}"})
    noted = {(entry["path"], entry["status"]) for entry in json.load(connection.getresponse())["entries"]}
    wanted = {("/mcp/memory_save", 200), ("/mcp/bench_run", 200), ("/mcp/bench_run", 422)}
    check(wanted <= noted, noted)
    check(not any("search" in path or "status" in path for path, _ in noted), f"reads must not be in the audit log: {noted}")


async def check_rejected(headers, what):
    try:
        async with connect(headers, "legacy") as client:
            await client.list_tools()
    except BaseException:
        return
    check(False, f"{what}: was accepted")


def raw(headers, method="POST", body=HELLO):
    address = urlsplit(URL)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
    default = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.putrequest(method, address.path, skip_host=True)
    text = json.dumps(body).encode()
    default["Content-Length"] = str(len(text))
    for name, value in ({"Host": address.netloc} | default | headers).items():
        connection.putheader(name, value)
    connection.endheaders(text)
    status = connection.getresponse().status
    connection.close()
    return status


def statuses():
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    own = URL.removesuffix("/mcp")
    for headers, expected in [
        ({}, 401),
        ({"Authorization": "Bearer satiety_wrong_wrong"}, 401),
        ({"Authorization": TOKEN}, 401),
        (bearer, 200),
        (bearer | {"Origin": own}, 200),
        (bearer | {"Origin": "https://evil.example"}, 403),
        (bearer | {"Origin": "null"}, 403),
        (bearer | {"Host": "evil.example"}, 421),
        (bearer | {"Host": "127.0.0.1.evil.example"}, 421),
        (bearer | {"Mcp-Session-Id": "0" * 32}, 404),
    ]:
        status = raw(headers)
        check(status == expected, f"{headers}: {status}, expected {expected}")


async def main():
    statuses()
    await check_rejected({}, "without a token")
    await check_rejected({"Authorization": "Bearer satiety_wrong_wrong"}, "with a wrong token")
    for mode in ["legacy", "auto"]:
        await check_tools(mode)
    await benchmarks()
    check_audit_log()


asyncio.run(asyncio.wait_for(main(), 120))
print("all of it")
