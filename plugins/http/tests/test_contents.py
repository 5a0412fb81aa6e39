"""Large contents: their checksums, the order in which they go, and where the server keeps them."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import OutOfMemoryError
from calor_http import checksums
from calor_http.checksums import by_parts, crc32
from calor_http.client import link
from calor_http.client.link import Upload
from calor_http.client.stream import NoStreamError, Stream
from calor_http.frames import CHUNK
from calor_http.server.limits import Limits
from calor_http.server.local import LocalServer
from waiting import wait_until


@pytest.mark.parametrize("nbytes", [1, 5, 1000, 12_345, 1 << 20, 3_000_001])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_checksum_in_parts_is_that_of_zlib(nbytes: int, count: int) -> None:
    content = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8).tobytes()
    value = zlib.crc32(content[::-1])
    assert by_parts(content, value, min(count, nbytes)) == zlib.crc32(content, value)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_checksums_without_the_extra(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(checksums, "_quick", None)
    monkeypatch.setattr(checksums, "_threads", lambda: threads)
    for nbytes in (0, 1, 100_000, CHUNK - 1, CHUNK):
        content = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8).tobytes()
        assert crc32(memoryview(content), 7) == zlib.crc32(content, 7)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy") as server:
        yield server


@pytest.fixture
def device(server: LocalServer) -> Iterator[Any]:
    found = calor.device(f"{server.address}/numpy")
    yield found
    found.backend.close()


def test_commands_do_not_wait_for_the_pieces_before_them(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that a request has is on its way before the first answer is read."""
    told: list[str] = []
    for name in ("put", "commands", "answer"):
        method = getattr(Stream, name)

        def noted(self: Any, *given: Any, name: str = name, method: Any = method) -> Any:
            told.append(name)
            return method(self, *given)

        monkeypatch.setattr(Stream, name, noted)
    given = np.arange(CHUNK // 8 * 3.0)
    with calor.device(device):
        calor.synchronize(device)
        told.clear()
        x = calor.asarray(given)
        calor.synchronize(device)
        first = told[: told.index("commands") + 1]
        # The first piece is a short one.
        assert first == ["put"] * 4 + ["commands"]
        assert np.array_equal((x + 1).numpy(), given + 1)


def test_contents_of_later_calls_do_not_wait_for_earlier_ones(
    device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody waits for yet is answered later, and more contents are sent before that."""
    told: list[tuple[str, int]] = []
    put, commands, answer = Stream.put, Stream.commands, Stream.answer
    begin = threading.Event()

    def noted_put(self: Any, number: int, *given: Any) -> None:
        begin.wait(10)
        told.append(("put", number))
        put(self, number, *given)

    def noted_commands(self: Any, number: int, frame: Any) -> None:
        told.append(("commands", number))
        commands(self, number, frame)

    def noted_answer(self: Any) -> Any:
        told.append(("answer", 0))
        return answer(self)

    given = np.random.default_rng(0).standard_normal((4, 3 * CHUNK // 8))
    with calor.device(device):
        add = calor.jit(lambda x: x + 1)
        add(calor.asarray(given[0]))
        calor.synchronize(device)
        monkeypatch.setattr(Stream, "put", noted_put)
        monkeypatch.setattr(Stream, "commands", noted_commands)
        monkeypatch.setattr(Stream, "answer", noted_answer)
        made = [add(calor.asarray(x)) for x in given]
        begin.set()
        assert all(np.array_equal(m.numpy(), x + 1) for m, x in zip(made, given, strict=True))
    kinds = [kind for kind, _ in told]
    first = kinds.index("commands")
    # The pieces of the next contents, of which there are three.
    assert kinds[first + 1 : first + 4] == ["put"] * 3
    numbers = {number for kind, number in told[: first + 4] if kind == "put"}
    assert len(numbers) == 2


def test_pieces_on_their_way_have_a_limit(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = most = 0
    put, answer = Stream.put, Stream.answer

    def noted_put(self: Any, *given: Any) -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        put(self, *given)

    def noted_answer(self: Any) -> Any:
        nonlocal waiting
        waiting = max(waiting - 1, 0)
        return answer(self)

    monkeypatch.setattr(Stream, "put", noted_put)
    monkeypatch.setattr(Stream, "answer", noted_answer)
    given = np.random.default_rng(0).integers(0, 256, 20 * CHUNK + 5, np.uint8)
    with calor.device(device):
        x = calor.asarray(given)
        assert np.array_equal(x.numpy(), given)
    assert 1 < most <= 9


@pytest.mark.parametrize("broken", ["commands", "answer"])
def test_contents_that_were_taken_and_come_again_are_forgotten(
    server: LocalServer, device: Any, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The connection breaks when the server has done all, and the client knows of nothing."""
    with calor.device(device):
        calor.synchronize(device)
        (session,) = server.server.sessions.values()
        number = session._answered[0]
        method, left = getattr(Stream, broken), [1]

        def breaks(self: Any, *given: Any) -> Any:
            made = method(self, *given)
            if left and session._room.blobs.nbytes + session._room.values.nbytes:
                left.pop()
                wait_until(lambda: session._answered[0] > number)
                raise ConnectionError("cut")
            return made

        monkeypatch.setattr(Stream, broken, breaks)
        given = np.arange(CHUNK // 8 * 3.0)
        x = calor.asarray(given)
        assert np.array_equal((x + 1).numpy(), given + 1)
        calor.synchronize(device)
    assert not left
    wait_until(lambda: session._room.blobs.nbytes == 0)


def test_contents_without_room_fail_alone() -> None:
    """A request with several contents goes on without the one that finds no room."""
    with LocalServer("numpy", limits=Limits(client_bytes=4 * CHUNK)) as server:
        with calor.device(f"{server.address}/numpy") as device:
            small = calor.asarray(np.ones(CHUNK // 8))
            large = calor.asarray(np.ones(CHUNK))
            after = calor.asarray(np.full(CHUNK // 8, 2.0))
            assert np.array_equal((small + after).numpy(), np.full(CHUNK // 8, 3.0))
            with pytest.raises(OutOfMemoryError, match="lets a client hold"):
                large.numpy()
        device.backend.close()


def test_without_a_stream_contents_go_on_from_what_has_arrived(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session whose streams break in the middle of contents sends the rest in requests."""
    device = calor.device(f"{server.address}/numpy")
    with calor.device(device):
        calor.synchronize(device)
        put, sent = Stream.put, []

        def none(*given: Any) -> None:
            raise NoStreamError("something lets no stream pass any more")

        def breaks(self: Any, *given: Any) -> None:
            if len(sent) == 2:
                monkeypatch.setattr(link, "Stream", none)
                raise ConnectionError("cut")
            sent.append(given)
            put(self, *given)

        monkeypatch.setattr(Stream, "put", breaks)
        given = np.arange(CHUNK // 8 * 3.0)
        assert np.array_equal(calor.asarray(given).numpy(), given)
    assert len(sent) == 2
    device.backend.close()


def test_an_upload_knows_what_is_missing() -> None:
    upload = Upload(1, memoryview(bytes(10)))
    assert not upload.whole
    upload.hear(lambda: 10)
    assert upload.whole
    assert not upload.refused


def test_contents_are_received_where_the_device_copies_fast(
    server: LocalServer, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server asks its device for the memory, and loads from there; a result is offloaded."""
    backend = calor.device("numpy").backend
    told: list[tuple[str, int]] = []
    host_array, load, offload = backend.host_array, backend.load, backend.offload
    rooms = []

    def room(index: int, nbytes: int) -> Any:
        made = host_array(index, nbytes)
        rooms.append(made)
        return made

    def loads(index: int, array: Any) -> Any:
        told.append(("load", array.nbytes))
        assert any(np.shares_memory(array, made) for made in rooms)
        return load(index, array)

    def offloads(index: int, buffer: Any, spec: Any) -> Any:
        told.append(("offload", spec.nbytes))
        return offload(index, buffer, spec)

    monkeypatch.setattr(backend, "host_array", room)
    monkeypatch.setattr(backend, "load", loads)
    monkeypatch.setattr(backend, "offload", offloads)
    given = np.arange(CHUNK // 8 * 2.0)
    with calor.device(device):
        assert np.array_equal((calor.asarray(given) * 2).numpy(), given * 2)
    assert told == [("load", given.nbytes), ("offload", given.nbytes)]
