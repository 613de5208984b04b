from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("langgraph")

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.base import BaseStore, SearchOp
from satiety import Memory, SatietyError, find_command
from satiety.langgraph import SatietyStore

from scripted import run_guide

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> SatietyStore:
    try:
        find_command()
    except SatietyError:
        pytest.skip("the satiety command is not installed")
    return SatietyStore(Memory("adapters", database=tmp_path / "memories.db"))


def test_items_are_put_got_replaced_and_deleted(store: SatietyStore) -> None:
    namespace = ("users", "Ann/Lee")
    assert store.get(namespace, "food") is None
    value = {"text": "Ann likes pizza.", "weight": 3, "tags": ["a"], "nested": {"ä": None}}
    store.put(namespace, "food", value)
    first = store.get(namespace, "food")
    assert first is not None
    assert (first.value, first.key, first.namespace) == (value, "food", namespace)
    store.put(namespace, "food", {"text": "Ann likes soup."})
    second = store.get(namespace, "food")
    assert second is not None
    assert second.value == {"text": "Ann likes soup."}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    store.delete(namespace, "food")
    assert store.get(namespace, "food") is None


def test_items_are_searched_by_meaning_filter_and_namespace(store: SatietyStore) -> None:
    store.put(("users", "ann"), "food", {"text": "Ann likes pizza with olives.", "weight": 3})
    store.put(("users", "ann"), "work", {"text": "Ann writes compilers for a living.", "weight": 5})
    store.put(("users", "bob"), "food", {"text": "Bob likes pizza, too.", "weight": 7})
    assert {item.key for item in store.search(("users", "ann"))} == {"food", "work"}
    ranked = store.search(("users", "ann"), query="What does she like to eat? pizza")
    assert ranked[0].key == "food"
    assert all(item.namespace == ("users", "ann") for item in ranked)
    assert ranked[0].score is not None
    assert [item.key for item in store.search(("users",), filter={"weight": {"$gte": 5, "$lt": 7}})] == ["work"]
    assert [item.namespace for item in store.search(("users",), filter={"weight": 7})] == [("users", "bob")]
    assert len(store.search(("users",), limit=1, offset=2)) == 1
    assert store.list_namespaces(prefix=("users",)) == [("users", "ann"), ("users", "bob")]
    assert store.list_namespaces(suffix=("bob",)) == [("users", "bob")]
    assert store.list_namespaces(max_depth=1) == [("users",)]
    assert len(asyncio.run(store.abatch([SearchOp(("users",))]))[0]) == 3  # type: ignore[arg-type]


def test_other_memories_of_the_project_are_left_alone(store: SatietyStore, tmp_path: Path) -> None:
    Memory("adapters", database=tmp_path / "memories.db").save("Pizza", "Not an item of the store.")
    store.put(("users",), "ann", {"text": "Ann likes pizza."})
    assert [item.key for item in store.search((), query="pizza")] == ["ann"]
    assert store.list_namespaces() == [("users",)]


def test_a_graph_uses_the_store(store: SatietyStore) -> None:
    def remember(state: MessagesState, *, store: BaseStore) -> dict[str, list[str]]:
        store.put(("facts",), "release", {"text": state["messages"][-1].text})
        return {"messages": []}

    builder = StateGraph(MessagesState)
    builder.add_node("remember", remember)
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    state: Any = {"messages": [("user", "The release is in May.")]}
    builder.compile(store=store).invoke(state)
    item = store.get(("facts",), "release")
    assert item is not None
    assert item.value == {"text": "The release is in May."}


@pytest.mark.usefixtures("store")
def test_the_example_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SATIETY_STORE_URL", f"sqlite:{tmp_path / 'guide.db'}")
    run_guide("LangChain and LangGraph", number=2)
    assert "Ann likes pizza." in capsys.readouterr().out
