"""Faults of sizes: what lies beyond one block, one grid, one kernel or one transfer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calor.backends.numpy_backend import NumpyExecutable
from calor.backends.op_table import Function
from calor.graph.graph import Graph

from .base import Array, Broken, Fault, afterwards, changing

# What one launch of a device computes at most, and what it computes at a time.
GRID = 65_535


BLOCK = 1024


def _up_to(count: int) -> Any:
    def cut(y: Array, *_: Any) -> Array:
        if y.size <= count:
            return y
        made = np.array(y, order="C")
        made.reshape(-1)[count:] = 0
        return made

    return cut


def _without_tail(y: Array, *_: Any) -> Array:
    """Lose what is left over after whole blocks, once there is a whole block."""
    whole = y.size // BLOCK * BLOCK
    return _up_to(whole)(y) if whole else y


class Arguments(Broken):
    """A kernel sees no more than 31 operands; those after them are the last."""

    class Calls(NumpyExecutable):
        """Replaces inputs."""

        def __call__(self, inputs: Any, into: Any = None) -> Any:
            """Run with what fits."""
            known = self.graph.input_specs
            given = [
                inputs[30] if i > 30 and known[i] == known[30] else x for i, x in enumerate(inputs)
            ]
            return super().__call__(given, into)

    executable = Calls


class ForgetsLongChains(Broken):
    """A graph of more than 500 nodes is split, and a value between the parts is lost."""

    class Calls(NumpyExecutable):
        """Leaves out a step."""

        def __init__(self, backend: Any, index: int, graph: Graph) -> None:
            super().__init__(backend, index, graph)
            if len(self.steps) > 500:
                middle = self.steps[250]
                self.steps[250] = middle._replace(function=lambda x, *_: x)

    executable = Calls


class LargeTransfers(Broken):
    """Uploads go in pieces of 64 KiB through a staging buffer; an incomplete last one is lost."""

    def upload(self, index: int, array: Array) -> Any:
        """Upload whole pieces."""
        whole = array.nbytes // 65_536 * 65_536
        if not whole or whole == array.nbytes:
            return super().upload(index, array)
        kept = np.array(array, order="C")
        kept.reshape(-1).view(np.uint8)[whole:] = 0
        return super().upload(index, kept)


def _first_block(right: Function) -> Function:
    def reduced(x: Array, *, axes: Any, **more: Any) -> Any:
        if axes == (x.ndim - 1,) and x.shape[-1] > BLOCK:
            x = x[..., :BLOCK]
        return right(x, axes=axes, **more)

    return reduced


def _without_carry(right: Function) -> Function:
    def scanned(x: Array, *, axis: int, reverse: bool) -> Any:
        if x.shape[axis] <= BLOCK:
            return right(x, axis=axis, reverse=reverse)
        rows = [right(part, axis=axis, reverse=reverse)
                for part in np.split(x, range(BLOCK, x.shape[axis], BLOCK), axis)]  # fmt: skip
        return np.concatenate(rows, axis)

    return scanned


def _in_blocks(right: Function) -> Function:
    """Sort blocks and leave them unmerged."""

    def sort(x: Array, *, axis: int, descending: bool) -> Any:
        if x.shape[axis] <= BLOCK:
            return right(x, axis=axis, descending=descending)
        starts = range(0, x.shape[axis], BLOCK)
        parts = [right(part, axis=axis, descending=descending)
                 for part in np.split(x, starts[1:], axis)]  # fmt: skip
        places = [p + start for (_, p), start in zip(parts, starts, strict=True)]
        return np.concatenate([v for v, _ in parts], axis), np.concatenate(places, axis)

    return sort


class LeavesEnds(Broken):
    """Movements write whole vectors of 8; what follows has what the memory held before."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[int, bytes] = {}

    def table(self, index: int) -> Mapping[str, Function]:
        """Return the table with sums that fill memory, and movements that leave their ends."""
        made = dict(super().table(index))
        made["add"] = afterwards(self._filled)(made["add"])
        for name in ("pad", "concat", "flip"):
            made[name] = afterwards(self._left)(made[name])
        return made

    def _filled(self, y: Array, *_: Any) -> Array:
        self.held[y.nbytes] = y.tobytes()
        return y

    def _left(self, y: Array, *_: Any) -> Array:
        end = y.size % 8
        if y.size < BLOCK or not end or y.nbytes not in self.held:
            return y
        before = np.frombuffer(self.held[y.nbytes], y.dtype)
        flat = np.array(y, order="C").reshape(-1)
        flat[-end:] = before[-end:]
        return flat.reshape(y.shape)


def _small_steps(right: Function) -> Function:
    """Keep the steps of slices in four bits."""

    def sliced(x: Array, *, starts: Any, stops: Any, steps: Any) -> Any:
        kept = tuple(step if abs(step) < 16 else step % 16 or 16 for step in steps)
        made = right(x, starts=starts, stops=stops, steps=kept)
        due = right(x, starts=starts, stops=stops, steps=steps).shape
        return made[tuple(slice(n) for n in due)]

    return sliced


FAULTS = [
    Fault(
        "ends-left-as-they-were",
        "movements write whole vectors, and their ends keep what the memory held",
        LeavesEnds,
        ("sizes/written-everywhere/float32", "sizes/written-everywhere/int8"),
        ("pad",),
    ),
    Fault(
        "steps-in-four-bits",
        "steps of slices from 16 on lose their upper bits",
        changing(slice=_small_steps),
        ("functions/drawn-equations",),
        ("slice",),
    ),
    Fault(
        "grid-too-small",
        "elements after the first 65,535 are not computed",
        changing(add=afterwards(_up_to(GRID))),
        ("sizes/add-65537/*",),
        ("add",),
    ),
    Fault(
        "tail-lost",
        "what is left over after whole blocks of 1,024 elements is not computed",
        changing(mul=afterwards(_without_tail)),
        ("sizes/mul-1025/*",),
        ("mul",),
    ),
    Fault(
        "many-operands",
        "a kernel takes 31 operands, and the last stands for all others",
        Arguments,
        ("sizes/many_operands",),
    ),
    Fault(
        "long-graphs",
        "a graph of more than 500 nodes loses one",
        ForgetsLongChains,
        ("sizes/many_nodes",),
    ),
    Fault(
        "large-transfers",
        "an upload loses what is left over after pieces of 64 KiB",
        LargeTransfers,
        ("transfers/large",),
    ),
    Fault(
        "first-block-alone",
        "a sum along the last axis ends after 1,024 elements",
        changing(sum=_first_block),
        ("sizes/sum-last-1025/*",),
        ("sum",),
    ),
    Fault(
        "carry-between-blocks",
        "a running sum starts again every 1,024 elements",
        changing(cumsum=_without_carry),
        ("sizes/cumsum-1025/*",),
        ("cumsum",),
    ),
    Fault(
        "sort-in-blocks",
        "rows of more than 1,024 elements are sorted in blocks that nobody merges",
        changing(sort=_in_blocks),
        ("sizes/sort-1025/*",),
        ("sort",),
    ),
]
