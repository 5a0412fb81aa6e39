"""Functions of several axes of which one has no element: sums over nothing, and nothing at all.

Each axis of each function has no element in turn, the others have a few. A sum over none is 0, the
largest of none is −inf where the function says so, and a result without elements has its shape all
the same. Gradients have the shapes of the operands, and are 0 where the result has no element.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import float32

from .base import Array, Check, Place

CONTRACT: Final = "an axis without an element is an axis like others"
_NEAR: Final = 1e-5


@dataclass(frozen=True)
class _Function:
    """A function, what it is in NumPy, and the axes of its operands by letters."""

    call: Callable[..., Any]
    meaning: Callable[..., Any]
    operands: tuple[str, ...]
    # Axes that must have elements.
    kept: str = ""


def _attended(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * 0.5
    powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = powers / np.where(powers.shape[-1], powers.sum(-1, keepdims=True), 1)
    return np.asarray(np.einsum("bhqk,bhkv->bhqv", weights, v))


def _convolved(x: Array, w: Array) -> Array:
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[-1], -1)
    return np.asarray(np.einsum("biws,ois->bow", views, w))


def _transposed(x: Array, w: Array) -> Array:
    parts = np.einsum("biw,ios->bows", x, w)
    made = np.zeros((*parts.shape[:2], 2 * (parts.shape[2] - 1) + parts.shape[3]))
    for place in range(parts.shape[2]):
        made[..., 2 * place : 2 * place + parts.shape[3]] += parts[:, :, place]
    return made


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def _nn(name: str, **options: Any) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        return getattr(import_module("calor_nn.functional"), name)(*given, **options)

    return call


_FUNCTIONS: Final[Mapping[str, _Function]] = {
    "matmul": _Function(lambda x, y: x @ y, np.matmul, ("bmk", "kn")),
    "batched-matmul": _Function(lambda x, y: x @ y, np.matmul, ("bmk", "bkn")),
    "vecdot": _Function(calor.vecdot, lambda x, y: (x * y).sum(-1), ("bk", "bk")),
    "tensordot": _Function(
        lambda x, y: calor.tensordot(x, y, axes=2), lambda x, y: np.tensordot(x, y, 2),
        ("mkl", "kln"),
    ),
    "einsum": _Function(
        lambda x, y, z: calor.einsum("abc,cd,db->ad", x, y, z),
        lambda x, y, z: np.einsum("abc,cd,db->ad", x, y, z), ("abc", "cd", "db"),
    ),
    "attention": _Function(
        _nn("scaled_dot_product_attention", scale=0.5), _attended, ("bhqd", "bhkd", "bhkv"), "h",
    ),
    "conv": _Function(_nn("conv1d"), _convolved, ("biw", "ois"), "sw"),
    "strided-conv": _Function(
        _nn("conv1d", stride=2), lambda x, w: _convolved(x, w)[..., ::2], ("biw", "ois"), "sw"
    ),
    "transposed-conv": _Function(
        _nn("conv_transpose1d", stride=2), _transposed, ("biw", "ios"), "sw"
    ),
    "softmax": _Function(_nn("softmax", axis=-1), _softmax, ("bn",)),
    "logsumexp": _Function(
        lambda x: calor.logsumexp(x, axis=1), lambda x: np.logaddexp.reduce(x, 1, initial=-np.inf),
        ("bnc",),
    ),
    "sums": _Function(
        lambda x: calor.sum(x, axis=1) + calor.prod(x, axis=1) * 2,
        lambda x: x.sum(1) + x.prod(1) * 2, ("bnc",),
    ),
    "extremes": _Function(
        lambda x: calor.max(x, axis=1) + calor.min(x, axis=1), lambda x: x.max(1) + x.min(1),
        ("bnc",), "n",
    ),
    "runs": _Function(
        lambda x: calor.cumulative_sum(x, axis=1) * calor.cumulative_prod(x, axis=1),
        lambda x: np.cumsum(x, 1) * np.cumprod(x, 1), ("bnc",),
    ),
    "orders": _Function(lambda x: calor.sort(x, axis=1), lambda x: np.sort(x, 1), ("bnc",)),
    "joins": _Function(
        lambda x, y: calor.concat([x, y, x], axis=1), lambda x, y: np.concatenate([x, y, x], 1),
        ("bnc", "bmc"),
    ),
    "moves": _Function(
        lambda x: calor.roll(calor.flip(calor.permute_dims(x, (2, 0, 1)), axis=1), 1, axis=2),
        lambda x: np.roll(x.transpose(2, 0, 1)[:, ::-1], 1, 2), ("bnc",),
    ),
    "pads": _Function(
        lambda x: calor.pad(x, ((1, 0), (0, 2), (0, 0)), value=1.5),
        lambda x: np.pad(x, ((1, 0), (0, 2), (0, 0)), constant_values=1.5), ("bnc",),
    ),
    "repeats": _Function(
        lambda x: calor.repeat(calor.tile(x, (2, 1)), 3, axis=1),
        lambda x: np.repeat(np.tile(x, (2, 1)), 3, 1), ("bn",),
    ),
    "broadcasting": _Function(
        lambda x, y: calor.where(x > y, x, y * 2) + calor.maximum(x, y),
        lambda x, y: np.where(x > y, x, y * 2) + np.maximum(x, y), ("bnc", "c"),
    ),
    "pieces": _Function(
        lambda x: calor.sum(x[:, ::-2] * 2, axis=0) + x[..., None, :1].sum(axis=(0, 1, 2, 3)),
        lambda x: (x[:, ::-2] * 2).sum(0) + x[..., None, :1].sum(), ("bnc",),
    ),
    "norms": _Function(
        lambda x: calor.linalg.vector_norm(x, axis=1), lambda x: np.sqrt((x * x).sum(1)), ("bnc",)
    ),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    known = _FUNCTIONS[name]
    letters = sorted({*"".join(known.operands)} - {*known.kept})
    rng = np.random.default_rng([place.seed, 617])
    # Where a device compiles, one axis is asked at a time, and another one with each seed.
    for empty in letters if place.interpreted else [letters[place.seed % len(letters)]]:
        sizes = {letter: int(n) for letter, n in zip(letters, rng.integers(2, 5, 9), strict=False)}
        sizes |= {"w": 5, "s": 2, **dict.fromkeys(known.kept.replace("w", "").replace("s", ""), 3)}
        sizes[empty] = 0
        arrays = [
            (rng.random([sizes[letter] for letter in axes]) + 0.5).astype(np.float32)
            for axes in known.operands
        ]
        told = f"of shapes {[a.shape for a in arrays]}"
        given, want = [calor.asarray(a) for a in arrays], np.asarray(known.meaning(*arrays))
        for how, function in (("", known.call), ("jitted, ", calor.jit(known.call))):
            made = function(*given).numpy()
            assert made.shape == want.shape, f"{how}{told}: shape {made.shape}, not {want.shape}"
            assert np.allclose(made, want, _NEAR, _NEAR), f"{how}{told}: {made}, not {want}"
        _slopes(known.call, given, want, told)


def _slopes(call: Callable[..., Any], given: list[Any], want: Array, told: str) -> None:
    numbers = tuple(range(len(given)))
    found = calor.grad(lambda *xs: calor.sum(call(*xs)), numbers)(*given)
    for number, (slope, x) in enumerate(zip(found, given, strict=True)):
        made = slope.numpy()
        assert made.shape == x.shape, f"gradient {number} {told}: shape {made.shape}"
        if not want.size:
            assert not made.any(), f"gradient {number} {told} of nothing: {made}"


def axes_without_elements() -> Iterator[Check]:
    """Yield a check of each function."""
    for name in _FUNCTIONS:
        yield Check(
            kind="functions",
            subject=f"no-element-along-an-axis-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            op="sum",
            dtypes=(float32,),
            looks=True,
        )
