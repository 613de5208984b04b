"""Runs Python checks: a line of JSON in, a line of JSON out."""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
import textwrap

# Standard output belongs to the protocol, so checks print to standard error.
protocol, sys.stdout = sys.stdout, sys.stderr
modules = {}


def load(file, name):
    if file not in modules:
        sys.path.insert(0, os.path.dirname(file))
        spec = importlib.util.spec_from_file_location("check_%d" % len(modules), file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[file] = module
    return getattr(modules[file], name or "get_assert")


def compile_code(code):
    code = code.strip("\n").rstrip()
    body = code if "\n" in code else "return " + code.strip()
    scope = {}
    exec("def check(output, context):\n" + textwrap.indent(textwrap.dedent(body), "    "), scope)
    return scope["check"]


def check(request):
    try:
        run = load(request["file"], request.get("function")) if request.get("file") else compile_code(request["code"])
    except Exception as error:
        return {"invalid": "%s: %s" % (type(error).__name__, error)}
    try:
        returned = run(request["output"], request["context"])
        if inspect.isawaitable(returned):
            returned = asyncio.run(returned)
        return json.loads(json.dumps({"returned": returned}, allow_nan=False))
    except Exception as error:
        return {"thrown": "%s: %s" % (type(error).__name__, error)}


for line in sys.stdin:
    protocol.write(json.dumps({"output": check(json.loads(line)["input"]["config_overrides"])}) + "\n")
    protocol.flush()
