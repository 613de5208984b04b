"""The clients against a real server, and memories on a server and in a local database."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import satiety

COMMAND = os.environ.get("SATIETY_TEST_COMMAND")
needs_command = pytest.mark.skipif(COMMAND is None, reason="the wheel is not installed")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    assert COMMAND is not None
    database = tmp_path_factory.mktemp("server") / "satiety.db"
    server = subprocess.Popen(
        [COMMAND, "serve", "--listen", "127.0.0.1:0", "--db", f"sqlite:{database}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=database.parent,
    )
    assert server.stdout is not None
    try:
        for line in server.stdout:
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                yield found.group()
                break
    finally:
        server.terminate()
        server.wait()


@needs_command
def test_operations_are_typed_and_errors_name_the_field(url: str) -> None:
    with satiety.Client(url) as client:
        assert client.health()["status"]
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        appended = client.append_messages("run-1", {"messages": messages})
        assert (appended["conversation_id"], appended["messages"]) == ("run-1", 2)
        with pytest.raises(satiety.SatietyError) as error:
            client.append_messages("run-1", {"messages": []})
        assert "messages" in (error.value.where or "")
        with pytest.raises(satiety.SatietyError, match="404"):
            client.get_run("no such run")


@needs_command
def test_the_asynchronous_client_answers_too(url: str) -> None:
    async def ask() -> str:
        async with satiety.AsyncClient(url) as client:
            return (await client.health())["status"]

    assert asyncio.run(ask())


def test_no_server_is_an_error() -> None:
    with pytest.raises(satiety.SatietyError, match="cannot GET") as error:
        satiety.Client("http://127.0.0.1:9").health()
    assert error.value.hint
    for junk in (None, 3, "localhost", ""):
        with pytest.raises(satiety.SatietyError):
            satiety.Client(junk)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@needs_command
@pytest.mark.parametrize("where", ["server", "database"])
def test_memories_are_saved_found_and_deleted(where: str, url: str, tmp_path: Path) -> None:
    memory = (
        satiety.Memory("shop", client=satiety.Client(url))
        if where == "server"
        else satiety.Memory("shop", database=tmp_path / "memory.db")
    )
    saved = memory.save("--Retry payments", "The payment service drops requests.", triggers=["payment"])
    found = memory.search("why do payments fail", limit=5)
    assert [hit.id for hit in found] == [saved.id]
    assert found.tokens > 0
    assert memory.get(saved.id).content == "The payment service drops requests."
    assert [entry.title for entry in memory.list()] == ["--Retry payments"]
    memory.delete(saved.id)
    assert memory.list() == ()
    with pytest.raises(satiety.SatietyError, match="not found"):
        memory.get(saved.id)
    for title, content in (("", "x"), ("x", " "), (None, "x"), ("x", 3)):
        with pytest.raises(satiety.SatietyError):
            memory.save(title, content)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_the_generated_files_are_up_to_date() -> None:
    package = Path(__file__).parent.parent
    document = json.loads((package.parent / "docs/reference/openapi.json").read_text())
    assert document["paths"]
    subprocess.run([sys.executable, str(package / "generate_client.py"), "--check"], check=True)
