"""The kernel families beside matrix products, from 1e5 to 1e8 elements, on a GPU beside torch's.

A call does the work several times and waits once, as programs do; times are of one piece of work.
Operands are in the GPU's memory and are the same at each call. The floor is the time that a piece's
operands and results take at the bandwidth of a copy, which is measured with the first case.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from time import perf_counter
from typing import Any

from harness import Case
from suites._gpu import Operand, gpu_case, often
from suites._operations import library

os.environ["CALOR_KEEP"] = "0"

Function = Callable[..., Any]
SIZES = (10**5, 10**6, 10**7, 10**8)
# Columns of rows, by the number of elements; tokens have 512 numbers, of a vocabulary of 50,000.
_COLUMNS = {10**5: 1000, 10**6: 1000, 10**7: 4000, 10**8: 8000}
_WIDE, _WORDS = 512, 50_000


@dataclass(frozen=True)
class Work:
    """A case: its name, operands, what both libraries do, and the bytes of the results."""

    name: str
    operands: tuple[Operand, ...]
    ours: Function
    torchs: Function
    made: int
    near: float = 1e-5


def cases(device: str) -> list[Case]:
    most = int(float(os.environ.get("CALOR_BENCHMARK_MOST", SIZES[-1])))
    return [_case(device, work) for n in SIZES if n <= most for work in works(n)]


def works(n: int) -> Iterator[Work]:
    """Return the cases of n elements."""
    flat, columns = Operand((n,)), _COLUMNS[n]
    rows = Operand((n // columns, columns))
    sums = n // columns
    yield Work(f"add {n}", (flat, flat), _add, _add, 4 * n)
    yield Work(f"exp {n}", (flat,), _calor("exp"), _torch("exp"), 4 * n)
    yield Work(f"sum {n}", (flat,), _calor("sum"), _torch("sum"), 4, 1e-4)
    yield Work(
        f"sum of rows {n}", (rows,), _calor("sum", axis=1), _torch("sum", dim=1), 4 * sums, 1e-4
    )
    yield Work(
        f"sum of columns {n}",
        (rows,),
        _calor("sum", axis=0),
        _torch("sum", dim=0),
        4 * columns,
        1e-4,
    )
    yield Work(f"softmax {n}", (rows,), _calor("softmax", axis=1), _torch("softmax", dim=1), 4 * n)
    yield Work(f"layer_norm {n}", (rows,), _layer_norm, _torch_layer_norm, 4 * n)
    yield Work(
        f"cumsum {n}",
        (flat,),
        _calor("cumulative_sum", axis=0),
        _torch("cumsum", dim=0),
        4 * n,
        1e-3,
    )
    yield Work(
        f"cumsum of rows {n}",
        (rows,),
        _calor("cumulative_sum", axis=1),
        _torch("cumsum", dim=1),
        4 * n,
        1e-4,
    )
    yield from places(n)
    yield Work(f"sort {n}", (flat,), _calor("sort"), _torch_sort, 12 * n)
    yield Work(f"sort of rows {n}", (rows,), _calor("sort"), _torch_sort, 12 * n)
    yield Work(f"topk of rows {n}", (rows,), _topk, _torch_topk, 12 * 64 * sums)


def places(n: int) -> Iterator[Work]:
    """Return the cases of n elements that read and write at computed places."""
    flat, index = Operand((n,)), Operand((n,), n)
    table, picks = Operand((n // 64, 64)), Operand((n // 64,), n // 64)
    tokens = Operand((-(-n // _WIDE), _WIDE))
    words = Operand(tokens.shape[:1], _WORDS)
    yield Work(f"gather of elements {n}", (flat, index), _take, _torch_take, 4 * n)
    yield Work(f"gather of rows {n}", (table, picks), _take, _torch_take, 4 * n)
    yield Work(
        f"scatter add {n}", (flat, index, flat), _scatter_add, _torch_scatter_add, 4 * n, 1e-4
    )
    yield Work(
        f"embedding gradient {n}",
        (tokens, words),
        _embedding_gradient,
        _torch_embedding_gradient,
        4 * _WIDE * _WORDS,
        1e-4,
    )


def _add(a: Any, b: Any) -> Any:
    return a + b


def _calor(name: str, **options: Any) -> Function:
    return lambda x: getattr(library("calor"), name)(x, **options)


def _torch(name: str, **options: Any) -> Function:
    return lambda x: getattr(library("torch"), name)(x, **options)


def _layer_norm(x: Any) -> Any:
    return library("calor_nn.functional").layer_norm(x, x.shape[-1:])


def _torch_layer_norm(x: Any) -> Any:
    return library("torch.nn.functional").layer_norm(x, x.shape[-1:])


def _take(x: Any, index: Any) -> Any:
    return library("calor").take(x, index, axis=0)


def _torch_take(x: Any, index: Any) -> Any:
    return library("torch").index_select(x, 0, index)


def _scatter_add(x: Any, index: Any, updates: Any) -> Any:
    return library("calor").scatter_along_axis(x, index, updates, axis=0, update="add")


def _torch_scatter_add(x: Any, index: Any, updates: Any) -> Any:
    return x.scatter_add(0, index, updates)


def _embedding_gradient(gradient: Any, words: Any) -> Any:
    calor = library("calor")
    zeros = calor.zeros((_WORDS, _WIDE), dtype="float32", device=gradient.device)
    return calor.scatter_nd(zeros, words.reshape(-1, 1), gradient, update="add")


def _torch_embedding_gradient(gradient: Any, words: Any) -> Any:
    backward = library("torch").ops.aten.embedding_dense_backward
    return backward(gradient, words, _WORDS, -1, False)


def _torch_sort(x: Any) -> Any:
    return library("torch").sort(x, dim=-1).values


def _topk(x: Any) -> Any:
    return library("calor").topk(x, 64)[0]


def _torch_topk(x: Any) -> Any:
    return library("torch").topk(x, 64).values


@cache
def bandwidth(device: str) -> float:
    """Return the bytes that a copy of 1e8 numbers reads and writes in a second."""
    calor = library("calor")
    with calor.device(device):
        x = calor.ones((10**8,), dtype="float32")
        calor.eval(x)
        copied = calor.jit(lambda x: -x)
        copied(x)
        call = copied.bind(x)
    times = []
    for _ in range(5):
        calor.synchronize(device)
        start = perf_counter()
        for _ in range(10):
            call()
        calor.synchronize(device)
        times.append((perf_counter() - start) / 10)
    return 8 * 10**8 / min(times)


def _case(device: str, work: Work) -> Case:
    def floor() -> float:
        moved = work.made + sum(operand.nbytes for operand in work.operands)
        return moved / bandwidth(device)

    size = max(prod(operand.shape) for operand in work.operands)
    return gpu_case(
        device,
        work.name,
        work.operands,
        work.ours,
        work.torchs,
        near=work.near,
        units=often(1e9, size),
        floor=floor,
    )
