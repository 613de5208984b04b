"""Tables for people: text for the terminal, HTML for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def html_table(head: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> str:
    """Format rows as an HTML table; every cell is escaped."""
    from html import escape  # only notebooks need it

    def row(tag: str, values: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(format_cell(value))}</{tag}>" for value in values) + "</tr>"

    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(row("td", values) for values in rows)
    return f"<table>{title}<thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"
