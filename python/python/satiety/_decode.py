"""Dataclasses from the plain objects that the extension module returns."""

from __future__ import annotations

import sys
import types
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_READERS: dict[type[Any], list[tuple[str, Callable[[Any], Any]]]] = {}


def decode(cls: type[T], data: dict[str, Any]) -> T:
    """Build a dataclass and the ones it contains; keys that it does not have are ignored."""
    readers = _READERS.get(cls) or _READERS.setdefault(cls, _readers(cls))
    arguments = {name: read(data[name]) for name, read in readers if name in data}
    return cls(**arguments)


def _readers(cls: type[Any]) -> list[tuple[str, Callable[[Any], Any]]]:
    hints = get_type_hints(cls, vars(sys.modules[cls.__module__]))
    return [(field.name, _reader(hints[field.name])) for field in fields(cls) if field.init]


def _reader(hint: Any) -> Callable[[Any], Any]:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (_reader(part) for part in get_args(hint) if part is not type(None))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        item = _reader(get_args(hint)[0])
        return lambda value: tuple(map(item, value))
    if origin is dict:
        entry = _reader(get_args(hint)[1])
        return lambda value: {key: entry(inner) for key, inner in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return lambda value: decode(hint, value)
    if hint is float:
        return float
    return _identity


def _identity(value: Any) -> Any:
    return value
