"""Clients of a server that ``satiety serve`` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._errors import SatietyError
from ._input import real, text
from ._operations import AsyncOperations, Operations

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

    import httpx
    from typing_extensions import Self

DEFAULT_URL = "http://127.0.0.1:8787"


class Client(Operations):
    """Client of a server; every operation of the HTTP API is a method.

    Args:
        url: Address of the server.
        token: Token from ``satiety token create``; not needed on loopback by default.
        timeout: Seconds that a request may take.
        transport: Transport of httpx, for tests.

    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = _httpx().Client(**_settings(url, token, timeout), transport=transport)

    def _call(self, method: str, path: str, *, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        try:
            response = self._http.request(method, path, json=body, params=_present(query))
        except (_httpx().HTTPError, TypeError, ValueError) as error:
            raise _unreachable(method, path, error) from error
        return _answer(response)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(AsyncOperations):
    """Asynchronous client of a server; every operation of the HTTP API is a coroutine.

    Args:
        url: Address of the server.
        token: Token from ``satiety token create``; not needed on loopback by default.
        timeout: Seconds that a request may take.
        transport: Transport of httpx, for tests.

    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = _httpx().AsyncClient(**_settings(url, token, timeout), transport=transport)

    async def _call(self, method: str, path: str, *, body: Any = None, query: dict[str, Any] | None = None) -> Any:
        try:
            response = await self._http.request(method, path, json=body, params=_present(query))
        except (_httpx().HTTPError, TypeError, ValueError) as error:
            raise _unreachable(method, path, error) from error
        return _answer(response)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError:
        raise SatietyError("the client needs httpx", hint="pip install 'satiety[client]'", where="httpx") from None
    return httpx


def _settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    address = text(url, "url")
    if not address.startswith(("http://", "https://")):
        raise SatietyError(f"url must start with http:// or https://, not {address!r}", where="url")
    headers = {} if token is None else {"Authorization": f"Bearer {text(token, 'token')}"}
    return {"base_url": address, "headers": headers, "timeout": real(timeout, "timeout")}


def _present(query: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if query is None else {name: value for name, value in query.items() if value is not None}


def _unreachable(method: str, path: str, error: Exception) -> SatietyError:
    return SatietyError(f"cannot {method} {path}: {error}", hint="start a server: `satiety serve`", where="url")


def _answer(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json() if response.content else None
    try:
        problem: dict[str, Any] = response.json()
        message = problem.get("detail") or problem["title"]
    except (ValueError, KeyError, AttributeError):
        problem, message = {}, response.text[:200] or response.reason_phrase
    where = problem.get("at") or f"HTTP {response.status_code}"
    raise SatietyError(f"{message} (HTTP {response.status_code})", hint=problem.get("hint"), where=where)
