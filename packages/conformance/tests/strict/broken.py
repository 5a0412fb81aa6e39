"""Backends that break the protocol on purpose, one rule each, and what brings it to light."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calor.backends.numpy_backend import Memory, NumpyBackend, NumpyBuffer
from calor.backends.protocol import FULL, Claim, MemoryFigures, State, impossible
from calor.dtypes import bool_, float32, float64
from calor.errors import OutOfMemoryError, UnsupportedError
from calor.graph.graph import Builder, Graph, prune
from calor.ops.elementwise import add, neg
from calor.specs import spec
from calor_conformance.strict.backend import StrictBackend

VECTOR = spec((3,), float32)
ARRAY = np.array([1.0, 2.0, 3.0], np.float32)


def graph_of(*outputs: int, host: bool = False) -> Graph:
    """%0 and %1 in, %2 = %0 + %1, %3 = −%2."""
    builder = Builder()
    builder.input(VECTOR)
    builder.input(VECTOR, host)
    builder.add(add, [0, 1])
    builder.add(neg, [2])
    return prune(builder.build(outputs))


Use = Callable[[StrictBackend], Any]


def upload(backend: StrictBackend) -> Any:
    return backend.upload(0, ARRAY)


def call(*outputs: int, into: Any = None) -> Use:
    """Compile and call the graph with these outputs on two uploads."""

    def use(backend: StrictBackend) -> Any:
        executable = backend.compile(0, graph_of(*outputs))
        return executable([upload(backend), upload(backend)], into)

    return use


def call_twice(backend: StrictBackend) -> Any:
    executable = backend.compile(0, graph_of(2))
    inputs = [upload(backend), upload(backend)]
    return [executable(inputs), executable(inputs)]


def call_into(backend: StrictBackend) -> Any:
    executable = backend.compile(0, graph_of(2))
    return executable([upload(backend), upload(backend)], [upload(backend)])


def run_out(backend: StrictBackend) -> Any:
    executable = backend.compile(0, graph_of(2))
    target = upload(backend)
    return executable([upload(backend), upload(backend)], [target])


class Counts(NumpyBackend):
    def enumerate(self) -> int:
        return -1


class Raises(NumpyBackend):
    def enumerate(self) -> int:
        raise OSError("no driver")


def described(**changes: Any) -> type[NumpyBackend]:
    class Described(NumpyBackend):
        def info(self, index: int) -> Any:
            return replace(super().info(index), **changes)

    return Described


class NoInfo(NumpyBackend):
    def info(self, index: int) -> Any:
        return {"description": "a dictionary"}


class Shares(NumpyBackend):
    """upload keeps the caller's memory."""

    def upload(self, index: int, array: Any) -> Any:
        return NumpyBuffer(array, self._memory)


class Same(NumpyBackend):
    """upload returns one buffer for all."""

    def __init__(self) -> None:
        super().__init__()
        self.one = super().upload(0, ARRAY)

    def upload(self, index: int, array: Any) -> Any:
        return self.one


class Small(NumpyBackend):
    def upload(self, index: int, array: Any) -> Any:
        return super().upload(index, array[:1])


class Writable(NumpyBackend):
    def download(self, index: int, buffer: Any, spec: Any) -> Any:
        return buffer.array.view()


class Wrong(NumpyBackend):
    def download(self, index: int, buffer: Any, spec: Any) -> Any:
        return super().download(index, buffer, spec).reshape(3, 1)


class Strided(NumpyBackend):
    def download(self, index: int, buffer: Any, spec: Any) -> Any:
        view = np.repeat(buffer.array, 2)[::2]
        view.flags.writeable = False
        return view


class Hidden(NumpyBackend):
    """Copies where it says that it gives views."""

    def download(self, index: int, buffer: Any, spec: Any) -> Any:
        array = buffer.array.copy()
        array.flags.writeable = False
        return array


class ForgetsToShare(NumpyBackend):
    def adopt(self, index: int, array: Any) -> Any:
        return NumpyBuffer(array.copy(), self._memory)


class CopiesZeros(NumpyBackend):
    def copy(self, index: int, buffer: Any, spec: Any, target: int) -> Any:
        return self.upload(target, np.zeros_like(buffer.array))


def claiming(claim: Callable[[Graph], Any]) -> type[NumpyBackend]:
    class Claims(NumpyBackend):
        def claim(self, index: int, graph: Graph) -> Any:
            return claim(graph)

    return Claims


def running(change: Callable[..., Any]) -> type[NumpyBackend]:
    """A backend whose executables return ``change(backend, run, inputs, into)``."""

    class Runs(NumpyBackend):
        def compile(self, index: int, graph: Graph) -> Any:
            inner = super().compile(index, graph)

            class Executable:
                required_bytes = inner.required_bytes

                def __call__(_, inputs: Any, into: Any = None) -> Any:
                    return change(self, inner, inputs, into)

            return Executable()

    return Runs


def _mutates(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    made = run(inputs, into)
    inputs[0].array[...] += 1
    return made


def _aliases(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    made = run(inputs, into)
    return [made[0], NumpyBuffer(made[0].array, Memory())]


def _aliases_input(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    return [NumpyBuffer(inputs[0].array, Memory())]


def _returns_input(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    return [inputs[0]]


def _keeps(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    backend.kept = getattr(backend, "kept", None) or run(inputs, into)
    return backend.kept


def _leaks(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    backend.kept = backend.upload(0, np.zeros(1000))
    return run(inputs, into)


def _ignores_into(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    return run(inputs)


def _writes_then_fails(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    run(inputs, into)
    raise OutOfMemoryError("no room")


def _scribbles(backend: Any, run: Any, inputs: Any, into: Any) -> Any:
    made = run(inputs, into)
    if hasattr(backend, "last"):
        backend.last.array[...] = 0
    backend.last = made[0]
    return made


class Forgets(NumpyBackend):
    def memory(self, index: int) -> MemoryFigures:
        return MemoryFigures(0, 0, None)


class Backwards(NumpyBackend):
    def memory(self, index: int) -> MemoryFigures:
        return MemoryFigures(100, 10, None)


class NoLimit(NumpyBackend):
    def set_memory_limit(self, index: int, limit: int | None) -> None:
        pass


class Refuses(NumpyBackend):
    def set_memory_limit(self, index: int, limit: int | None) -> None:
        raise UnsupportedError("not today")


class SerializesText(NumpyBackend):
    def serialize(self, index: int, executable: Any) -> Any:
        return "text"


@dataclass(frozen=True)
class Breach:
    """A backend, a use of it that breaks ``rule``, and a part of the message."""

    rule: str
    backend: type[NumpyBackend]
    use: Use
    message: str


def _needs_limit(backend: StrictBackend) -> Any:
    backend.set_memory_limit(0, 100)


def _foreign(backend: StrictBackend) -> Any:
    other = StrictBackend(NumpyBackend())
    return backend.download(0, upload(other), VECTOR)


def _raw(backend: StrictBackend) -> Any:
    return backend.download(0, backend.inner.upload(0, ARRAY), VECTOR)


def _closed(backend: StrictBackend) -> Any:
    held = upload(backend)
    backend.close()
    return backend.download(0, held, VECTOR)


def _closed_executable(backend: StrictBackend) -> Any:
    executable, held = backend.compile(0, graph_of(2)), upload(backend)
    backend.close()
    return executable([held, held])


def _into_two(backend: StrictBackend) -> Any:
    held = upload(backend)
    return call(2, 3, into=[held, held])(backend)


def _into_exported(backend: StrictBackend) -> Any:
    held = upload(backend)
    view = backend.download(0, held, VECTOR)
    return call(2, into=[held])(backend), view


def _into_wrong_size(backend: StrictBackend) -> Any:
    return call(2, into=[backend.upload(0, np.zeros(4, np.float32))])(backend)


def _host_input(given: Any) -> Use:
    def use(backend: StrictBackend) -> Any:
        return backend.compile(0, graph_of(2, host=True))([upload(backend), given])

    return use


def _list(backend: Any) -> Any:
    return backend.upload(0, [1.0])


def _adopted(backend: StrictBackend) -> Any:
    return backend.adopt(0, ARRAY.copy())


def _compiled(backend: StrictBackend) -> Any:
    return backend.compile(0, graph_of(2, 3))


class NoNumber(NumpyBackend):
    def compile(self, index: int, graph: Graph) -> Any:
        made = super().compile(index, graph)
        made.required_bytes = 1.5  # type: ignore[assignment]
        return made


BREACHES = [
    Breach("adopted", ForgetsToShare, _adopted, "exported is False"),
    Breach("claim", claiming(lambda g: Claim(((0,),))), _compiled, r"of 2 nodes, \(\(0,\),\) are"),
    Breach("claim", claiming(lambda g: Claim(((0, 1), (1,)))), _compiled, "in two parts"),
    Breach("claim", claiming(lambda g: Claim(((0, 1), ()))), _compiled, "a part is empty"),
    Breach("claim", claiming(lambda g: Claim(((0,),), {1: ""})), _compiled, "without a reason"),
    Breach("claim", claiming(lambda g: Claim(((0, 1),), {1: "no"})), _compiled, "are taken and"),
    Breach("claim", claiming(lambda g: [0, 1]), _compiled, "it is a list"),
    Breach(
        "claim",
        type(
            "Overclaims",
            (
                claiming(lambda g: Claim((tuple(range(len(g.nodes))),))),
                described(dtypes={float64: FULL}),
            ),
            {},
        ),
        _compiled,
        "node 0, add, is taken, but info says float32 is impossible",
    ),
    Breach("closed", NumpyBackend, _closed, r"close\(\) was called"),
    Breach("closed", NumpyBackend, _closed_executable, r"close\(\) was called"),
    Breach("contents", running(_mutates), call(2), r"a buffer of float32\[3\] changed"),
    Breach(
        "contents",
        running(_scribbles),
        lambda b: [b.download(0, made, VECTOR) for (made,) in call_twice(b)],
        r"of float32\[3\]",
    ),
    Breach("copy", CopiesZeros, lambda b: b.copy(0, upload(b), VECTOR, 0), "other contents"),
    Breach("download", Writable, lambda b: b.download(0, upload(b), VECTOR), "writable"),
    Breach("download", Wrong, lambda b: b.download(0, upload(b), VECTOR), r"float32\[3, 1\] for"),
    Breach("download", Strided, lambda b: b.download(0, upload(b), VECTOR), "not contiguous"),
    Breach("enumerate", Counts, lambda b: b.enumerate(), "it returned -1"),
    Breach("enumerate", Raises, lambda b: b.enumerate(), "OSError"),
    Breach("exported", Hidden, lambda b: b.download(0, upload(b), VECTOR), "while the view lives"),
    Breach("feature", Refuses, _needs_limit, "memory_limit is full, yet: not today"),
    Breach("foreign", NumpyBackend, _foreign, "StrictBuffer of another backend"),
    Breach("foreign", NumpyBackend, _raw, "NumpyBuffer of another backend"),
    Breach("fresh", Same, lambda b: [upload(b), upload(b)], "was returned again"),
    Breach("fresh", running(_aliases), call(2, 3), "share memory"),
    Breach("fresh", running(_aliases_input), call(2), "share memory"),
    Breach("fresh", running(_returns_input), call(2), "was returned again"),
    Breach("fresh", running(_keeps), call_twice, "was returned again"),
    Breach("host", NumpyBackend, _list, "it is a list"),
    Breach("host", NumpyBackend, lambda b: b.upload(0, ARRAY[::2]), "not contiguous"),
    Breach("host", NumpyBackend, lambda b: b.upload(0, np.array(["a"])), "no dtype|not a dtype"),
    Breach("index", NumpyBackend, lambda b: b.upload(1, ARRAY), "no device 1"),
    Breach("index", NumpyBackend, lambda b: b.synchronize(-1), "no device -1"),
    Breach("info", NoInfo, lambda b: b.info(0), "it is a dict"),
    Breach("info", described(features={"magic": FULL}), lambda b: b.info(0), "no feature"),
    Breach("info", described(features={"fork": True}), lambda b: b.info(0), "fork. is True"),
    Breach("info", described(dtypes={"float32": FULL}), lambda b: b.info(0), "no dtype"),
    Breach("info", described(ops={"magic": FULL}), lambda b: b.info(0), "no op"),
    Breach("info", described(ops={("add", "f4"): FULL}), lambda b: b.info(0), "no op"),
    Breach("info", described(limits={"max_rank": "8"}), lambda b: b.info(0), "no int"),
    Breach(
        "info",
        described(ops={("add", bool_): impossible("")}),
        lambda b: b.info(0),
        "impossible without a reason",
    ),
    Breach("inputs", NumpyBackend, lambda b: _compiled(b)([upload(b)]), "1 were given for 2"),
    Breach("inputs", NumpyBackend, _host_input("one"), "%1 is a str"),
    Breach("inputs", NumpyBackend, _host_input(1.0), r"%1 has shape \(\)"),
    Breach("intact", running(_writes_then_fails), run_out, "changed"),
    Breach("into", NumpyBackend, _into_two, "for two outputs"),
    Breach("into", NumpyBackend, _into_exported, "is exported"),
    Breach("into", NumpyBackend, call(2, into=[]), "0 for 1 outputs"),
    Breach(
        "into",
        described(features={"in_place": impossible("write-once memory")}),
        call_into,
        "in_place is impossible",
    ),
    Breach("memory", Forgets, lambda b: [upload(b), b.memory(0)], "but buffers hold 12"),
    Breach("memory", Backwards, lambda b: b.memory(0), "peak=10"),
    Breach("memory", NoLimit, _needs_limit, "set to 100 and reads None"),
    Breach("outputs", running(lambda *a: ()), call(2), "it is a tuple"),
    Breach("outputs", running(lambda b, run, x, into: run(x) * 2), call(2), "2 for 1 outputs"),
    Breach("required", running(_leaks), call(2), "8012 bytes were allocated, required_bytes is 12"),
    Breach("required", NoNumber, _compiled, "required_bytes is 1.5"),
    Breach("returned", running(_ignores_into), call_into, r"for float32\[3\]"),
    Breach("serialize", SerializesText, lambda b: b.serialize(0, _compiled(b)), "it is a str"),
    Breach("size", Small, upload, r"4 bytes hold float32\[3\]"),
    Breach("snapshot", Shares, upload, r"of float32\[3\]"),
    Breach("spec", NumpyBackend, lambda b: b.download(0, upload(b), spec((3, 1), float32)), "made"),
    Breach("spec", NumpyBackend, _into_wrong_size, r"made as float32\[4\], used as float32\[3\]"),
    Breach("whole", claiming(lambda g: Claim(((0,), (1,)))), _compiled, "of 2 nodes"),
    Breach("whole", claiming(lambda g: Claim((), {0: "no", 1: "no"})), _compiled, "of 2 nodes"),
]

SOUND_STATES = [State("full"), State("not_yet"), impossible("a reason")]
