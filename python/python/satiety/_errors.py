"""The one error of the package."""

from __future__ import annotations


class SatietyError(ValueError):
    """An input or an operation is invalid.

    Attributes:
        hint: One action that fixes the problem, if there is one.
        where: Path of the field that is wrong, such as ``messages[2].role``.

    """

    hint: str | None
    where: str | None

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\nhint: {self.hint}" if self.hint else message

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (self.args[0], self.hint, self.where))


def _rebuild(message: str, hint: str | None, where: str | None) -> SatietyError:
    return SatietyError(message, hint=hint, where=where)
