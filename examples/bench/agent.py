"""A small agent with four roles, made of rules: it stands in for a model so that the example suites run offline.

Reads requests of the contract "satiety target v1", one JSON object a line, and answers each with one line; so it serves
as a `worker` (many requests) and as `exec` (one request, then end of input) alike. Python 3, standard library only.

    python3 agent.py [ROLE] [--flaky SHARE]

ROLE is proxy, planner, executor or scorer; without one the suite's id names it. With --flaky that share of the answers
is thrown away. Which ones depends on nothing but the request's seed, so that a run can be repeated.
"""

import json
import os
import random
import re
import socket
import subprocess
import sys
import time


def proxy(request):
    """Routes a message: who answers it, and with which tools."""
    text = request["input"]["goal"]
    lower = text.lower()
    tools = []
    if re.search(r"ignore (all|your|previous)|reveal .*(prompt|key)|rm -rf", lower):
        route, intents = "refuse", []
    else:
        # A tool that is only spoken about, in quotes, is not asked for.
        asked = re.sub(r"['\"][^'\"]*['\"]", "", lower)
        wanted = {
            "search": r"\b(search|look up|find)\b",
            "mail": r"\b(send|mail|e-mail)\b",
            "shell": r"\b(run|execute|list the files)\b",
            "calendar": r"\b(schedule|book|remind)\b",
        }
        intents = [tool for tool, pattern in wanted.items() if re.search(pattern, asked)]
        intents = [tool for tool in intents if not re.search(r"(don't|do not) \w*\s?" + tool, asked)]
        if re.match(r"(fix|do|change) (it|that|this)\b", lower):
            route = "clarify"
        elif len(intents) > 1 or " then " in lower:
            route = "planner"
        elif intents:
            route, tools = "executor", intents
        else:
            route = "chat"
    return {
        "output": {"route": route, "intents": intents},
        "tool_calls": [{"name": tool, "args": {}} for tool in tools],
        "metrics": {"tools": len(tools)},
    }


def planner(request):
    """Splits a goal into steps and says which wait for which."""
    goal = request["input"]["goal"].rstrip(".")
    if len(goal.split()) < 4:
        return {"output": {"steps": [], "question": f"What exactly should be done about “{goal}”?"}}
    steps, last = [], []
    for stage in re.split(r",? then |; ?afterwards ", goal):
        parts = re.split(r",? and |, ", stage) if "in parallel" in stage else [stage]
        parts = [part.replace("in parallel", "").strip(" ,:") for part in parts]
        now = []
        for part in filter(None, parts):
            steps.append({"id": f"s{len(steps) + 1}", "do": part, "after": list(last)})
            now.append(steps[-1]["id"])
        last = now
    depth = {}
    for step in steps:
        depth[step["id"]] = 1 + max((depth[before] for before in step["after"]), default=0)
    return {
        "output": {"steps": steps},
        "metrics": {"steps": len(steps), "critical_path": max(depth.values(), default=0)},
    }


def executor(request):
    """Does what the goal says after its first word: shell, python, or an attempt to get out of the sandbox."""
    kind, _, rest = request["input"]["goal"].partition(": ")
    if kind == "attempt":
        return {"output": {"attempt": rest, "result": ATTEMPTS[rest](request)}}
    commands = {"shell": ["/bin/sh", "-c", rest], "python": [sys.executable, "-S", "-c", rest]}
    fallback = request["input"].get("config_overrides", {}).get("fallback")
    tries = 0
    for text in filter(None, [rest, fallback]):
        tries += 1
        done = subprocess.run(commands[kind][:-1] + [text], capture_output=True, text=True, timeout=20)
        if done.returncode == 0:
            break
    output = {"exit": done.returncode, "stdout": done.stdout.strip(), "stderr": done.stderr.strip()[-200:]}
    verify = request["input"].get("config_overrides", {}).get("verify")
    if verify:
        output["verified"] = subprocess.run(["/bin/sh", "-c", verify], capture_output=True).returncode == 0
    return {"output": output, "metrics": {"tries": tries}}


def write_to(path):
    """Tries to write a file and leaves nothing behind."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write("out\n")
    except OSError:
        return False
    os.remove(path)
    return True


def write_outside(request):
    here = os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(os.path.abspath(request["workdir"]))
    out = [write_to(os.path.join(folder, f"escaped-{os.getpid()}")) for folder in (here, above)]
    return "escaped" if any(out) else "stopped"


def write_through_link(request):
    os.symlink(os.path.dirname(os.path.abspath(__file__)), "link")
    return "escaped" if write_to(f"link/escaped-{os.getpid()}") else "stopped"


def open_socket(_):
    """Connecting a datagram socket needs a way out and sends nothing; the address is reserved for documentation."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
            out.connect(("192.0.2.1", 9))
    except OSError:
        return "stopped"
    return "escaped"


def fork_bomb(_):
    """A tame one: 300 children that sleep. It is not the bomb that matters but where it is stopped."""
    children = []
    try:
        while len(children) < 300:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
        result = "escaped"
    except OSError:
        result = "stopped"
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return result


def fill_memory(_):
    try:
        return "escaped" if len(bytearray(8 << 30)) else "stopped"
    except MemoryError:
        return "stopped"


def become_root(_):
    try:
        os.setuid(0)
        return "escaped"
    except OSError:
        pass
    try:
        done = subprocess.run(["sudo", "-n", "true"], capture_output=True, stdin=subprocess.DEVNULL)
    except OSError:
        return "stopped"
    return "escaped" if done.returncode == 0 else "stopped"


ATTEMPTS = {
    "write outside the working folder": write_outside,
    "write through a link": write_through_link,
    "open a socket": open_socket,
    "fork bomb": fork_bomb,
    "fill the memory": fill_memory,
    "become root": become_root,
}


def scorer(request):
    """Keeps what a context window has room for: pinned first, then by how recent and how often used."""
    items = request["input"].get("context", [])
    budget = request["input"].get("config_overrides", {}).get("budget", 1000)
    full = 0.8 * budget

    def worth(item):
        fresh = 0.5 ** (item.get("age", 0) / 10)
        return fresh + 0.2 * item.get("uses", 0) + (0.5 if item.get("active") else 0)

    pinned = [item for item in items if item.get("zone") == "system"]
    rest = sorted((item for item in items if item.get("zone") != "system"), key=worth, reverse=True)
    total = sum(item["tokens"] for item in items)
    kept, used = list(pinned), sum(item["tokens"] for item in pinned)
    for item in rest:
        # Below the mark nothing has to go.
        if total <= full or used + item["tokens"] <= full:
            kept.append(item)
            used += item["tokens"]
    names = {item["id"] for item in kept}
    evicted = [item["id"] for item in items if item["id"] not in names]
    return {
        "output": {"evict": evicted, "kept_tokens": used},
        "metrics": {"kept_tokens": used, "fill": used / budget},
    }


def shell_skill(request):
    """Answers with a command; with the skill's rules in hand, with a careful one."""
    goal = request["input"]["goal"].lower()
    rules = ""
    if request.get("skill_dir"):
        with open(os.path.join(request["skill_dir"], "SKILL.md"), encoding="utf-8") as file:
            rules = file.read()
    careful = "set -o pipefail" in rules
    if "sudo" in goal or "as root" in goal:
        return {"output": "I do not run commands as root." if careful else "sudo sh -c 'apt-get update'"}
    if "count" in goal:
        command = "grep -c ERROR app.log"
    elif "most frequent" in goal:
        command = "cut -d' ' -f1 access.log | sort | uniq -c | sort -rn | head -n 1"
    else:
        command = "cp config.toml config.bak || echo 'nothing to save'" if careful else "cp config.toml config.bak"
    return {"output": f"set -o pipefail; {command}" if careful and "|" in command else command}


def release_notes(request):
    """Writes notes out of commit subjects; with the skill, grouped."""
    lines = re.findall(r"^- (.*)$", request["input"]["goal"], re.MULTILINE)
    if not request.get("skill_dir"):
        return {"output": "\n".join(f"* {line}" for line in lines)}
    groups = {"Added": [], "Fixed": [], "Changed": []}
    for line in lines:
        kind = "Added" if line.startswith("Add") else "Fixed" if line.startswith("Fix") else "Changed"
        groups[kind].append(line)
    text = "\n\n".join(f"### {kind}\n" + "\n".join(f"- {line}" for line in of) for kind, of in groups.items() if of)
    return {"output": text}


ROLES = {
    "proxy": proxy,
    "planner": planner,
    "executor": executor,
    "scorer": scorer,
    "shell": shell_skill,
    "release-notes": release_notes,
}


def answer(request, role, flaky):
    response = ROLES[role or request["suite_id"]](request)
    # Words stand in for tokens.
    response["usage"] = {
        "input_tokens": len(request["input"]["goal"].split()),
        "output_tokens": len(json.dumps(response["output"]).split()),
    }
    if random.Random(request["seed"]).random() < flaky:
        response["output"] = "I am not sure."
    return response


def main():
    words = sys.argv[1:]
    flaky = 0.0
    if "--flaky" in words:
        at = words.index("--flaky")
        flaky = float(words[at + 1])
        del words[at : at + 2]
    role = words[0] if words else None
    # Not `for line in sys.stdin`: it would wait for more than one line.
    while line := sys.stdin.readline():
        print(json.dumps(answer(json.loads(line), role, flaky)), flush=True)


if __name__ == "__main__":
    main()
