"""Sends requests to one server, and turns refusals into errors."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fumehood._async import _io
from fumehood._decode import DecodeError, Model, decode
from fumehood._errors import FumehoodError, Unavailable
from fumehood._events import Collector, EventParser, RawEvent
from fumehood._models._runs import Answer
from fumehood._version import same, version
from fumehood._wire import Address, incompatible, may_be_older, refusal

if TYPE_CHECKING:
    import httpx
else:
    from fumehood import _http as httpx

M = TypeVar("M", bound=Model)

CONNECT_SECONDS = 10.0
CAPABILITIES = "/v1/capabilities"
SILENCE_SECONDS = 60.0  # the server sends a comment into a silent stream every 15 seconds


def private_server() -> str:
    """Return the address of this program's own server, and start it if it does not run."""
    from fumehood import _server  # noqa: PLC0415 - most programs name a server

    return _server.address()


class AsyncTransport:
    """A connection pool to one server.

    server is an address, or None for FUMEHOOD_SERVER, else for this program's own server. key is an API key, or None
    for FUMEHOOD_KEY.
    """

    def __init__(self, server: str | None = None, key: str | None = None) -> None:
        server = server or os.environ.get("FUMEHOOD_SERVER")
        self.address = Address.parse(server) if server else None
        self._key = key or os.environ.get("FUMEHOOD_KEY")
        self._http: httpx.AsyncClient | None = None

    async def open(self) -> httpx.AsyncClient:
        """Return the HTTP client. The first call may start a server."""
        if self._http is None:
            if self.address is None:
                self.address = Address.parse(await _io.in_thread(private_server))
            if self._http is None:  # no other task was faster
                self._http = self.client(self.address.base)
        return self._http

    def client(self, base_url: str) -> httpx.AsyncClient:
        """Return a new HTTP client below a URL of the server. The caller closes it."""
        assert self.address
        key, base = self._key, httpx.URL(base_url)

        def authorize(request: httpx.Request) -> httpx.Request:
            # A program may answer with links to other hosts, or out of its port. They must not get the key.
            url = request.url
            same = (url.scheme, url.host, url.port) == (base.scheme, base.host, base.port)
            if key and same and url.raw_path.startswith(base.raw_path):
                request.headers["authorization"] = f"Bearer {key}"
            return request

        return _io.open_client(
            self.address.socket,
            base_url=base_url,
            auth=authorize,
            headers={"user-agent": f"fumehood-python/{version()}"},
            timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS, pool=None),
            trust_env=not self.address.local,
        )

    async def close(self) -> None:
        """Close the connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    @asynccontextmanager
    async def stream(self, method: str, path: str, **options: Any) -> AsyncIterator[httpx.Response]:
        """Send a request, and give an answer of status 2xx whose body is not read yet.

        It raises FumehoodError for any other answer, and Unavailable if there is none or it breaks off.
        """
        http = await self.open()
        try:
            async with http.stream(method, path, **options) as response:
                if not response.is_success and response.status_code != httpx.codes.SWITCHING_PROTOCOLS:
                    raise await self._refusal(response)
                yield response
        except httpx.HTTPError as e:
            raise self._unreachable(e) from e

    async def json(self, method: str, path: str, **options: Any) -> Any:
        """Send a request, and return the JSON of its answer, or None for an answer without content."""
        async with self.stream(method, path, **options) as response:
            text = await response.aread()
        try:
            return json.loads(text) if text else None
        except (ValueError, RecursionError):
            raise Unavailable("the server's answer is not JSON", "check the address of the server") from None

    async def _refusal(self, response: httpx.Response) -> FumehoodError:
        text = await response.aread()
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        error = refusal(response.status_code, response.reason_phrase, body, response.headers.get("retry-after"))
        if may_be_older(error) and response.request.url.path != CAPABILITIES:
            return await self.explain(error)
        return error

    async def explain(self, error: FumehoodError) -> FumehoodError:
        """Return an Incompatible error if the server has another version than this client, else the error."""
        try:
            server = str((await self.json("GET", CAPABILITIES))["version"])
        except (FumehoodError, KeyError, TypeError):
            server = "unknown"
        return error if same(server) else incompatible(error.message, server)

    async def ask(self, model: type[M], method: str, path: str, **options: Any) -> M:
        """Send a request, and return its answer as a model."""
        value = await self.json(method, path, **options)
        try:
            return decode(model, value)
        except DecodeError as e:
            raise await self.explain(Unavailable(f"the server's answer is not a {model.__name__}: {e}")) from None

    async def events(self, response: httpx.Response) -> AsyncGenerator[RawEvent, None]:
        """Give the events in the body of an answer, until it ends or breaks off."""
        parser = EventParser()
        try:
            async for chunk in response.aiter_raw():
                for event in parser.feed(chunk):
                    yield event
        except ValueError as e:
            raise Unavailable(f"the server's events are not those of Fumehood: {e}") from e

    async def collect(self, response: httpx.Response, collector: Collector) -> Answer | None:
        """Pass the events in an answer to a collector. It returns None if the stream breaks off before the last."""
        answer = None
        try:
            async with aclosing(self.events(response)) as events:
                async for event in events:  # to the end, so that the connection can be used again
                    answer = collector.take(*event) or answer
        except httpx.HTTPError:
            if answer is None:
                raise
        return answer

    def _unreachable(self, cause: httpx.HTTPError) -> Unavailable:
        assert self.address
        if isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout)):
            return Unavailable(
                f"no Fumehood server is reachable at {self.address.text}: {cause}", "start one with: fumehood serve"
            )
        return Unavailable(f"the server at {self.address.text} did not answer: {cause or type(cause).__name__}")
