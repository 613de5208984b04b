"""Fixtures for the tests of all adapters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import satiety._watch

if TYPE_CHECKING:
    from collections.abc import Iterator


class Broken:
    """A judge that fails."""

    def __init__(self, **_: object) -> None:
        pass

    def observe(self, _: object) -> Any:
        raise RuntimeError("the judge is broken")


@pytest.fixture
def broken_judge(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Breaks the judge, and checks that its failure is logged once."""
    monkeypatch.setattr(satiety._watch, "Progress", Broken)
    caplog.set_level(logging.INFO, logger="satiety")
    yield
    assert [record.levelname for record in caplog.get_records("call") if record.name == "satiety"] == ["ERROR"]
