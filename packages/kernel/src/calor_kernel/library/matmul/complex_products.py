"""Complex products as real ones: B becomes a real matrix of twice the size each way.

Requirements: A and the result keep their memory, pairs of (real, imaginary), so only B is copied:
each element x + iy becomes the matrix [[x, y], [−y, x]].
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import complex64, complex128, float32, float64
from calor_kernel import language as kl
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import View
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Matrices, Task

_PARTS = {complex64: float32, complex128: float64}
# Units of a cube, and the elements of one alone.
_UNITS, _TURNS = 256, 256


@kl.kernel
def expand_complex(
    source: kl.In,
    target: kl.Out,
    count: kl.Size,
    n: kl.Size,
    k: kl.Size,
    of: Matrices[kl.Number],
    *,
    turns: int,
) -> None:
    """Write ``target[2k, 2n]`` of each batch from pairs ``source[k, n]``; strides are of pairs."""
    first = kl.absolute_position() * turns
    for i in kl.range(first, kl.min(first + turns, count)):
        column, rest = i % n, i // n
        row, batch = rest % k, rest // k
        at = 2 * (of.start(batch) + row * of.depth + column * of.column)
        real, imaginary = source[at], source[at + 1]
        to = 4 * batch * k * n + 4 * row * n + 2 * column
        target[to] = real
        target[to + 1] = imaginary
        target[to + 2 * n] = -imaginary
        target[to + 2 * n + 1] = real


def as_real(task: Task) -> Task:
    """Return a complex product as a real one; A is contiguous along K, or copied."""
    p = task.product
    a, b, part = p.a, p.b, _PARTS[p.dtype]
    if a.depth != 1 and p.k > 1:
        shape = (*p.batch, p.m, p.k)
        view = View(shape, (*a.batch, a.free, a.depth), a.dtype, a.offset)
        outer = p.m * p.k
        a = Operand((p.batch[1] * outer, outer), p.k, 1, 0, a.dtype)
        task = task.copied(0, view, a)
    count = p.batches * p.k * p.n
    target, made = task.room(4 * count * part.itemsize)
    if count:
        units = min(task.info.max_units, _UNITS)
        turns = _TURNS if units == 1 else 1
        expand = launch(
            expand_complex,
            Grid.line(-(-count // (units * turns)), units),
            Effort("matmul complex", 0, 24 * count),
            source=Bound(task.places[1], part), target=Bound(target, part), count=count, n=p.n,
            k=p.k, of=Matrices.of(b, p.batch), turns=turns,
        )  # fmt: skip
        made = replace(made, before=(*made.before, replace(expand, prepares=True)))
    whole = 4 * p.k * p.n
    left = Operand((2 * a.batch[0], 2 * a.batch[1]), 2 * a.free, 1, 2 * a.offset, part)
    right = Operand((whole * p.batch[1], whole), 1, 2 * p.n, 0, part)
    product = Product(p.batch, p.m, 2 * p.n, 2 * p.k, left, right, part)
    return replace(made.taking(1, target), product=product)
