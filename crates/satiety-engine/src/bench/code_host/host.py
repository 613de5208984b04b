"""Runs Python programs: a line of JSON in, a line of JSON out.

With settings of a provider as an argument it answers requests to that provider, otherwise it runs lists of
checks, transforms and calls.
"""

# Modules that few programs need are imported where they are used: the start of the process counts.
import contextlib
import json
import os
import sys

# Files of the user are read, not accompanied by caches.
sys.dont_write_bytecode = True

# Standard output belongs to the protocol, so programs print to standard error.
protocol, sys.stdout = sys.stdout, sys.stderr
settings = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
modules = {}
compiled = {}
if settings.get("root"):
    # Inline programs need no files.
    with contextlib.suppress(OSError):
        os.chdir(settings["root"])


def load(file, name):
    if file not in modules:
        import importlib.util

        sys.path.insert(0, os.path.dirname(file))
        spec = importlib.util.spec_from_file_location("program_%d" % len(modules), file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules[file] = module
    return getattr(modules[file], name)


def script(file):
    """A script without a function prints its result; its argument is the context."""
    import io
    import runpy

    def main(context):
        before, printed = sys.argv, io.StringIO()
        sys.argv = [file, json.dumps(context)]
        try:
            with contextlib.redirect_stdout(printed):
                runpy.run_path(file, run_name="__main__")
        finally:
            sys.argv = before
        return printed.getvalue().rstrip("\n")

    return main


def compile_code(code):
    if code not in compiled:
        import textwrap

        text = code.strip("\n").rstrip()
        body = text if "\n" in text else "return " + text.strip()
        scope = {"json": json}
        exec("def check(output, context):\n" + textwrap.indent(textwrap.dedent(body), "    "), scope)
        compiled[code] = scope["check"]
    return compiled[code]


def finish(returned):
    if not hasattr(returned, "__await__"):
        return returned
    import asyncio

    async def wait():
        return await returned

    return asyncio.run(wait())


def run(job):
    """Returns the result of a program as JSON."""
    try:
        if not job.get("file"):
            program = compile_code(job["code"])
        elif job.get("function"):
            program = load(job["file"], job["function"])
        else:
            program = script(job["file"])
    except Exception as error:
        return json.dumps({"invalid": "%s: %s" % (type(error).__name__, error)})
    try:
        returned = finish(program(*job["arguments"]))
        return json.dumps({"returned": returned}, allow_nan=False)
    except Exception as error:
        return json.dumps({"thrown": "%s: %s" % (type(error).__name__, error)})


def answer(request):
    try:
        call = load(settings["file"], settings.get("function") or "call_api")
        context = {"vars": request.get("config_overrides", {}).get("vars", {}), "prompt": {"raw": request["goal"]}}
        returned = finish(call(request["goal"], settings["options"], context))
        return returned if isinstance(returned, dict) else {"output": returned}
    except Exception as error:
        return {"error": "%s: %s" % (type(error).__name__, error)}


for line in sys.stdin:
    request = json.loads(line)["input"]
    if "file" in settings:
        reply = json.dumps(answer(request))
    else:
        reply = '{"output": [%s]}' % ", ".join(map(run, request["config_overrides"]["jobs"]))
    protocol.write(reply + "\n")
    protocol.flush()
