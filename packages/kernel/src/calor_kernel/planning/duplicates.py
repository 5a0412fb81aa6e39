"""Copies in another order of axes, and those that read the original long after.

Requirements: a value and its copy do not both wait for the backward pass, as the result of an
attention and its copy for the product after it would. A copy that waits anyway is read instead, by
strides, where every late reader's family takes such a view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Final

from calor_kernel.contract.choices import is_size
from calor_kernel.contract.work import Refusal, View, row_major
from calor_kernel.planning.lowering import Lowerings
from calor_kernel.planning.values import Piece, Task, Value

# Smaller values, in bytes, may wait twice.
_SMALL: Final = 1 << 16
# A reader is late if so many times the value's bytes are made before it, and not late any more for
# the copy if so many are made after the copy's last reader.
_LATE: Final = 16
_NEAR: Final = 8


def without_duplicates(
    tasks: Sequence[Task], outputs: Sequence[Piece], lowerings: Lowerings, deterministic: bool
) -> list[Task]:
    """Return tasks whose late readers of a value read a copy of it that waits anyway."""
    made = list(tasks)
    if any(is_size(p.nbytes) for t in tasks for p in t.outputs):
        return made
    reads: dict[Piece, list[int]] = {}
    for number, task in enumerate(tasks):
        for piece in {value.piece for value in task.inputs}:
            reads.setdefault(piece, []).append(number)
    done = [0, *accumulate(sum(p.nbytes for p in task.outputs) for task in tasks)]
    for number, task in enumerate(tasks):
        if task.op != "copy" or not task.outputs[0].nbytes >= _SMALL:
            continue
        (source,), (copy,) = task.inputs, task.outputs
        piece, nbytes = source.piece, copy.nbytes
        after = [n for n in reads[piece] if n > number]
        if not after or piece.kind != "made" or piece in outputs or copy in outputs:
            continue
        last = reads.get(copy, [number])[-1]
        if done[after[0]] - done[number] < _LATE * nbytes:
            continue
        if done[after[-1]] - done[last] > _NEAR * nbytes:
            continue
        found = {n: _reading(made[n], source, copy, lowerings, deterministic) for n in after}
        if None not in found.values():
            for n, reader in found.items():
                assert reader is not None
                made[n] = reader
    return made


def _reading(
    task: Task, source: Value, copy: Piece, lowerings: Lowerings, deterministic: bool
) -> Task | None:
    """Return a task that reads the copy, None if it cannot be had."""
    inputs = list(task.inputs)
    for k, value in enumerate(task.inputs):
        if value.piece is not source.piece:
            continue
        view = moved_view(value.view, source.view)
        if view is None or (lowerings.dense(task.op, k) and not view.is_dense):
            return None
        inputs[k] = Value(copy, view)
    views = tuple(value.view for value in inputs)
    works = lowerings.ask(task.op, task.attributes, views, task.results, deterministic)
    if isinstance(works, Refusal):
        return None
    return replace(task, inputs=tuple(inputs), works=works)


def moved_view(view: View, copied: View) -> View | None:
    """Return the view of a dense copy of ``copied`` with the elements of another view.

    None if ``copied`` is no order of all axes of its memory, or ``view`` no order of its axes.

    >>> from calor.dtypes import float32
    >>> swapped = View((3, 2), (1, 3), float32)
    >>> moved_view(View((2, 3), (3, 1), float32), swapped).strides
    (1, 2)
    """
    if view.offset or copied.offset or view.dtype is not copied.dtype:
        return None
    axes: Mapping[int, tuple[int, int]] = {
        s: (n, new)
        for n, s, new in zip(copied.shape, copied.strides, row_major(copied.shape), strict=True)
        if n != 1
    }
    sizes = [axes[s][0] for s in sorted(axes, reverse=True)]
    if sorted(axes, reverse=True) != list(row_major(sizes)):
        return None
    strides = []
    for n, s in zip(view.shape, view.strides, strict=True):
        if n != 1 and (s not in axes or axes[s][0] != n):
            return None
        strides.append(axes[s][1] if n != 1 else 0)
    if view.size != copied.size:
        return None
    return View(view.shape, tuple(strides), view.dtype)
