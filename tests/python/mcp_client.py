"""Drives `satiety mcp` with the official Python SDK, once with the handshake of older clients and once with that of newer
ones. Usage: mcp_client.py PATH_OF_SATIETY DIRECTORY. Prints the failed check and exits with 1."""

import asyncio
import json
import sys
import time
from pathlib import Path

import jsonschema
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

SATIETY, FOLDER = sys.argv[1], Path(sys.argv[2])


def server(name, *arguments):
    return StdioServerParameters(
        command=SATIETY,
        args=["--db", f"sqlite:{FOLDER / (name + '.db')}", "mcp", *arguments],
        env={"SATIETY_MODELS_EMBEDDER": "none", "HOME": str(FOLDER)},
        cwd=FOLDER,
    )


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def call(client, tool, /, **arguments):
    """Calls a tool that must succeed; the SDK validates the result against the output schema."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    check(not result.is_error, f"{tool}: {text}")
    check(json.loads(text) == result.structured_content, f"{tool}: text and structured content differ")
    return result.structured_content


async def fails(client, tool, /, **arguments):
    result = await client.call_tool(tool, arguments)
    check(result.is_error, f"{tool} {arguments}: should be an error")
    return result.content[0].text


async def tools(client):
    listed = (await client.list_tools()).tools
    for tool in listed:
        check(tool.description and len(tool.description) < 400, f"{tool.name}: no description, or a long one")
        check(tool.annotations.read_only_hint is not None, f"{tool.name}: no annotations")
        check(tool.output_schema["type"] == "object", f"{tool.name}: no output schema")
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    return {tool.name: tool for tool in listed}


async def check_memory(mode):
    async with Client(server(f"memory-{mode}", "--profile", "memory"), mode=mode) as client:
        check(client.server_info.name == "satiety", client.server_info)
        check("data" in client.instructions, client.instructions)
        offered = await tools(client)
        check(offered["memory_delete"].annotations.destructive_hint is True, "memory_delete must be marked destructive")
        check(offered["memory_search"].annotations.read_only_hint is True, "memory_search must be marked read-only")

        text = "Readers never wait for the writer, because the log is separate from the file."
        wal = (await call(client, "memory_save", title="Use WAL", content=text, tier="important",
                          triggers=["sqlite locked"], kind="decision"))["memory"]["id"]
        other = (await call(client, "memory_save", title="Lock order", content="Store lock before journal lock."))["memory"]["id"]
        await call(client, "memory_causal_link", **{"from": wal, "kind": "supports", "to": other})

        begun = await call(client, "task_preflight", task="why is the database locked for readers",
                           knowledge_score=40, uncertainty_score=70, context_score=50)
        check(begun["context"]["results"][0]["id"] == wal, begun)
        explained = await call(client, "memory_search", query="journal lock", explain=True)
        check(len(explained["telemetry"]["stages"]) == 5, explained)
        found = await call(client, "memory_search", query="do readers wait for the writer?", limit=2)
        check(found["results"][0]["id"] == wal and "lexical" in found["results"][0]["channels"], found)
        check("results[].excerpt" in found["data_fields"] and "degraded" in found, found)
        check("telemetry" not in found, "telemetry must be opt-in")
        read = await call(client, "memory_read", id=wal)
        check(read["content"] == text and read["rank_in_results"] == 1, read)
        check(read["links"][0]["to"] == other, read)
        matched = await call(client, "memory_match_triggers", text="SQLite locked, although " + text)
        check([one["id"] for one in matched["matches"]] == [wal], matched)
        updated = await call(client, "memory_update", id=other, tier="critical")
        check(updated["memory"]["tier"] == "critical", updated)
        validated = await call(client, "memory_validate", id=wal, useful=True)
        check(validated["confidence"] == 0.6 and validated["rank_in_results"] == 1, validated)
        closed = await call(client, "task_postflight", outcome="success", knowledge_score=80, uncertainty_score=30,
                            context_score=70, text="As we know: " + text,
                            learnt=[{"title": "Locks", "content": "Locked means a writer holds the file."}])
        check(closed["deltas"]["learning_index"] == 35.0 and closed["referenced"] == [wal], closed)
        check(len(closed["saved"]) == 1 and closed["not_validated"] == [], closed)
        health = await call(client, "memory_health")
        check(health["memories"] == 3 and health["tasks"]["success_rate"] == 1.0, health)

        session = json.loads((await client.read_resource(f"satiety://sessions/{begun['session_id']}")).contents[0].text)
        check(wal in [one for query in session["queries"] for one in query["selected_ids"]], session)

        await paging(client)
        await errors(client)
        await resources(client, wal, text)
        await prompts(client)
        await call(client, "memory_delete", ids=[other])
        check("not found" in await fails(client, "memory_read", id=other), "the memory must be deleted")


async def paging(client):
    for number in range(5):
        await call(client, "memory_save", title=f"Page {number}", content="x", folder="pages")
    seen, cursor = [], None
    while True:
        page = await call(client, "memory_list", folder="pages", limit=2, **({"cursor": cursor} if cursor else {}))
        seen += [one["title"] for one in page["memories"]]
        cursor = page.get("next_cursor")
        if not cursor:
            break
    check(seen == [f"Page {number}" for number in range(5)], seen)
    check("cursor" in await fails(client, "memory_list", cursor="seven"), "an invalid cursor must be rejected")


async def errors(client):
    text = await fails(client, "memory_search")
    check("missing field `query`" in text and "hint:" in text, text)
    text = await fails(client, "memory_search", query="x", mode="deepest")
    check("mode" in text and "quick" in text, text)
    text = await fails(client, "memory_search", query="x", limt=3)
    check("unknown field `limt`" in text, text)
    text = await fails(client, "memory_read", id="mem-0")
    check("memory `mem-0` not found" in text and "hint:" in text, text)
    check("0 to 100" in await fails(client, "task_preflight", task="x", knowledge_score=101), "scores have a range")
    check("no open task" in await fails(client, "task_postflight", outcome="failure"), "nothing is open")
    for name in ["memory_forget", "harness_approve", "bench_run"]:
        try:
            await client.call_tool(name, {})
            check(False, f"{name} must be an unknown tool")
        except MCPError as error:
            check("unknown tool" in str(error), error)
    check((await call(client, "memory_health"))["memories"] > 0, "the server must answer after errors")


async def resources(client, wal, text):
    templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
    check("satiety://memory/{id}" in templates, templates)
    listed = (await client.list_resources()).resources
    check(f"satiety://memory/{wal}" in [str(one.uri) for one in listed], listed)
    contents = (await client.read_resource(f"satiety://memory/{wal}")).contents[0]
    check(text in contents.text and contents.mime_type == "text/markdown", contents)
    check(contents.meta["satiety/data"] is True, contents)
    for uri in ["satiety://memory/mem-0", "satiety://nothing", "file:///etc/passwd"]:
        try:
            await client.read_resource(uri)
            check(False, f"{uri} must not be readable")
        except MCPError:
            pass


async def prompts(client):
    names = [one.name for one in (await client.list_prompts()).prompts]
    check(names == ["recall_before_task", "close_task"], names)
    prompt = await client.get_prompt("recall_before_task", {"task": "mend the locked database"})
    check("mend the locked database" in prompt.messages[0].content.text, prompt)
    check(prompt.messages[1].content.type == "resource", "memory content must be a separate resource")
    await call(client, "task_postflight", outcome="abandoned")


async def verdicts_by_default():
    """The default profile ends a stuck agent and a repeated discussion, and its instructions name only its tools."""
    async with Client(server("default")) as client:
        check("report_step" in client.instructions and "task_preflight" not in client.instructions, client.instructions)
        check((await client.list_prompts()).prompts == [], "prompts need the task tools")
        signals = []
        while "STOP" not in signals and "ESCALATE" not in signals:
            check(len(signals) < 12, signals)
            step = await call(client, "report_step", run_id="r1", tool="shell", arguments={"command": "make"},
                              result="error: missing file config.h", error=True)
            signals.append(step["signal"])
        claims = {"claims": ["Use a queue", "Redis is there already"], "next_actions": ["Add the queue"]}
        rounds = await call(client, "append_round", topic="queue", round=claims)
        while rounds["signal"] == "CONTINUE":
            check(rounds["rounds"] < 12, rounds)
            rounds = await call(client, "append_round", conversation_id=rounds["conversation_id"], round=claims)


async def profiles():
    sizes = {}
    for profile in ["core", "memory", "full"]:
        async with Client(server("profiles", "--profile", profile)) as client:
            sizes[profile] = sorted(await tools(client))
    check(len(sizes["core"]) <= 9, sizes)
    check({"report_step", "append_round", "score_conversation", "memory_search", "memory_save"} <= set(sizes["core"]), sizes)
    await verdicts_by_default()
    check(set(sizes["core"]) < set(sizes["memory"]) < set(sizes["full"]), sizes)
    check(not any("approve" in name or "apply" in name or "reject" in name for name in sizes["full"]), sizes)
    async with Client(server("profiles", "--tools", "gate,memory_search")) as client:
        check(sorted(await tools(client)) == ["gate", "memory_search"], "only the named tools")


async def check_other_tools():
    async with Client(server("rest", "--profile", "full")) as client:
        await tools(client)
        round_of = lambda *claims: {"claims": list(claims)}
        first = await call(client, "append_round", topic="queue", round=round_of("Use a queue", "Redis is there already"))
        again = await call(client, "append_round", conversation_id=first["conversation_id"], round=round_of("Use a queue"))
        check(again["rounds"] == 2 and again["novelty"] is not None, again)
        scored = await call(client, "score_conversation", record=True,
                            rounds=[round_of("Use a queue"), round_of("Use a queue"), round_of("Use a queue")])
        check(scored["signal"] in ["STOP", "SHIP", "ESCALATE", "CONTINUE"], scored)
        report = await client.read_resource(scored["report"])
        check("rounds" in json.loads(report.contents[0].text), report)
        hits = [{"title": "Queues", "url": "https://a.example/1", "snippet": "Redis streams keep messages until acknowledged."}]
        gate = await call(client, "gate", task="which queue", rounds=[{"query": "queue", "results": hits}] * 4)
        check(gate["decision"] in ["continue", "stop"] and len(gate["rounds"]) == 4, gate)
        items = [{"ctx_id": f"i{n}", "content": f"output {n} " * 50} for n in range(6)]
        proposal = await call(client, "evict_propose", scope_id="s", items=items, turn=1, free_tokens=100, timeout_ms=60000)
        check(proposal["candidates"], proposal)
        keep = proposal["candidates"][0]["ctx_id"]
        resolved = await call(client, "evict_resolve", proposal_id=proposal["proposal_id"],
                              keep=[{"ctx_id": keep, "reason": "still needed"}])
        check(resolved["proposal_id"] == proposal["proposal_id"], resolved)
        check((await call(client, "bench_status"))["runs"] == [], "no runs yet")
        await benches(client)
        text = await fails(client, "harness_status", folder=str(FOLDER / "nowhere"))
        check("hint:" in text, text)


async def benches(client):
    suite = FOLDER / "suite"
    suite.mkdir(exist_ok=True)
    (suite / "suite.toml").write_text(
        'suite_id = "slow"\nname = "Slow"\ntarget = "slow"\nversion = "1.0.0"\n[[cases]]\ncase_id = "one"\n'
        'input.goal = "Say hi."\nexpected = { mode = "contains", value = "hi" }\ntags = ["smoke"]\n'
        'difficulty = "easy"\nsource = "synthetic"\n'
    )
    (suite / "agent.sh").write_text("cat > /dev/null\nsleep 0.2\necho hi\n")
    (suite / "target.toml").write_text('type = "exec"\ncommand = "/bin/sh"\nargs = ["{{base}}/agent.sh"]\n')
    seen = []

    async def progress(done, total, message):
        seen.append((done, total))

    result = await client.call_tool("bench_run", {"suite": str(suite), "repeats": 3}, progress_callback=progress)
    check(not result.is_error, result.content[0].text)
    run = result.structured_content
    check(run["summary"]["pass_rate"] == 1.0 and run["summary"]["cases"] == 1 and seen and seen[-1][1] == 3, (run, seen))
    check("slow" in (await client.read_resource(run["report"])).contents[0].text, "the run as a report")
    same = await call(client, "bench_compare", baseline=run["run_id"], candidate=run["run_id"])
    check(same["baseline_run"] == run["run_id"], same)

    # Cancelled in the middle: the client continues at once, the server stops the run and answers the next call.
    began = time.monotonic()
    try:
        async with asyncio.timeout(1.5):
            await client.call_tool("bench_run", {"suite": str(suite), "repeats": 100})
        check(False, "the run must not be finished yet")
    except TimeoutError:
        pass
    check(time.monotonic() - began < 5, "cancelling must be quick")
    runs = (await call(client, "bench_status"))["runs"]
    check(len(runs) == 2 and time.monotonic() - began < 10, runs)


async def main():
    for mode in ["legacy", "auto"]:
        await check_memory(mode)
    await profiles()
    await check_other_tools()


asyncio.run(asyncio.wait_for(main(), 240))
print("all of it")
