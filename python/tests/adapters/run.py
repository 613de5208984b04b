"""Test each adapter with the real framework: an environment per framework, the wheel, its tests and its types.

python tests/adapters/run.py WHEEL [--only langchain] [--directory target/adapters]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent

# The versions that the adapters are written for.
FRAMEWORKS = {
    "adk": ["google-adk==2.13.0"],
    "agent_framework": ["agent-framework-core==1.23.0"],
    "autogen": ["autogen-agentchat==0.7.5"],
    "crewai": ["crewai==1.15.30"],
    "inspect": ["inspect-ai==0.3.285"],
    "langchain": ["langchain==1.4.7", "langgraph==1.2.20"],
    "langgraph": ["langchain==1.4.7", "langgraph==1.2.20"],
    "openai_agents": ["openai-agents==0.24.0"],
    "pydantic_ai": ["pydantic-ai-slim==2.62.0"],
    "pytest_plugin": ["pytest-xdist==3.8.0"],
    "ray": ["ray==2.60.0"],
    "smolagents": ["smolagents==1.26.0"],
}
COMMON = ["httpx", "numpy", "pytest==9.2.0", "mypy==2.4.1"]


def main() -> int:
    """Run the tests and print which frameworks failed."""
    parser = argparse.ArgumentParser(description="Test each adapter with the real framework")
    parser.add_argument("wheel", type=Path, help="wheel of the package")
    parser.add_argument("--only", action="append", choices=FRAMEWORKS, help="test this framework only; repeatable")
    parser.add_argument("--directory", type=Path, default=PACKAGE.parent / "target" / "adapters", help="environments")
    arguments = parser.parse_args()
    failed = [name for name in arguments.only or FRAMEWORKS if not check(name, arguments.wheel, arguments.directory)]
    print(f"failed: {', '.join(failed)}" if failed else "all adapters pass")
    return 1 if failed else 0


def check(name: str, wheel: Path, directory: Path) -> bool:
    """Install a framework and the wheel, and run the tests and the type checker."""
    print(f"== {name}: {' '.join(FRAMEWORKS[name])}", flush=True)
    environment = directory / name
    python = environment / "bin" / "python"
    packages = [*FRAMEWORKS[name], *COMMON]
    stamp = environment / "packages.txt"
    if not stamp.is_file() or stamp.read_text() != "\n".join(packages):
        venv.create(environment, clear=True, with_pip=True)
        install(python, packages)
        stamp.write_text("\n".join(packages))
    install(python, ["--force-reinstall", "--no-deps", str(wheel)])
    tests = HERE / f"test_{name}.py"
    # Outside of the package's directory, so that the installed wheel is tested.
    run = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", HERE, tests]
    passed = subprocess.run(run, cwd=environment, check=False).returncode == 0
    sources = PACKAGE / "python"
    config = ["--config-file", PACKAGE / "pyproject.toml", "--cache-dir", environment / "mypy"]
    types = [python, "-m", "mypy", *config, sources / "satiety" / f"{name}.py", tests]
    environ = {**os.environ, "MYPYPATH": f"{sources}{os.pathsep}{HERE}"}
    typed = subprocess.run(types, cwd=environment, env=environ, check=False).returncode == 0
    return passed and typed


def install(python: Path, packages: list[str]) -> None:
    """Install packages, with uv where it is installed, because it shares files between environments."""
    uv = shutil.which("uv")
    tool = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
    subprocess.run([*tool, "--quiet", *packages], check=True)


if __name__ == "__main__":
    sys.exit(main())
