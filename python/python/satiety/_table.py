"""Tables for people: text for the terminal, HTML for notebooks."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def format_cell(value: object) -> str:
    """Format a value for a table: floats with four significant digits, absent values as a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        parts: tuple[object, ...] = value
        return f"{len(parts)} items" if len(parts) > 3 else ", ".join(map(str, parts)) or "–"
    return str(value)


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format rows as a table of text; columns of numbers are aligned to the right."""
    cells = [[format_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [
        bool(rows) and all(isinstance(row[index], (int, float)) or row[index] is None for row in rows)
        for index in range(len(head))
    ]

    def line(row: Sequence[str]) -> str:
        parts = (
            cell.rjust(width) if aligned else cell.ljust(width)
            for cell, width, aligned in zip(row, widths, right, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join([line(head), *map(line, cells)])


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format rows as an HTML table; every cell is escaped."""
    from html import escape  # only notebooks need it

    def row(tag: str, values: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(format_cell(value))}</{tag}>" for value in values) + "</tr>"

    body = "".join(row("td", values) for values in rows)
    return f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


class Table:
    """A result that prints itself as a table: by default, its fields."""

    __slots__ = ()

    def _head(self) -> tuple[str, ...]:
        return (type(self).__name__, "")

    def _rows(self) -> Sequence[Sequence[object]]:
        return [(name.replace("_", " "), value) for name, value in _values(self)]

    def __repr__(self) -> str:
        return text_table(self._head(), self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._head(), self._rows())


def _values(result: Any) -> list[tuple[str, object]]:
    if not is_dataclass(result):
        return []
    return [(field.name, getattr(result, field.name)) for field in fields(result) if field.repr]
