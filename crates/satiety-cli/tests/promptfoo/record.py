"""Records the verdicts of promptfoo itself on the configurations in this directory.

Usage: python3 record.py PROMPTFOO > verdicts.json

PROMPTFOO is the command of an installed promptfoo; the file in the repository was recorded with version 0.121.20.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

OFFLINE = {
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
    "PROMPTFOO_DISABLE_REMOTE_GENERATION": "1",
    "PROMPTFOO_DISABLE_SHARING": "1",
}


def verdicts(promptfoo, config):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [promptfoo, "eval", "-c", config, "-o", out, "--no-cache", "--no-progress-bar", "--no-table", "--no-write"]
        environment = {**os.environ, **OFFLINE, "PROMPTFOO_CONFIG_DIR": folder}
        subprocess.run(command, cwd=config.parent, env=environment, stdout=subprocess.DEVNULL, check=False)
        rows = json.loads(pathlib.Path(out).read_text())["results"]["results"]
    found = {}
    for row in rows:
        name = row["provider"].get("label") or row["provider"]["id"]
        found.setdefault(row["testCase"]["description"], []).append([name, row["success"]])
    return {description: sorted(rows) for description, rows in sorted(found.items())}


def main():
    here = pathlib.Path(__file__).parent.resolve()
    configs = sorted(here.glob("*/promptfooconfig.*"))
    json.dump({config.parent.name: verdicts(sys.argv[1], config) for config in configs}, sys.stdout, indent=1)


main()
