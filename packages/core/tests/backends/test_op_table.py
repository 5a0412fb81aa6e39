"""OpTable as the base of a simple device, and the reference that is built on it."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.backends.op_table import OpTable, bytes_needed
from calor.backends.protocol import FULL, Info, MemoryFigures
from calor.dtypes import bool_, complex64, float32, int32, int64
from calor.errors import CalorError, DeviceError, OutOfMemoryError, UnsupportedError
from calor.graph.graph import Builder, Graph
from calor.ops import elementwise as e
from calor.ops import movement as m
from calor.ops.base import TABLE, Scalar
from calor.ops.control import cond
from calor.ops.indexing import sort
from calor.ops.sources import full
from calor.specs import Spec, spec
from calor_conformance.strict.backend import StrictBackend


class Cell:
    """A value of the toy device: a list of numbers and its shape, in memory that is counted."""

    alive: ClassVar[weakref.WeakSet[Cell]] = weakref.WeakSet()

    def __init__(self, numbers: list[Any], shape: tuple[int, ...]) -> None:
        self.numbers, self.shape = numbers, shape
        Cell.alive.add(self)


class ToyBuffer:
    exported = False

    def __init__(self, cell: Cell, known: Spec) -> None:
        self.cell, self.nbytes = cell, known.nbytes


def _each(function: Callable[..., Any]) -> Callable[..., Cell]:
    def run(*cells: Cell) -> Cell:
        rows = zip(*(c.numbers for c in cells), strict=True)
        return Cell([function(*row) for row in rows], cells[0].shape)

    return run


def _expand(x: Cell, *, shape: tuple[int, ...]) -> Cell:
    return Cell(x.numbers * (int(np.prod(shape)) // max(len(x.numbers), 1)), shape)


class Toy(OpTable):
    """A device of four ops, without NumPy in its arithmetic: what a third party would write."""

    name = "toy"

    def __init__(self) -> None:
        self.reserved: list[int] = []
        self.peak = 0

    def enumerate(self) -> int:
        return 1

    def info(self, index: int) -> Info:
        return Info("Python lists", dtypes={float32: FULL}, features={"in_place": FULL})

    def table(self, index: int) -> Any:
        return {
            "add": _each(lambda a, b: a + b),
            "mul": _each(lambda a, b: a * b),
            "div": _each(lambda a, b: a / b),
            "expand": _expand,
        }

    def reserve(self, index: int, nbytes: int) -> None:
        self.reserved.append(nbytes)
        self.peak = max(self.peak, nbytes)

    def enter(self, index: int, given: Any, spec: Spec) -> Cell:
        if isinstance(given, ToyBuffer):
            return given.cell
        return Cell(np.ravel(given).tolist(), spec.shape)

    def own(self, index: int, values: Sequence[Any], inputs: Sequence[Any]) -> list[Cell]:
        taken, owned = list(inputs), []
        for value in values:
            if any(value is other for other in taken):
                value = Cell(list(value.numbers), value.shape)
            taken.append(value)
            owned.append(value)
        return owned

    def leave(self, index: int, value: Cell, spec: Spec, into: Any) -> ToyBuffer:
        if into is None:
            return ToyBuffer(value, spec)
        into.cell.numbers[:] = value.numbers
        made: ToyBuffer = into
        return made

    def upload(self, index: int, array: Any) -> ToyBuffer:
        return ToyBuffer(Cell(array.ravel().tolist(), array.shape), spec(array.shape, float32))

    def download(self, index: int, buffer: Any, spec: Spec) -> Any:
        return np.array(buffer.cell.numbers, spec.dtype.numpy).reshape(spec.shape)

    def copy(self, index: int, buffer: Any, spec: Spec, target: int) -> ToyBuffer:
        return self.upload(target, self.download(index, buffer, spec))

    def synchronize(self, index: int) -> None:
        pass

    def memory(self, index: int) -> MemoryFigures:
        return MemoryFigures(1 << 20, 1 << 20, None)


def test_a_toy_device_of_four_ops_computes() -> None:
    device = device_of(StrictBackend(Toy()), 0)
    x = calor.asarray([[1.0, 2.0, 3.0]], device=device)
    y = (x + 1) * x / 2
    assert y.tolist() == [[1.0, 3.0, 6.0]]
    step = calor.jit(lambda a, by: (a * by, a))
    for by in (2.0, 3.0):
        first, same = step(x, by)
        assert first.tolist() == [[by, 2 * by, 3 * by]]
        assert same.tolist() == x.tolist() == [[1.0, 2.0, 3.0]]


def test_what_a_toy_device_refuses_is_named() -> None:
    x = calor.asarray([1.0], device=device_of(Toy(), 0))
    with pytest.raises(UnsupportedError, match=r"exp: not in the device's op table"):
        calor.exp(x).numpy()


def test_an_error_of_a_toy_device_is_typed() -> None:
    x = calor.asarray([0.0], device=device_of(Toy(), 0))
    with pytest.raises(DeviceError, match=r"^toy failed: ZeroDivisionError: .*; in op 'div'$"):
        (x / x).numpy()


def test_temporaries_die_at_their_last_use() -> None:
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = x * x
        return x

    backend = Toy()
    graph = calor.trace(chain, calor.ones((2,)))
    executable = backend.compile(0, graph)
    held = backend.upload(0, np.ones(2, np.float32))
    most = 0

    def counting(a: Cell, b: Cell) -> Cell:
        nonlocal most
        most = max(most, len(Cell.alive))
        return Cell(a.numbers, a.shape)

    executable.steps[:] = [step._replace(function=counting) for step in executable.steps]
    before = len(Cell.alive)
    executable([held])
    assert len(graph.nodes) == 50
    assert most <= before + 2


def test_nothing_is_written_in_place_before_all_is_computed() -> None:
    backend = Toy()
    builder = Builder()
    vector = spec((2,), float32)
    x, y = builder.input(vector), builder.input(vector)
    (total,) = builder.add(e.add, [x, y])
    (quotient,) = builder.add(e.div, [x, y])
    executable = backend.compile(0, builder.build([total, quotient]))
    state, zeros = (backend.upload(0, np.full(2, n, np.float32)) for n in (3, 0))
    with pytest.raises(DeviceError, match="'div'"):
        executable([state, zeros], [state, None])
    assert state.cell.numbers == [3, 3]
    made = executable([state, state], [None, state])
    total_of: Any = made[0]
    assert made[1] is state
    assert (total_of.cell.numbers, state.cell.numbers) == ([6, 6], [1, 1])


def test_every_plan_reserves_before_it_runs() -> None:
    backend = Toy()
    graph = calor.trace(lambda x: x * x + x, calor.ones((4,)))
    executable = backend.compile(0, graph)
    executable([backend.upload(0, np.ones(4, np.float32))])
    assert backend.reserved == [executable.required_bytes] == [32]

    class Full(Toy):
        def reserve(self, index: int, nbytes: int) -> None:
            raise OutOfMemoryError("full")

    with pytest.raises(OutOfMemoryError, match="full; in op 'mul'"):
        Full().compile(0, graph)([None])


# What the reference runs: graphs with nodes of every arity and number of results.


def _graph(make: Callable[[Builder, int], Sequence[int]]) -> Graph:
    builder = Builder()
    x = builder.input(spec((3,), float32))
    return builder.build(make(builder, x))


def _three(b: Builder, x: int) -> Sequence[int]:
    (large,) = b.add(e.greater, [x, *b.add(e.neg, [x])])
    return b.add(e.where, [large, x, *b.add(e.neg, [x])])


def _branch(sign: int) -> Graph:
    return _graph(lambda b, x: b.add(e.neg, [x]) if sign < 0 else [x])


def _one_tuple(b: Builder, x: int) -> Sequence[int]:
    (number,) = b.add(m.reshape, b.add(m.slice_, [x], _slice(0, 1)), {"shape": ()})
    zero = {"value": Scalar.of(0, float32), "shape": (), "dtype": float32}
    (positive,) = b.add(e.greater, [number, *b.add(full, [], zero)])
    return b.add(cond, [positive, x], {"then": _branch(1), "otherwise": _branch(-1)})


def _slice(start: int, stop: int) -> dict[str, Any]:
    return {"starts": (start,), "stops": (stop,), "steps": (1,)}


GRAPHS: dict[str, tuple[Callable[[Builder, int], Sequence[int]], list[list[float]]]] = {
    "none": (lambda b, x: [x], [[-1, 3, 2]]),
    "one": (lambda b, x: b.add(e.neg, [x]), [[1, -3, -2]]),
    "two": (lambda b, x: b.add(e.mul, [x, x]), [[1, 9, 4]]),
    "three": (_three, [[1, 3, 2]]),
    "many": (lambda b, x: b.add(m.concat, [x] * 3, {"axis": 0}), [[-1, 3, 2] * 3]),
    "two results": (
        lambda b, x: b.add(sort, [x], {"axis": 0, "descending": False}),
        [[-1, 2, 3], [0, 2, 1]],
    ),
    "second result": (
        lambda b, x: b.add(sort, [x], {"axis": 0, "descending": True})[1:],
        [[1, 2, 0]],
    ),
    "a tuple of one": (_one_tuple, [[1, -3, -2]]),
    "a constant": (
        lambda b, x: b.add(
            full, [], {"value": Scalar.of(7, float32), "shape": (2,), "dtype": float32}
        ),
        [[7, 7]],
    ),
}


@pytest.mark.parametrize("case", GRAPHS)
def test_the_reference_runs_nodes_of_every_kind(case: str) -> None:
    make, expected = GRAPHS[case]
    for backend in (NumpyBackend(), StrictBackend(NumpyBackend())):
        graph = _graph(make)
        executable = backend.compile(0, graph)
        held = backend.upload(0, np.array([-1, 3, 2], np.float32))
        for _ in range(2):
            made = executable([held])
            found = [
                backend.download(0, b, s).tolist()
                for b, s in zip(made, graph.output_specs, strict=True)
            ]
            assert found == expected


def test_constants_are_kept_and_cannot_be_written() -> None:
    backend = NumpyBackend()
    x = calor.ones((1000,))
    executable = backend.compile(0, calor.trace(lambda x: x * 2.0, x))
    kept = [a for a in executable._room if a is not None]
    assert [a.shape for a in kept] == [(1000,)]
    assert sum(a.base.nbytes for a in kept) == 4
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 1
    assert executable.required_bytes == 4000


def test_numbers_are_taken_in_the_graphs_type() -> None:
    with calor.device("strict:numpy"):
        x = calor.asarray([100, 27], dtype="uint8")
        assert (x + 28).tolist() == [128, 55]
        y = calor.asarray([1.0], dtype="bfloat16")
        assert (y * 0.1).dtype == calor.bfloat16
        z = calor.asarray([1.0], dtype="float32")
        assert (z * 1e300).tolist() == [float("inf")]


# Whether the table of views tells the truth, for every row that takes plain operands.

MOVES: dict[str, list[dict[str, Any]]] = {
    "reshape": [{"shape": (3, 2)}, {"shape": (6,)}],
    "permute": [{"axes": (1, 0)}],
    "expand": [{"shape": (2, 2, 3)}],
    "slice": [{"starts": (0, 2), "stops": (2, 0), "steps": (1, -1)}],
    "flip": [{"axes": (0,)}],
    "cast": [{"dtype": t} for t in (bool_, int32, float32, complex64)],
    "bitcast": [{"dtype": int32}, {"dtype": float32}],
    "sum": [{"axes": (), "dtype": float32}, {"axes": (0,), "dtype": float32}],
    "prod": [{"axes": (), "dtype": float32}],
    "max": [{"axes": ()}],
    "any": [{"axes": ()}],
    "concat": [{"axis": 0}],
    "cumsum": [{"axis": 0, "reverse": False}],
    "sort": [{"axis": 0, "descending": False}],
    "dynamic_slice": [{"sizes": (1, 2)}],
    "gather": [{"axis": 0}],
    "take_along": [{"axis": 0}],
}
OPERANDS = [
    np.ones((2, 3), np.float32),
    np.ones((2, 3), np.int32),
    np.ones((2, 3), np.bool_),
    np.ones((2, 3), np.complex64),
    np.zeros(2, np.int64),
]
BY_DTYPE = {"float32": float32, "int32": int32, "bool": bool_, "complex64": complex64}
BY_DTYPE |= {"int64": int64}


def _specs(arrays: Sequence[Any]) -> list[Spec]:
    return [spec(a.shape, BY_DTYPE[a.dtype.name]) for a in arrays]


def _calls() -> list[Any]:
    found = []
    for row in list(TABLE.values()):
        if row.reference is None or "." in row.name:
            continue
        for count in (1, 2, 3):
            for arrays in itertools.product(OPERANDS, repeat=count):
                for attributes in MOVES.get(row.name, [{}]):
                    try:
                        row.rule(*_specs(arrays), **attributes)
                    except (CalorError, TypeError, IndexError, ValueError, KeyError):
                        continue
                    if count == getattr(row.reference, "nin", count):
                        found.append((row, arrays, attributes))
    return found


def test_the_views_of_the_reference_are_listed() -> None:
    views = NumpyBackend.views
    seen = set()
    for row, arrays, attributes in _calls():
        given = [a.copy() for a in arrays]
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
                made = row.reference(*given, **attributes)
        except TypeError:
            # A rule of any number of operands, and a reference of fewer.
            continue
        for result in made if isinstance(made, tuple) else (made,):
            shares = [i for i, a in enumerate(given) if np.shares_memory(result, a)]
            assert shares in ([], [0]), row.name
            assert not shares or row.name in views, f"{row.name} {attributes} returns a view"
            assert shares or views.get(row.name) != "always", f"{row.name} allocates"
            seen.update([row.name] if shares else [])
    # Each listed op was seen to return a view, so none is listed without need.
    assert seen == set(views)


def test_bytes_needed_counts_what_views_keep_alive() -> None:
    builder = Builder()
    x = builder.input(spec((8,), float32))
    (y,) = builder.add(e.neg, [x])
    (part,) = builder.add(m.slice_, [y], _slice(0, 2))
    (z,) = builder.add(e.neg, [x])
    graph = builder.build(builder.add(m.concat, [part, z], {"axis": 0}))
    assert bytes_needed(graph, {}) == (32 + 8 + 32 + 40 - 32, "concat")
    assert bytes_needed(graph, MappingProxyType({"slice": "always"})) == (32 + 32 + 40, "concat")
