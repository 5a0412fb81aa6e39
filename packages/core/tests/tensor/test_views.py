"""Writes to slices and reshapes: none is lost without a word, and sharing is NumPy's."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import GradientError, ViewError, ViewWarning

SHAPE = (3, 4)


def start() -> Any:
    return calor.reshape(calor.arange(12, dtype=calor.float32), SHAPE).copy()


def in_place(part: Any) -> None:
    part += 1


def assigned(part: Any) -> None:
    part[(0,) * part.ndim] = 9.0


# Views that NumPy and PyTorch share with the tensor they are of, and the advice.
VIEWS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x[0], r"x\[0\]"),
    (lambda x: x[1:, ::-2], r"x\[1:, ::-2\]"),
    (lambda x: x[..., None], r"x\[\.\.\., None\]"),
    (lambda x: x[:], r"x\[:\]"),
    (lambda x: next(iter(x)), r"x\[0\]"),
    (lambda x: x.reshape(12), r"x\.reshape"),
    (lambda x: x.reshape(SHAPE), r"x\.reshape"),
    (lambda x: x.T, r"x\.permute_dims"),
    (lambda x: calor.matrix_transpose(x), r"x\.permute_dims"),
    (lambda x: calor.expand_dims(x, 0), r"x\.reshape"),
    (lambda x: calor.split(x, (1, 2))[1], r"x\[1:3\]"),
    (lambda x: calor.unstack(x, axis=1)[0], "a part of a tensor"),
    (lambda x: x[0].reshape(2, 2)[1], "a part of a tensor"),
]


@pytest.mark.parametrize("change", [in_place, assigned])
@pytest.mark.parametrize(("view", "told"), VIEWS, ids=[told for _, told in VIEWS])
def test_a_write_to_a_view_says_that_it_is_lost(
    view: Callable[[Any], Any], told: str, change: Callable[[Any], None]
) -> None:
    x = start()
    with pytest.warns(ViewWarning, match=f"a write to {told}.* does not change x.*write|index"):
        change(view(x))
    assert x.tolist() == start().tolist()
    with (
        calor.strict_views(),
        pytest.raises(ViewError, match=rf"{__file__}:\d+: a write to {told}"),
    ):
        change(view(x))


def test_the_warning_names_the_line_and_how_to_write_it() -> None:
    x = start()
    with pytest.warns(ViewWarning, match=r"write x\[0, 1\] = …") as caught:
        x[0][1] = 5.0
    assert caught[0].filename == __file__
    with pytest.warns(ViewWarning, match=r"write x\[1:2, 3\] = …"):
        x[:, 3][1:2] = 5.0
    with pytest.warns(ViewWarning, match=r"write x\[1:3\] \+= …"):
        x[1:3][x[1:3] > 0] = 5.0
    row = x[2]
    with pytest.warns(ViewWarning, match=r"write x\[2\] \+= …"):
        row *= 2
    # It is a tensor of its own from then on.
    row *= 2


def test_a_refused_write_is_refused_again() -> None:
    x = start()
    row = x[2]
    with calor.strict_views():
        for _ in range(2):
            with pytest.raises(ViewError, match=r"write x\[2\] \+= …"):
                row *= 2
            with pytest.raises(ViewError, match=r"write x\[2, 1\] = …"):
                row[1] = 5.0
    assert x.tolist() == start().tolist()


def test_writes_that_lose_nothing_say_nothing() -> None:
    x = start()
    x[0] += 1
    x[1:, 2] *= 2
    x[0, 1] -= 1
    x[x > 3] += 1
    total = x[0, 0]
    total += 1
    for part in (x[0].copy(), (x + 1)[0], x[calor.asarray([0, 1])], x[x > 3], x[0] + 1):
        part += 1
    part = x[0]
    del x
    part += 1


def test_views_of_a_traced_tensor_say_it_while_it_is_traced() -> None:
    @calor.jit
    def lost(x: Any) -> Any:
        row = x[0]
        row += 1
        return x.sum() + row.sum()

    with pytest.warns(ViewWarning, match=r"write x\[0\] \+= …"):
        lost(start())
    lost(start())


def test_a_chain_of_views_keeps_nothing_alive() -> None:
    x = calor.ones((300, 2))
    for _ in range(290):
        x = x[1:]
    assert x._view[1] is None


def steps(x: Any, numbers: Any) -> list[Any]:
    """Make views of views and write to all of them, in an order that the numbers give."""
    parts = [x]
    for _ in range(14):
        part = parts[numbers.integers(len(parts))]
        kind = numbers.integers(7)
        if kind == 0 and part.ndim:
            parts.append(part[int(numbers.integers(-part.shape[0], part.shape[0]))])
        elif kind == 1 and part.ndim:
            key = slice(None, None, int(numbers.choice([-1, 2])))
            parts.append(part[..., key])
        elif kind == 2:
            # NumPy copies where strides cannot express it, so only dense parts are reshaped.
            parts.append(x.reshape(-1))
        elif kind == 3 and part.ndim == 2:
            parts.append(part.T)
        elif kind == 4 and part.ndim > 1:
            parts.append(part[None, :, 1:])
        elif kind == 5 and part.ndim:
            part *= 2
        elif part.ndim:
            part[..., -1:] = float(numbers.integers(100))
        parts = [part for part in parts if part.ndim and 0 not in part.shape]
    return parts


@pytest.mark.parametrize("seed", range(12))
def test_shared_views_are_those_of_numpy(seed: int) -> None:
    x, array = start(), np.arange(12, dtype=np.float32).reshape(SHAPE)
    with calor.shared_views():
        ours = steps(x, np.random.default_rng(seed))
    theirs = steps(array, np.random.default_rng(seed))
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(mine.numpy(), its)


@pytest.mark.parametrize("mode", [operator.iadd, operator.setitem])
def test_shared_views_of_a_leaf_are_refused(mode: Any) -> None:
    x = start().requires_grad_()
    with calor.shared_views():
        part = x[0]
        with pytest.raises(GradientError, match="leaf"):
            mode(part, *((0, 1.0) if mode is operator.setitem else (1.0,)))
    assert part.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_gradients_flow_through_writes_to_shared_views() -> None:
    x = start().requires_grad_()
    with calor.shared_views():
        y = x * 2
        y[0][1:] *= 3.0
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 6.0, 6.0, 6.0], [2.0] * 4, [2.0] * 4]


def test_modes_end_with_their_context() -> None:
    x = start()
    with calor.shared_views():
        inside = x[0]
    outside = x[1]
    inside += 1
    with pytest.warns(ViewWarning):
        outside += 1
    assert x[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert x[1].tolist() == [4.0, 5.0, 6.0, 7.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewWarning)
        x[2][0] = 1.0
