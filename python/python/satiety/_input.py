"""Arrays and columns from what callers have: lists, numpy arrays, pandas and polars frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import SatietyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def floats(values: Any, where: str = "values") -> Floats:
    """Convert values to a contiguous float64 array, without a copy if they are one."""
    import numpy as np  # imported on first use, because it takes longer to import than this package

    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:
        raise SatietyError(f"{where} must be numbers: {error}", where=where) from None
    if array.ndim != 1:
        raise SatietyError(f"{where} must have one dimension, not {array.ndim}", where=where)
    if array.size == 0:
        raise SatietyError(f"{where} must not be empty", where=where)
    if array.dtype.kind not in "fiub":
        raise SatietyError(f"{where} must be numbers, not {array.dtype}", where=where)
    return np.ascontiguousarray(array, dtype=np.float64)


def paired(left: object, right: object, names: tuple[str, str]) -> tuple[Floats, Floats]:
    """Convert two sequences of numbers that must have the same length."""
    first, second = floats(left, names[0]), floats(right, names[1])
    if first.size != second.size:
        message = f"{names[0]} and {names[1]} must have the same length, not {first.size} and {second.size}"
        raise SatietyError(message, where=names[1])
    return first, second


def whole(value: Any, where: str, smallest: int = 0, largest: int = 2**63 - 1) -> int:
    """Check a whole number."""
    import operator

    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise SatietyError(f"{where} must be a whole number, not {type(value).__name__}", where=where)
    if not smallest <= number <= largest:
        raise SatietyError(f"{where} is {number} (expected {smallest} to {largest})", where=where)
    return number


def text(value: object, where: str) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise SatietyError(f"{where} must be a string, not {type(value).__name__}", where=where)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SatietyError(f"{where} is not valid Unicode: {error.reason}", where=where) from None
    return value


def sequence(values: Any, where: str) -> list[Any]:
    """Check that a value is a list or another iterable, and neither a text nor a mapping."""
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__") or isinstance(values, type):
        raise SatietyError(f"{where} must be a list, not {type(values).__name__}", where=where)
    try:
        return list(values)
    except TypeError as error:
        raise SatietyError(f"{where} must be a list: {error}", where=where) from None


def strings(values: Any, where: str) -> list[str]:
    """Check a list of strings."""
    return [text(value, f"{where}[{index}]") for index, value in enumerate(sequence(values, where))]


def real(value: Any, where: str) -> float:
    """Check a finite number."""
    import math

    try:
        number = float(value)
    except (TypeError, ValueError):
        raise SatietyError(f"{where} must be a number, not {type(value).__name__}", where=where) from None
    if isinstance(value, str) or not math.isfinite(number):
        raise SatietyError(f"{where} must be a finite number, not {value!r}", where=where)
    return number


def is_frame(value: object) -> bool:
    """Whether a value is a table with named columns, as in pandas and polars."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and not isinstance(value, (dict, type))


def column(frame: Any, names: Sequence[str], where: str, *, optional: bool = False) -> Any:
    """Return the first column of a frame with one of these names."""
    known = [str(name) for name in frame.columns]
    for name in names:
        if name in known:
            return frame[name]
    if optional:
        return None
    raise SatietyError(
        f"{where} has no column {names[0]!r}",
        hint=f"name the column one of: {', '.join(names)} (found: {', '.join(known)})",
        where=f"{where}.{names[0]}",
    )


def to_list(series: Any) -> list[Any]:
    """Return the values of a column as a list."""
    convert = getattr(series, "to_list", None) or series.tolist
    values: list[Any] = convert()
    return values
