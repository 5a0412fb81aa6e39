"""Scans, sorts, gathers and scatters from 10 thousand to 10 million elements."""

from collections.abc import Callable
from typing import Any

import numpy as np

from harness import Case
from suites._operations import Array, library, normal, operation

_COUNTS = (10**4, 10**5, 10**6, 10**7)


def cases(device: str) -> list[Case]:
    return [
        case
        for n in _COUNTS
        for case in (
            _cumsum(device, n),
            _sort(device, n),
            _top_k(device, n),
            _gather(device, n),
            _scatter_add(device, n),
            _embedding_gradient(device, n),
        )
    ]


def _cumsum(device: str, n: int) -> Case:
    def ours(x: Any) -> Any:
        import calor

        return calor.cumulative_sum(x)

    return operation(
        device,
        f"cumsum {n}",
        normal((n,)),
        ours,
        torch=lambda x: x.cumsum(0),
        numpy=np.cumsum,
        relative=1e-3,
    )


def _sort(device: str, n: int) -> Case:
    def ours(x: Any) -> Any:
        import calor

        return calor.sort(x)

    return operation(
        device,
        f"sort {n}",
        normal((n,)),
        ours,
        torch=lambda x: x.sort(stable=True)[0],
        numpy=np.sort,
    )


def _top_k(device: str, n: int) -> Case:
    def ours(x: Any) -> Any:
        import calor

        return calor.topk(x, 100)[0]

    return operation(
        device,
        f"top 100 of {n}",
        normal((n,)),
        ours,
        torch=lambda x: x.topk(100)[0],
        numpy=lambda x: np.sort(np.partition(x, len(x) - 100)[-100:])[::-1],
    )


def _rows(n: int) -> int:
    return max(16, n // 64)


def _indexed(n: int) -> Callable[[], list[Array]]:
    def make() -> list[Array]:
        generator = np.random.default_rng(0)
        table = generator.standard_normal((_rows(n), 64), np.float32)
        index = generator.integers(0, _rows(n), _rows(n))
        return [table, index]

    return make


def _gather(device: str, n: int) -> Case:
    def ours(table: Any, index: Any) -> Any:
        import calor

        return calor.take(table, index, axis=0)

    return operation(
        device,
        f"gather rows of 64, {n}",
        _indexed(n),
        ours,
        torch=lambda table, index: table[index],
        numpy=lambda table, index: table[index],
    )


def _scatter_add(device: str, n: int) -> Case:
    def make() -> list[Array]:
        generator = np.random.default_rng(0)
        return [
            np.zeros(n, np.float32),
            generator.integers(0, n, n),
            generator.standard_normal(n, np.float32),
        ]

    def ours(x: Any, index: Any, updates: Any) -> Any:
        import calor

        return calor.scatter_along_axis(x, index, updates, axis=0, update="add")

    def numpy_add(x: Array, index: Array, updates: Array) -> Array:
        return x + np.bincount(index, updates, len(x)).astype(np.float32)

    return operation(
        device,
        f"scatter add {n}",
        make,
        ours,
        torch=lambda x, index, updates: x.index_add(0, index, updates),
        numpy=numpy_add,
        relative=1e-4,
    )


def _embedding_gradient(device: str, n: int) -> Case:
    def make() -> list[Array]:
        table, index = _indexed(n)()
        gradient = np.random.default_rng(1).standard_normal((len(index), 64), np.float32)
        return [table, index, gradient]

    def ours(table: Any, index: Any, g: Any) -> Any:
        import calor

        _, pull = calor.vjp(lambda t: calor.take(t, index, axis=0), table)
        return pull(g)[0]

    def theirs(table: Any, index: Any, g: Any) -> Any:
        torch = library("torch")
        return torch.ops.aten.embedding_dense_backward(g, index, len(table), -1, False)

    return operation(
        device, f"embedding gradient, rows of 64, {n}", make, ours, torch=theirs, relative=1e-4
    )
