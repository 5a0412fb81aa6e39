"""Checks of functions, distributions, drawn programs and copies fail where something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calor
from calor.compiling.partitioned import PartitionedExecutable
from calor.plugins.discovery import get_device
from calor_conformance import suite
from calor_conformance.checks.base import Place

_MOVEAXIS, _MEDIAN, _NORMAL, _SHUFFLE = (
    calor.moveaxis,
    calor.median,
    calor.random.normal,
    calor.random.shuffle,
)


def _last_row(x: Any, *, axis: int = 0, **options: Any) -> Any:
    made = _SHUFFLE(x, axis=axis, **options)
    return made if axis >= 0 else _SHUFFLE(x, axis=0, **options)[:1]


WRONG: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "functions/moveaxis": (calor, "moveaxis", lambda x, a, b: _MOVEAXIS(x, b, a)),
    "functions/median": (
        calor,
        "median",
        lambda x, *, axis, keepdims: _MEDIAN(x, axis=-1 if axis is None else axis, keepdims=True),
    ),
    "functions/arange": (calor, "arange", lambda a, b, step: calor.asarray([a])),
    "functions/result_type": (calor, "result_type", lambda a, b: a),
    "random/distributions/float32": (
        calor.random,
        "normal",
        lambda *given, **options: calor.abs(_NORMAL(*given, **options)),
    ),
    "random/orders": (calor.random, "shuffle", _last_row),
    "random/outcomes": (
        calor.random,
        "bernoulli",
        lambda shape, p, **options: calor.random.uniform(shape, **options) >= p,
    ),
    "random/streams": (calor.random, "split", lambda key, count: [key] * count),
}


def _all_but_one(self: PartitionedExecutable) -> list[tuple[int, ...]]:
    """Free a value that the results need."""
    made = _LAST_STAGES(self)
    return [(*made[0], *set(self.graph.outputs[:1]) - set(made[0])), *made[1:]]


_LAST_STAGES, _SUM, _SCAN, _TOPK, _REPEAT, _MATMUL, _UPDATE, _KEY = (
    PartitionedExecutable._last_stages,
    calor.sum,
    calor.scan,
    calor.topk,
    calor.Tensor.repeat,
    calor.matmul,
    calor.dynamic_update_slice,
    calor.random.key,
)


def _forward_only(body: Any, init: Any, xs: Any, *, reverse: bool) -> Any:
    return _SCAN(body, init, xs)


def _without_gradient(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: function(calor.stop_gradient(x))


class _Copied:
    """What a copy gives that is no copy."""

    def __get__(self, x: Any, _: Any = None) -> Callable[[], Any]:
        return lambda: x


WRONG |= {
    "crossed/chain-of-drawn-ops/float32": (
        calor,
        "sum",
        lambda x, **options: _SUM(x, **options) + 1,
    ),
    "transfers/ways_to_copy": (calor, "from_dlpack", lambda x, copy: x),
    "crossed/chain-of-drawn-scanned/int32": (calor, "scan", _forward_only),
    "functions/topk": (
        calor,
        "topk",
        lambda x, k, *, axis, largest: _TOPK(x, k, axis=axis, largest=True),
    ),
    "functions/repeat-each": (calor.Tensor, "repeat", lambda x, n, axis: _REPEAT(x, n, axis) * 1.0),
    "transforms/layers-of-tokens-1-forward/float32": (
        calor,
        "matmul",
        lambda a, b: _MATMUL(a, b) * 1.01,
    ),
    "history/decoding-with-caches-0": (
        calor,
        "dynamic_update_slice",
        lambda x, update, starts: _UPDATE(x, update[..., ::-1], starts),
    ),
    "random/streams_apart": (calor.random, "key", lambda number: _KEY(number & 0xFFFFFFFF)),
    "history/drawn-64": (calor.Tensor, "copy", _Copied()),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_function_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()[name], get_device("numpy")
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(*WRONG[name])
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


@pytest.mark.parametrize("name", ["backward", "forward", "second-order", "mapped"])
def test_a_wrong_derivative_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()[f"transforms/drawn-{name}/float64"], get_device("numpy")
    with calor.device("numpy"):
        for function in (calor.exp, calor.sin, calor.tanh):
            monkeypatch.setattr(calor, function.__name__, _without_gradient(function))
        with pytest.raises(AssertionError):
            check.run(Place(device, device))


@pytest.mark.parametrize("name", ["_last_stages", "_own"])
def test_a_wrong_cut_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, device = suite.checks()["graphs/parts_beside_another_device"], get_device("numpy")
    wrong = {"_last_stages": _all_but_one, "_own": lambda self, results, into: results}[name]
    with calor.device("numpy"):
        check.run(Place(device, device))
        monkeypatch.setattr(PartitionedExecutable, name, wrong)
        with pytest.raises((AssertionError, KeyError)):
            check.run(Place(device, device))


def test_an_index_is_read_and_written() -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        for seed in range(5):
            for name in ("functions/reading", "functions/writing"):
                suite.checks()[name].run(Place(device, device, seed))
