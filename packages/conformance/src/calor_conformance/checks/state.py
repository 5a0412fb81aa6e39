"""State: values never alias, and in-place writes are invisible to other values."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

import calor
from calor.transforms.state import Stateful

from .base import Place, compiled, plain_array
from .contract import Contracts

contract = Contracts("state")


def _tensor(*numbers: float) -> Any:
    return calor.asarray(plain_array(numbers))


class _Weights(Stateful):
    def __init__(self, *tensors: Any) -> None:
        self.tensors = list(tensors)


@calor.jit
def _descend(weights: _Weights, x: Any) -> Any:
    for w in weights.tensors:
        w -= x
    return x * 2


@contract("an update in place changes one tensor, and no other that was made from it")
def values_do_not_alias(place: Place) -> None:
    x = _tensor(1, 2, 3)
    y, view, part = x.copy(), calor.reshape(x, (3, 1)), x[1:]
    calor.eval(y, view, part)
    x += 10
    assert x.tolist() == [11.0, 12.0, 13.0]
    assert (y.tolist(), part.tolist()) == ([1.0, 2.0, 3.0], [2.0, 3.0])
    assert view.tolist() == [[1.0], [2.0], [3.0]]


@contract(
    "two outputs of one graph that hold the same number are two buffers",
    tier="compiled",
    looks=False,
)
def outputs_do_not_alias(place: Place) -> None:
    both = calor.jit(lambda x: (x + 1, x + 1, x))
    x = _tensor(1, 2)
    a, b, c = both(x)
    calor.eval(a, b, c)
    held = _Weights(a)
    _descend(held, _tensor(5, 5))
    assert held.tensors[0].tolist() == [-3.0, -2.0]
    assert b.tolist() == [2.0, 3.0], "another output was written over"
    assert (c.tolist(), x.tolist()) == ([1.0, 2.0], [1.0, 2.0]), "the input was written over"


@contract(
    "every output of an executable has memory of its own", features=("in_place",), looks=False
)
def outputs_have_memory_of_their_own(place: Place) -> None:
    device = place.plain
    graph = calor.trace(
        lambda x: (x + 1, (x + 1) * 1, calor.reshape(x, (2, 2))), _tensor(1, 2, 3, 4)
    )
    executable = compiled(place, graph)
    known = graph.output_specs

    def upload(*numbers: float) -> Any:
        return device.backend.upload(device.index, plain_array(numbers))

    given = upload(1, 2, 3, 4)
    first = executable([given])
    # Written again through each buffer, the others must keep what they hold.
    for turn in range(3):
        into = [b if i == turn else None for i, b in enumerate(first)]
        executable([upload(9, 9, 9, 9)], into)
        for i, (buffer, spec) in enumerate(zip(first, known, strict=True)):
            got = np.array(device.backend.download(device.index, buffer, spec)).reshape(-1)
            want = [[10.0] * 4, [10.0] * 4, [9.0] * 4][i] if i <= turn else (
                [2.0, 3.0, 4.0, 5.0] if i < 2 else [1.0, 2.0, 3.0, 4.0])  # fmt: skip
            assert got.tolist() == want, f"output {i} holds {got} after output {turn} was written"
    kept = np.array(device.backend.download(device.index, given, graph.input_specs[0]))
    assert kept.tolist() == [1.0, 2.0, 3.0, 4.0], "an input was written over"


@contract(
    "state written in place holds the newest numbers at every call", tier="compiled", looks=False
)
def state_is_never_stale(place: Place) -> None:
    weights, x = _Weights(_tensor(0, 0), _tensor(5, 6)), _tensor(1, 2)
    for n in range(1, 6):
        assert _descend(weights, x).tolist() == [2.0, 4.0]
        first, second = (w.tolist() for w in weights.tensors)
        assert first == [-1.0 * n, -2.0 * n], f"after call {n}"
        assert second == [5.0 - n, 6.0 - 2.0 * n], f"after call {n}"


@contract(
    "a copy of the state (an average, a snapshot) keeps its numbers while the state moves",
    tier="compiled",
)
def copies_of_state_stay(place: Place) -> None:
    weights, x = _Weights(_tensor(0, 0)), _tensor(1, 1)
    average, alias = weights.tensors[0].copy(), weights.tensors[0] * 1
    snapshot = weights.tensors[0].numpy().copy()
    for _ in range(3):
        _descend(weights, x)
    assert average.tolist() == [0.0, 0.0]
    assert alias.tolist() == [0.0, 0.0]
    assert snapshot.tolist() == [0.0, 0.0]
    assert weights.tensors[0].tolist() == [-3.0, -3.0]


@contract("tied weights are one tensor, updated once per step", tier="compiled", looks=False)
def tied_weights(place: Place) -> None:
    shared = _tensor(0, 0)
    weights = _Weights(shared, shared)
    _descend(weights, _tensor(1, 1))
    assert shared.tolist() == [-2.0, -2.0]
    assert weights.tensors[0] is weights.tensors[1]


@contract(
    "memory that a NumPy view sees is not written in place",
    tier="compiled",
    features=("host_views",),
    looks=False,
)
def exported_views_stay(place: Place) -> None:
    weights, x = _Weights(_tensor(0, 0)), _tensor(1, 1)
    _descend(weights, x)
    view = weights.tensors[0].numpy()
    before = view.tolist()
    _descend(weights, x)
    assert view.tolist() == before, "a view of a tensor changed under its holder"
    assert weights.tensors[0].tolist() == [-2.0, -2.0]


@contract("training by jitted steps gives the bits of training op by op", tier="training")
def training_steps(place: Place) -> None:
    def run(compiled: bool) -> list[list[float]]:
        weights = _Weights(_tensor(0.5, -0.25))
        data = _tensor(1, 2)

        def loss(w: Any) -> Any:
            return calor.sum((w * data - 1) ** 2)

        def step(weights: _Weights) -> Any:
            value, gradient = calor.value_and_grad(loss)(weights.tensors[0])
            weights.tensors[0] -= gradient * 0.1
            return value

        call = calor.jit(step) if compiled else step
        losses = [call(weights).item() for _ in range(5)]
        return [losses, weights.tensors[0].tolist()]

    one, other = run(True), run(False)
    assert one == other, f"jitted {one}, op by op {other}"


@contract(
    "results are written over operands, which may be others at each call",
    tier="compiled",
    features=("in_place",),
    looks=False,
)
def results_over_any_operands(place: Place) -> None:
    numbers = [plain_array([1, 2, 3]), plain_array([5, -1, 0]), plain_array([2, 4, -3])]
    tensors = map(calor.asarray, numbers)
    graph = calor.trace(lambda a, b, c: (a * 2 + b, b - c, a * c), *tensors)
    step, (a, b, c) = compiled(place, graph), numbers
    wants = (a * 2 + b, b - c, a * c)
    backend, index = place.plain.backend, place.plain.index
    targets = sorted({*permutations((0, 1, 2, None, None, None), 3)}, key=str)
    rng = np.random.default_rng(place.seed)
    for places in (targets[k] for k in rng.permutation(len(targets))):
        given = [backend.upload(index, n) for n in numbers]
        made = step(given, [None if k is None else given[k] for k in places])
        for k, (buffer, want) in enumerate(zip(made, wants, strict=True)):
            got = backend.download(index, buffer, graph.output_specs[k])
            assert (got == want).all(), f"result {k} written to {places} is {got}, not {want}"
        for k in {0, 1, 2} - {*places}:
            got = backend.download(index, given[k], graph.specs[graph.inputs[k]])
            assert (got == numbers[k]).all(), f"operand {k} became {got} beside {places}"


CHECKS = contract.checks
