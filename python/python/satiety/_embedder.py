"""The built-in sentence model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from . import _satiety
from ._errors import SatietyError
from ._input import strings, text, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Embedder:
    """Sentence model: all-MiniLM-L6-v2 in int8, inside the wheel. Nothing is downloaded.

    Args:
        directory: Directory with another model of the same architecture in f32, as published on Hugging Face.

    """

    __slots__ = ("_model",)

    def __init__(self, directory: str | Path | None = None) -> None:
        path = None if directory is None else str(directory) if isinstance(directory, Path) else directory
        self._model = _satiety.Embedder(None if path is None else text(path, "directory"))

    @overload
    def encode(self, sentences: str, *, threads: int | None = None) -> NDArray[np.float32]: ...
    @overload
    def encode(self, sentences: Sequence[str], *, threads: int | None = None) -> NDArray[np.float32]: ...
    def encode(self, sentences: str | Sequence[str], *, threads: int | None = None) -> NDArray[np.float32]:
        """Encode a text into a vector, or texts into rows of a matrix; all have unit length.

        Args:
            sentences: A text or several. Texts longer than 256 tokens are truncated.
            threads: Number of threads; as many as the machine has cores if absent.

        """
        single = isinstance(sentences, str)
        texts = [text(sentences, "sentences")] if isinstance(sentences, str) else strings(sentences, "sentences")
        if not texts:
            raise SatietyError("sentences must not be empty", where="sentences")
        vectors = self._model.encode(texts, None if threads is None else whole(threads, "threads", 1, 1024))
        return vectors[0] if single else vectors

    @property
    def dimension(self) -> int:
        """Number of components of a vector."""
        return self._model.dimension

    @property
    def id(self) -> str:
        """Identifies the weights; vectors of different ids must not be compared."""
        return self._model.id

    def __repr__(self) -> str:
        return f"Embedder({self.id!r})"
