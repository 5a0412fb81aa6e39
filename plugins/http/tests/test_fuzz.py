"""Frames, commands and graphs at random: each gets an answer or a typed error, and all works on.

``CALOR_HTTP_FUZZ`` sets how many of each are tried; ``nox -s http_fuzz`` tries 10,000. Graphs are
files of small ones in which fields of the header or bytes were changed, with the digest that fits.
Those that pass are compiled and run, unless a loop is in them: how long a loop runs is its own.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import calor
from calor.errors import CalorError, FormatError
from calor.graph.file import MAGIC, load, save
from calor.plugins.discovery import get_device
from calor_http import errors
from calor_http.described import digest_of
from calor_http.frames import CHUNK, MESSAGE, pack, seal, unpack, unseal
from calor_http.server.draining import Drain
from calor_http.server.graphs import Graphs
from calor_http.server.handing import Handing
from calor_http.server.limits import MIB, Limits
from calor_http.server.local import LocalServer
from calor_http.server.queueing import Turns
from calor_http.server.quotas import Account, Quota
from calor_http.server.session import Session, Told
from raw_http_client import Client

EXAMPLES = int(os.environ.get("CALOR_HTTP_FUZZ", "150"))
QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    derandomize="CALOR_HTTP_FUZZ" not in os.environ,
)
LIMITS = Limits(
    tensor_bytes=MIB, client_bytes=4 * MIB, graph_nodes=60, graph_bytes=MIB, handles=50, commands=40
)
# What an error of a server is named.
KINDS = set(errors._KINDS)


@pytest.fixture(autouse=True, scope="module")
def silence() -> Iterator[None]:
    """What is wrong with commands is in the log, for the operator."""
    log = logging.getLogger("calor_http")
    before = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(before)


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> bytes:
    return save(calor.trace(function, *(calor.ones(shape) for shape in shapes)))


def looped(x: Any) -> Any:
    return calor.fori_loop(0, 3, lambda i, t: t * 2 + i, x)


def branched(x: Any) -> Any:
    return calor.cond(x.sum() > 0, lambda t: t, lambda t: -t, x)


PLAIN = traced(lambda x: calor.tanh(x) + x, (4,))
FILES = [
    PLAIN,
    traced(lambda x, y: (x @ y).sum(axis=1, keepdims=True), (3, 4), (4, 2)),
    traced(lambda x: calor.take(x, calor.asarray([0, 2, 1]), axis=0), (3, 2)),
    traced(lambda x: calor.sort(x, axis=-1)[..., ::2].max(axis=0), (3, 6)),
    traced(lambda x: calor.concat([x, x.reshape(3, 2).T], axis=0).astype("int32"), (2, 3)),
    traced(lambda x: calor.fft.fft(x).real.cumsum(), (6,)),
    traced(lambda x, y: calor.where(x > y, x, y * 2).mean(), (2, 3), (1, 3)),
    traced(looped, (2,)),
    traced(branched, (2,)),
]


class Harness:
    """A session without a network."""

    def __init__(self) -> None:
        self.account = Account("fuzz", Quota(memory=3 * MIB))
        self.session = Session(
            [get_device("numpy")],
            LIMITS,
            Graphs(LIMITS.graph_nodes),
            Handing(LIMITS.client_bytes, (), lambda peer: None),
            account=self.account,
            turns=Turns(),
            drain=Drain(60.0),
        )
        self.sent = 0

    def ask(self, *commands: Any) -> list[Any]:
        """Send commands as one request; each has an answer, and each error a known kind."""
        self.sent += 1
        frame = pack(list(commands))
        answers = unpack(self.session.answer(self.sent, frame, False, Told()), MESSAGE)
        assert len(answers) == len(commands)
        for answer in answers:
            if isinstance(answer, dict) and "error" in answer:
                assert answer["error"]["kind"] in KINDS
                assert "Traceback" not in str(answer)
                assert "/calor" not in str(answer)
        return list(answers)

    def works(self) -> None:
        """Compute something, and find that all that was held is counted."""
        data = np.arange(4, dtype=np.float32)
        numbers = [10**9 + self.sent * 10 + n for n in range(3)]
        made = self.ask(
            ["up", numbers[0], 0, "float32", [4], data.tobytes()],
            ["graph", digest_of(PLAIN), PLAIN],
            ["compile", numbers[0], 0, digest_of(PLAIN)],
            ["run", numbers[0], [numbers[0]], [numbers[1]], []],
            ["read", numbers[1], 0, numbers[2]],
            ["drop", numbers[:2]],
            ["release", numbers[:1]],
        )
        wanted = np.tanh(data) + data
        np.testing.assert_allclose(np.frombuffer(made[4], np.float32), wanted, rtol=1e-6)
        assert self.account.memory.nbytes == self.session._room.held


# Frames.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-3, 12),
    st.floats(),
    st.text(max_size=12),
    st.binary(max_size=40),
    st.sampled_from(["float32", "int8", "bool", "__class__", "../../etc/passwd", "numpy"]),
)
KEYS = st.integers(-(2**63), 2**64 - 1) | st.text(max_size=4)
THINGS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return bytes of which some were changed, taken out or added."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(("flip", "cut", "add", "end"))):
            case "flip" if data:
                data[at] ^= draw(st.integers(1, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 8))]
            case "add":
                data[at:at] = draw(st.binary(min_size=1, max_size=8))
            case "end":
                del data[at:]
    return bytes(data)


@QUIET
@given(st.data())
def test_frames(data: st.DataObject) -> None:
    content = msgpack.packb(data.draw(THINGS), use_bin_type=True)
    kind = data.draw(st.sampled_from(("content", "frame", "kind", "zstd")))
    match kind:
        case "content":
            frame = seal(data.draw(damaged(content)))
        case "frame":
            frame = data.draw(damaged(seal(content)))
        case "kind":
            body = bytes([data.draw(st.integers(0, 255))]) + content
            frame = zlib.crc32(body).to_bytes(4, "little") + body
        case _:
            packed = zstandard.ZstdCompressor().compress(content * data.draw(st.integers(0, 99)))
            body = b"\x01" + data.draw(damaged(packed) | st.just(packed))
            frame = zlib.crc32(body).to_bytes(4, "little") + body
    try:
        found = unpack(frame, CHUNK)
    except FormatError:
        return
    # What passes is of the kinds that messages have, and nothing else.
    assert msgpack.packb(found, use_bin_type=True)
    assert len(unseal(frame, CHUNK)) <= CHUNK


# Commands.
NAMES = st.sampled_from(
    [
        "up", "take", "drop", "copy", "read", "forget", "verify", "sync", "memory", "graph",
        "claim", "compile", "within", "release", "run", "offer", "fetch", "close", "__init__", "",
    ]
)  # fmt: skip
OPERANDS = st.one_of(
    THINGS,
    st.integers(0, 6),
    st.lists(st.integers(0, 6), max_size=3),
    st.sampled_from([digest_of(PLAIN), digest_of(FILES[2]), PLAIN, bytes(16), [4], "float32", 0]),
)
COMMANDS = st.one_of(
    st.tuples(NAMES, st.lists(OPERANDS, max_size=6)).map(lambda pair: [pair[0], *pair[1]]), THINGS
)


@QUIET
@given(st.lists(st.lists(COMMANDS, max_size=12), min_size=1, max_size=3), st.binary(max_size=30))
def test_commands(requests: list[list[Any]], piece: bytes) -> None:
    harness = Harness()
    harness.ask(
        ["up", 1, 0, "float32", [4], bytes(16)],
        ["graph", digest_of(PLAIN), PLAIN],
        ["graph", digest_of(FILES[2]), FILES[2]],
        ["compile", 1, 0, digest_of(PLAIN)],
        ["compile", 2, 0, digest_of(FILES[2])],
    )
    harness.session.add_piece(5, 0, seal(piece))
    for commands in requests:
        harness.ask(*commands)
    harness.ask(["drop", list(range(7))], ["release", list(range(7))])
    harness.works()
    harness.session.close()
    assert harness.account.memory.nbytes == 0


# Graphs.
def places(thing: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths of everything in a tree of lists and mappings."""
    yield at
    items = thing.items() if isinstance(thing, dict) else enumerate(thing)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))
        else:
            yield (*at, key)


NUMBERS = st.sampled_from([-(2**31), -1, 0, 1, 2, 3, 5, 2**31, 2**40, 2**63]) | st.integers()
FIELDS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(-2, 5), max_size=3),
)


@st.composite
def graph_files(draw: st.DrawFn) -> bytes:
    """Return a graph's file in which fields of the header, or bytes, were changed."""
    whole = draw(st.sampled_from(FILES))
    if draw(st.integers(0, 4)) == 0:
        return draw(damaged(whole))
    length = int.from_bytes(whole[8:16], "little")
    header = json.loads(whole[16 : 16 + length])
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(places(header), key=str)))
        if not path:
            continue
        holder = header
        for key in path[:-1]:
            holder = holder[key]
        match draw(st.sampled_from(("number", "thing", "other", "drop", "twice"))):
            case "number":
                holder[path[-1]] = draw(NUMBERS)
            case "thing":
                holder[path[-1]] = draw(FIELDS)
            case "other":
                other = draw(st.sampled_from(sorted(places(header), key=str)))
                found: Any = header
                for key in other:
                    found = found[key]
                # A copy, since a tree that holds itself is no JSON.
                holder[path[-1]] = json.loads(json.dumps(found))
            case "drop" if isinstance(holder, list):
                del holder[path[-1]]
            case "twice" if isinstance(holder, list):
                holder.insert(path[-1], holder[path[-1]])
    text = json.dumps(header).encode()
    return MAGIC + len(text).to_bytes(8, "little") + text + whole[16 + length :]


def inputs_of(graph: Any) -> list[Any] | None:
    """Return commands that make the inputs of a graph; None where one is too large."""
    commands: list[Any] = []
    for number, v in enumerate(graph.inputs, 1):
        known = graph.specs[v]
        if known.nbytes > LIMITS.tensor_bytes or v in graph.host:
            return None
        commands.append(["up", number, 0, known.dtype.name, list(known.shape), bytes(known.nbytes)])
    return commands


@QUIET
@given(graph_files())
def test_graphs(data: bytes) -> None:
    harness = Harness()
    digest = digest_of(data)
    (added,) = harness.ask(["graph", digest, data])
    if added is not None:
        assert added["error"]["kind"] in ("GraphError", "LimitError")
        assert harness.ask(["claim", 0, digest], ["compile", 1, 0, digest]) == ["missing"] * 2
        harness.works()
        return
    graph = load(data)
    _, compiled = harness.ask(["claim", 0, digest], ["compile", 1, 0, digest])
    ups = inputs_of(graph)
    if isinstance(compiled, int) and ups is not None and b"while" not in data:
        outputs = list(range(100, 100 + len(graph.outputs)))
        run = ["run", 1, list(range(1, len(ups) + 1)), outputs, []]
        harness.ask(*ups, run, *[["read", n, 0, 1000 + n] for n in outputs])
    harness.works()
    harness.session.close()
    assert harness.account.memory.nbytes == 0


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with LocalServer("numpy", limits=LIMITS) as server:
        yield server


BODIES = st.one_of(
    damaged(pack([["memory", 0]])),
    st.lists(COMMANDS, max_size=5).map(pack),
    st.binary(max_size=99),
)


@settings(QUIET, max_examples=max(30, EXAMPLES // 5))
@given(data=st.data())
def test_requests_over_the_network(server: LocalServer, data: st.DataObject) -> None:
    body = data.draw(BODIES)
    method = data.draw(st.sampled_from(("POST", "PUT", "GET", "DELETE", "PATCH")))
    tails = ("requests/1", "requests/7", "blobs/1/0", "blobs/1/9", "", "x")
    tail = data.draw(st.sampled_from(tails))
    client = Client(server)
    answer = client.http.request(method, f"{client.session}/{tail}", content=body)
    assert answer.status_code in (200, 307, 400, 404, 413, 422)
    if answer.status_code not in (200, 307):
        assert unpack(answer.content, MESSAGE)["error"]["kind"] in KINDS
    good = Client(server)
    assert good.ask(["memory", 0]) == [[0, 0]]
    good.close()
    client.http.delete(client.session)
    client.http.close()


def test_kinds_of_errors_are_calors() -> None:
    assert {"QuotaError", "GraphError", "DrainingError"} <= KINDS
    assert all(issubclass(kind, CalorError) for kind in errors._KINDS.values())
