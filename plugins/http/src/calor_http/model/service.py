"""The addresses of the Open Inference Protocol, and what each of them answers.

Requirements: an address is looked up, never taken apart, once it was used; whatever is wrong, the
answer is ``{"error": ...}`` with a status that says whose fault it is, and never a traceback.

References
----------
Open Inference Protocol, "HTTP/REST", https://github.com/kserve/open-inference-protocol
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Any, Final
from urllib.parse import unquote

from calor_http.model.batching import Job
from calor_http.model.errors import Refused, refused
from calor_http.model.limits import Limits
from calor_http.model.messages import Asked, write_json
from calor_http.model.programs import Array, Port
from calor_http.model.repository import Entry, Repository
from calor_http.model.wire import Connection, Request, number_in

_log = logging.getLogger("calor_http")
_EXTENSIONS: Final = ("binary_tensor_data",)
_OPEN: Final = (b"/v2/health/live", b"/v2/health/ready")
_LENGTH: Final = b"inference-header-content-length"
# More JSON than this is read and written beside the event loop.
_LONG: Final = 64 * 1024
_LOOK_SECONDS: Final = 1.0
Handler = Callable[[Request, Connection], None]


class Service:
    """Answers requests.

    Parameters
    ----------
    repository : Repository
        The models.
    token : str or None
        What clients have to show; None lets everybody in.
    limits : Limits, optional
        What it takes on.
    """

    def __init__(
        self, repository: Repository, token: str | None, limits: Limits | None = None
    ) -> None:
        self.repository = repository
        self.limits = limits or Limits()
        self.held = 0
        self.ready = False
        self.when_ready: Callable[[], None] = lambda: None
        self.connections: set[Connection] = set()
        self._token = None if token is None else f"Bearer {token}".encode()
        self._aside = ThreadPoolExecutor(2, "calor-model-json")
        self._known: dict[tuple[bytes, bytes], Handler] = {}
        self._tasks: list[asyncio.Task[None]] = []

    # The life of the server, as ASGI has it.
    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Begin and end with the server that calls this as its application."""
        if scope["type"] != "lifespan":
            raise RuntimeError("the server's protocol answers requests")
        await receive()
        self._tasks = [asyncio.create_task(self._warm()), asyncio.create_task(self._look())]
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in self._tasks:
            task.cancel()
        self.repository.close()
        self._aside.shutdown(wait=False, cancel_futures=True)
        await send({"type": "lifespan.shutdown.complete"})

    async def _warm(self) -> None:
        await self.repository.warm()
        self.ready = True
        self.when_ready()

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            for connection in list(self.connections):
                connection.look(loop.time())

    # What every request passes.
    def admit(self, request: Request) -> None:
        """Find what answers a request; Refused where nothing does, or for one without the token.

        Who asks whether the server lives, as supervisors do, shows none.
        """
        if self._token is not None and request.target not in _OPEN:
            given = request.headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._token):
                raise Refused(
                    401, "the token is missing or wrong; send Authorization: Bearer TOKEN"
                )
        key = request.method, request.target
        handler = self._known.get(key)
        if handler is None:
            handler, lasting = self._handler(request)
            if lasting:
                self._known[key] = handler
        request.handler = handler

    def answer(self, request: Request, connection: Connection) -> None:
        """Answer a request now or later."""
        try:
            if request.error is not None:
                raise request.error
            request.handler(request, connection)
        except Exception as error:
            self._fail(error, connection)

    def _fail(self, error: Exception, connection: Connection) -> None:
        """Answer with an error of any kind; one that was not meant is written down."""
        if not isinstance(error, Refused):
            _log.error("a request failed", exc_info=error)
        self.refuse(refused(error), connection)

    def refuse(self, error: Refused, connection: Connection) -> None:
        """Answer with an error."""
        headers: list[tuple[bytes, bytes]] = []
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if error.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        connection.respond(error.status, write_json({"error": str(error)}), headers)

    def _handler(self, request: Request) -> tuple[Handler, bool]:
        """Return what answers an address, and whether it is one of a few that stay."""
        raw, _, query = request.target.partition(b"?")
        parts = [_unquoted(part) for part in raw.split(b"/")[1:]]
        method, found = self._found(parts)
        if request.method != method:
            raise Refused(405, f"{method.decode()} is the method of this address")
        return found, not (query or b"%" in raw)

    def _found(self, parts: Sequence[str]) -> tuple[bytes, Handler]:
        match parts:
            case ["v2"] | ["v2", ""]:
                return b"GET", self._server
            case ["v2", "health", "live"]:
                return b"GET", self._live
            case ["v2", "health", "ready"]:
                return b"GET", self._is_ready
            case ["v2", "repository", "index"]:
                return b"POST", self._index
            case ["v2", "models", name, "versions", version, *rest]:
                return self._of_model(self.repository.find(name, version), rest)
            case ["v2", "models", name, *rest]:
                return self._of_model(self.repository.find(name, None), rest)
        raise Refused(404, "the server has no such address; the protocol's begin with /v2")

    def _of_model(self, entry: Entry, rest: Sequence[str]) -> tuple[bytes, Handler]:
        match rest:
            case []:
                return b"GET", entry.handlers.setdefault("metadata", _saying(_described(entry)))
            case ["config"]:
                return b"GET", entry.handlers.setdefault("config", _saying(_config(entry)))
            case ["ready"]:
                return b"GET", lambda request, connection: _say_ready(entry, connection)
            case ["infer"]:
                return b"POST", lambda request, c: self._infer(entry, request, c)
        raise Refused(404, f"the model {entry.name!r} has no such address")

    # Answers.
    def _live(self, request: Request, connection: Connection) -> None:
        connection.respond(200, b'{"live":true}')

    def _is_ready(self, request: Request, connection: Connection) -> None:
        said = b'{"ready":true}' if self.ready else b'{"ready":false}'
        connection.respond(200 if self.ready else 400, said)

    def _server(self, request: Request, connection: Connection) -> None:
        version = metadata.version("calor-http")
        said = {"name": "calor", "version": version, "extensions": list(_EXTENSIONS)}
        connection.respond(200, write_json(said))

    def _index(self, request: Request, connection: Connection) -> None:
        said = [
            {
                "name": entry.name,
                "version": entry.version,
                "state": "READY" if entry.ready else "LOADING",
                "reason": "",
            }
            for entry in self.repository.entries
        ]
        connection.respond(200, write_json(said))

    # Inference.
    def _infer(self, entry: Entry, request: Request, connection: Connection) -> None:
        if not entry.ready:
            raise Refused(503, f"the model {entry.name!r} is not ready yet")
        if request.headers.get(b"content-encoding", b"identity") != b"identity":
            raise Refused(415, "a compressed body is not taken; send it as it is")
        length = None
        text = request.headers.get(_LENGTH)
        if text is not None:
            length = number_in(text)
            if length > len(request.body):
                raise Refused(400, "Inference-Header-Content-Length is more than the body has")
        count = len(request.body) if length is None else length
        if count > self.limits.json_bytes:
            raise Refused(
                413,
                f"a request has at most {self.limits.json_bytes} bytes of JSON; send tensors as "
                f"binary data",
            )
        if count <= _LONG:
            self._submit(entry, entry.reader.read(request.body, length), connection)
            return
        reading = self._aside.submit(entry.reader.read, request.body, length)
        self._later(reading, connection, lambda read: self._submit(entry, read, connection))

    def _submit(
        self, entry: Entry, read: tuple[Asked, dict[str, Array]], connection: Connection
    ) -> None:
        asked, feed = read

        def done(results: Sequence[Array] | None, error: Refused | None) -> None:
            if results is None:
                self.refuse(error or Refused(500, "the model gave nothing"), connection)
            else:
                self._write(entry, asked, results, connection)

        entry.batcher.submit(Job(feed, done, connection))

    def _write(
        self, entry: Entry, asked: Asked, results: Sequence[Array], connection: Connection
    ) -> None:
        elements = sum(results[w.place].size for w in asked.outputs if not w.binary)
        if elements > _LONG // 8:
            writing = self._aside.submit(entry.writer.write, asked, results)
            self._later(writing, connection, lambda made: _send(made, connection))
            return
        try:
            made = entry.writer.write(asked, results)
        except Exception as error:
            self._fail(error, connection)
            return
        _send(made, connection)

    def _later(self, future: Any, connection: Connection, go_on: Callable[[Any], None]) -> None:
        """Go on in the event loop once something is done elsewhere."""
        loop = asyncio.get_running_loop()

        def back() -> None:
            try:
                go_on(future.result())
            except Exception as error:
                self._fail(error, connection)

        future.add_done_callback(lambda done: loop.call_soon_threadsafe(back))


def _send(made: tuple[bytes, int | None], connection: Connection) -> None:
    body, length = made
    if length is None:
        connection.respond(200, body)
        return
    kind = "application/octet-stream"
    connection.respond(200, body, [(_LENGTH, b"%d" % length)], kind)


def _saying(message: Any) -> Handler:
    said = write_json(message)
    return lambda request, connection: connection.respond(200, said)


def _say_ready(entry: Entry, connection: Connection) -> None:
    said = {"name": entry.name, "version": entry.version, "ready": entry.ready}
    connection.respond(200 if entry.ready else 400, write_json(said))


def _described(entry: Entry) -> dict[str, Any]:
    def ports(known: Sequence[Port]) -> list[dict[str, Any]]:
        return [{"name": p.name, "datatype": p.datatype, "shape": p.sizes} for p in known]

    return {
        "name": entry.name,
        "versions": list(entry.versions),
        "platform": entry.model.platform,
        "inputs": ports(entry.model.inputs),
        "outputs": ports(entry.model.outputs),
    }


def _config(entry: Entry) -> dict[str, Any]:
    """Return what Triton's clients ask beside the protocol; sizes include the first axis."""

    def ports(known: Sequence[Port]) -> list[dict[str, Any]]:
        return [{"name": p.name, "data_type": f"TYPE_{p.datatype}", "dims": p.sizes} for p in known]

    return {
        "name": entry.name,
        "platform": entry.model.platform,
        "max_batch_size": 0,
        "input": ports(entry.model.inputs),
        "output": ports(entry.model.outputs),
    }


def _unquoted(part: bytes) -> str:
    try:
        return unquote(part.decode("ascii"), errors="strict")
    except UnicodeDecodeError:
        raise Refused(404, "the address is no text in UTF-8") from None
