"""Whole programs, what is refused, what companions take over, and stored programs."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import CompileError, FormatError, UnsupportedError
from calor.ops.base import find, table
from calor.specs import spec
from calor.transforms.state import Stateful
from calor_tensorbox.compiler import compile_program
from calor_tensorbox.description import CLAIMED, INFO
from calor_tensorbox.program import Program

F16 = np.float16
CONV = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
conv, relu = find("conv"), find("relu")


@pytest.fixture
def box() -> Iterator[Any]:
    """The device, with nobody beside it, and its counts from 0."""
    with calor.device("tensorbox") as device:
        device.fallbacks = device.transfers = device.transferred_bytes = 0
        yield device
        device.companions = ()


def normal(*shape: int, scale: float = 1.0, dtype: Any = F16, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).normal(size=shape) * scale).astype(dtype)


class Network:
    """Two convolutions, which the box computes, and a classifier, which it computes in part."""

    def __init__(self, device: str) -> None:
        def put(*shape: int, scale: float) -> Any:
            return calor.asarray(normal(*shape, scale=scale), device=device)

        self.first, self.bias = put(4, 1, 3, 3, scale=0.3), put(4, 1, 1, scale=1.0)
        self.second, self.last = put(6, 4, 3, 3, scale=0.2), put(96, 10, scale=0.1)

    def features(self, x: Any) -> Any:
        """Every op of this is one that the box takes."""
        x = relu(conv(x, self.first, **CONV) + self.bias)
        return relu(conv(x, self.second, **CONV)) * 0.5

    def scores(self, x: Any) -> Any:
        """Return scores: the reshape between two products is not the box's."""
        return calor.reshape(self.features(x), (x.shape[0], 96)) @ self.last

    def chances(self, x: Any) -> Any:
        """Return the softmax, of which the box computes no step: it has no float32."""
        return calor.softmax(self.scores(x), axis=1)


def on_numpy(method: Callable[[Network], Callable[..., Any]], images: np.ndarray) -> np.ndarray:
    with calor.device("numpy"):
        return np.array(method(Network("numpy"))(calor.asarray(images)).numpy())


def test_a_network_of_what_it_takes_is_one_program(box: Any) -> None:
    images = normal(2, 1, 8, 8)
    network = Network("tensorbox")
    got = calor.jit(network.features)(calor.asarray(images))
    assert got.device == box
    np.testing.assert_allclose(
        got.numpy(), on_numpy(lambda n: n.features, images), rtol=4e-3, atol=4e-3
    )
    assert (box.fallbacks, box.transfers) == (0, 0)


def test_what_it_lacks_is_refused_op_by_op(box: Any) -> None:
    x = calor.asarray(normal(2, 1, 8, 8))
    with pytest.raises(UnsupportedError) as caught:
        calor.jit(Network("tensorbox").scores)(x)
    text = str(caught.value)
    assert "tensorbox:0 does not take 1 of" in text
    assert "reshape: float16 is impossible (its memory is read and written in the order" in text
    assert [op for op, _, _ in caught.value.refused] == ["reshape"]
    assert (box.fallbacks, box.transfers) == (0, 0)


def test_a_companion_takes_what_it_lacks_and_that_is_counted(box: Any) -> None:
    box.companions = (calor.device("numpy"),)
    images = normal(2, 1, 8, 8)
    step = calor.jit(Network("tensorbox").scores)
    want = on_numpy(lambda n: n.scores, images)
    for calls in (1, 2, 3):
        got = step(calor.asarray(images))
        assert got.device == box
        np.testing.assert_allclose(got.numpy(), want, rtol=8e-3, atol=8e-3)
        # The features go to the companion that reshapes them, and come back: 2 · 96 halves.
        assert (box.fallbacks, box.transfers) == (calls, 2 * calls)
        assert box.transferred_bytes == calls * 2 * (2 * 96 * 2)


def test_the_companion_runs_a_whole_tail_at_once(box: Any) -> None:
    box.companions = (calor.device("numpy"),)
    images = normal(2, 1, 8, 8)
    got = calor.jit(Network("tensorbox").chances)(calor.asarray(images)).numpy()
    np.testing.assert_allclose(got.sum(1, dtype=np.float32), 1, atol=2e-3)
    np.testing.assert_allclose(got, on_numpy(lambda n: n.chances, images), atol=4e-3)
    # There and back for the reshape, there for the softmax, back with the result.
    assert box.transfers == 4
    assert box.transferred_bytes == 2 * (2 * 96 * 2) + 2 * (2 * 10 * 2)
    assert box.fallbacks == 12


def test_an_index_of_a_type_that_it_has_not_is_kept_in_its_memory(box: Any) -> None:
    box.companions = (calor.device("numpy"),)
    images = normal(3, 1, 8, 8)
    network = Network("tensorbox")
    best = calor.jit(lambda x: calor.argmax(network.scores(x), axis=1))(calor.asarray(images))
    assert (best.dtype, best.device) == (calor.int64, box)
    assert best.tolist() == on_numpy(lambda n: n.scores, images).argmax(1).tolist()


def test_state_in_place_beside_a_companion(box: Any) -> None:
    box.companions = (calor.device("numpy"),)

    class Average(Stateful):
        def __init__(self) -> None:
            self.mean = calor.asarray(np.zeros(4, F16))

    average = Average()

    @calor.jit
    def update(average: Average, x: Any) -> Any:
        average.mean += (calor.sum(x, axis=0) - average.mean) * 0.5
        return average.mean * 1

    x = calor.asarray(np.ones((2, 4), F16))
    assert [update(average, x).tolist()[0] for _ in range(3)] == [1.0, 1.5, 1.75]
    assert average.mean.tolist() == [1.75] * 4


def test_a_look_compiles_nothing(box: Any) -> None:
    x = calor.asarray(normal(3))
    with pytest.raises(UnsupportedError, match="does not compile pending operations"):
        (x + 1).numpy()
    box.companions = (calor.device("numpy"),)
    assert (x + x).numpy().tolist() == (x.numpy() * 2).tolist()
    assert box.fallbacks == 1


def test_bytes_are_multiplied_and_added_in_int32(box: Any) -> None:
    a, b = normal(5, 300, scale=60, dtype=np.int8), normal(300, 4, scale=60, dtype=np.int8)
    product = find("dot_general")
    step = calor.jit(
        lambda a, b: product(
            a, b, contract=((1,), (0,)), batch=((), ()), dtype=calor.int32
        )
    )  # fmt: skip
    got = step(calor.asarray(a), calor.asarray(b))
    assert got.dtype == calor.int32
    assert (got.numpy() == a.astype(np.int32) @ b.astype(np.int32)).all()


def test_every_op_is_claimed_or_impossible_or_made_of_others() -> None:
    """A primitive that it neither takes nor declares impossible would count as not written yet."""
    ruled_out = {op for op, state in INFO.ops.items() if not state}
    assert not ruled_out & CLAIMED
    primitives = {
        name for name, row in table().items() if row.decompose is None and name != "input"
    }
    assert primitives <= ruled_out | CLAIMED


def graph_of(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    with calor.device("tensorbox"):
        return calor.trace(function, *map(calor.asarray, arrays))


def test_places_in_the_arena_are_used_again() -> None:
    def chain(x: Any) -> Any:
        for _ in range(50):
            x = x * x + x
        return x

    program = compile_program(graph_of(chain, normal(1000)))
    assert len(program.steps) == 100
    assert program.arena <= 3 * 2048


def test_places_that_are_alive_at_once_do_not_meet() -> None:
    def wide(x: Any) -> Any:
        parts = [x * n for n in range(1, 9)]
        return [a + b for a, b in zip(parts, parts[::-1], strict=True)]

    program = compile_program(graph_of(wide, normal(33)))
    spans = sorted((p.start, p.start + 66) for p in program.results)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))


def test_a_compile_of_what_was_not_claimed_is_an_error() -> None:
    with pytest.raises(CompileError, match="no command for it; in op 'sum'"):
        compile_program(graph_of(calor.sum, normal(3)))


CHILD = """
import sys
import numpy as np
import calor
from calor.specs import spec
with calor.device("tensorbox") as box:
    program = box.backend.deserialize(0, sys.stdin.buffer.read())
    x = box.backend.upload(0, np.arange(6, dtype=np.float16).reshape(2, 3))
    (made,) = program([x])
    print(box.backend.download(0, made, spec((2, 3), calor.float16)).tolist())
"""


def test_a_stored_program_runs_in_another_process(box: Any) -> None:
    graph = graph_of(lambda x: calor.tanh(x) * x, np.arange(6, dtype=F16).reshape(2, 3))
    executable = box.backend.compile(0, graph)
    stored = box.backend.serialize(0, executable)
    x = box.backend.upload(0, np.arange(6, dtype=F16).reshape(2, 3))
    (made,) = executable([x])
    here = box.backend.download(0, made, spec((2, 3), calor.float16)).tolist()
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=stored, capture_output=True, check=False
    )
    assert done.stdout.decode().strip() == str(here), done.stderr.decode()


def test_a_damaged_program_does_not_load() -> None:
    stored = compile_program(graph_of(lambda x: x + x, normal(3))).to_bytes()
    assert Program.from_bytes(stored).to_bytes() == stored
    with pytest.raises(FormatError, match="no program of a tensorbox"):
        Program.from_bytes(b"something else")
    for place in (6, len(stored) - 2):
        damaged = bytearray(stored)
        damaged[place] ^= 1
        with pytest.raises(FormatError, match="is damaged; compile the graph again"):
            Program.from_bytes(bytes(damaged))
