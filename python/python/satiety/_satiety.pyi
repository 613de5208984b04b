from typing import Any

from typing_extensions import Self

__version__: str

class Progress:
    def __new__(cls, profile: str | None, meaning: bool) -> Self: ...
    def observe(self, messages: object) -> dict[str, Any]: ...
