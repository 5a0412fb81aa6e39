"""A row's ``saves`` names what its gradient reads, and nothing else.

For each choice of operands that want a gradient, the pullback is traced as the engine calls it: an
operand that is not saved is its Spec. What is saved must be read by the traced graph, and the
gradient must depend on its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import calor
from calor.dtypes import DType
from calor.graph.graph import Graph
from calor.ops.base import TABLE, Op, Signature, signature
from calor.recording.tracing import trace_function
from calor.specs import Spec, spec
from calor_conformance.rows.differences import differentiable
from calor_conformance.rows.exemptions import KEPT_WITHOUT_USE, NO_ROW
from calor_conformance.rows.judging import put
from calor_conformance.rows.language import Array, Case
from calor_conformance.rows.tables import CASES


def _rows() -> list[tuple[Case, DType]]:
    """Return one row for each op, dtype and choice of what its gradient may depend on."""
    seen, made = set(), []
    for c, dtype in differentiable(CASES):
        row = TABLE.get(c.op)
        if row is None or row.vjp is None or not isinstance(c.operation, str):
            continue
        key = (c.op, dtype, c.attributes.get("update"), c.attributes.get("kind"))
        if key not in seen and all(np.prod(d.shape) for d in c.inputs):
            seen.add(key)
            made.append((c, dtype))
    return made


def _needs(c: Case, dtype: DType, row: Op) -> Iterator[tuple[bool, ...]]:
    inexact = [d.type_for(dtype).is_inexact for d in c.inputs]
    able = [
        i and (not isinstance(row.vjp, tuple) or row.vjp[n] is not None)
        for n, i in enumerate(inexact)
    ]
    for mask in product(*[(True, False) if a else (False,) for a in able]):
        if any(mask):
            yield mask


class Pullback:
    """The pullback of a row for one choice of operands, as a function of what is saved."""

    def __init__(self, c: Case, dtype: DType, needs: tuple[bool, ...]) -> None:
        self.row, self.needs = TABLE[c.op], needs
        self.arrays = c.draw(dtype)
        given = tuple(
            spec(a.shape, d.type_for(dtype)) for a, d in zip(self.arrays, c.inputs, strict=True)
        )
        self.signature: Signature = signature(self.row, given, c.attributes_for(dtype))
        keep_output, keep = self.row.residuals_for(needs, self.signature)
        outputs = self.signature.outputs
        self.saved: list[tuple[str, int]] = [("y", i) for i in range(len(outputs)) if keep_output]
        self.saved += [("x", i) for i, kept in enumerate(keep) if kept]
        self.specs = [*outputs, *((outputs if k == "y" else given)[i] for k, i in self.saved)]

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        outputs: list[Any] = list(self.signature.outputs)
        operands: list[Any] = list(self.signature.inputs)
        for (kind, i), t in zip(self.saved, tensors[len(outputs) :], strict=True):
            (outputs if kind == "y" else operands)[i] = t
        many = len(outputs) > 1
        g: Any = list(tensors[: len(outputs)]) if many else tensors[0]
        y = tuple(outputs) if many else outputs[0]
        made = self.row.pullback(self.needs, g, y, tuple(operands), self.signature.attributes)
        return tuple(t for t, need in zip(made, self.needs, strict=True) if need and t is not None)

    def graph(self) -> Graph:
        """Return the traced gradient; its inputs are the cotangents, then what is saved."""
        return trace_function(self, self.specs, {})

    def run(self, saved: list[Array]) -> list[Array]:
        """Return gradients for other numbers of what is saved."""
        rng = np.random.default_rng(3)
        count = len(self.signature.outputs)
        g = [np.asarray(rng.normal(size=s.shape)).astype(s.dtype.numpy) for s in self.specs[:count]]
        return [t.numpy() for t in self(*put([*g, *saved]))]

    def numbers(self) -> list[Array]:
        """Return what is saved."""
        made = self.row(*put(self.arrays), **self.signature.attributes)
        outputs = [t.numpy() for t in calor.tree.leaves(made)]
        return [(outputs if k == "y" else self.arrays)[i] for k, i in self.saved]


def _read(graph: Graph) -> set[int]:
    used = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
    return used & set(graph.inputs)


PULLBACKS = [(c, dtype, needs) for c, dtype in _rows() for needs in _needs(c, dtype, TABLE[c.op])]


@pytest.mark.parametrize(
    ("row", "dtype", "needs"),
    PULLBACKS,
    ids=[
        f"{c.label}-{t.name}-{''.join(str(i) for i, n in enumerate(m) if n)}"
        for c, t, m in PULLBACKS
    ],
)
def test_what_is_saved_is_read(row: Case, dtype: DType, needs: tuple[bool, ...]) -> None:
    pullback = Pullback(row, dtype, needs)
    if not pullback.saved or row.op in KEPT_WITHOUT_USE:
        pullback.graph()
        return
    read = _read(pullback.graph())
    count = len(pullback.signature.outputs)
    idle = [s for n, s in enumerate(pullback.saved, count) if n not in read]
    assert not idle, f"{row.op} saves {idle}, which its gradient does not read"
    numbers = pullback.numbers()
    before = pullback.run(numbers)
    for n, (what, array) in enumerate(zip(pullback.saved, numbers, strict=True)):
        if array.dtype.kind not in "fc":
            continue
        # Other numbers in another order and with other signs.
        moved = np.asarray(0.375 - 1.25 * array.reshape(-1)[::-1].reshape(array.shape), array.dtype)
        other = [*numbers[:n], moved, *numbers[n + 1 :]]
        after = pullback.run(other)
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))
        assert not same, f"{row.op} saves {what}, on whose numbers its gradient does not depend"


def test_every_gradient_is_looked_at() -> None:
    looked = {c.op for c, _, _ in PULLBACKS}
    for name, op in TABLE.items():
        if op.vjp is None or op.no_gradient is not None or "." in name or name in NO_ROW:
            continue
        assert name in looked or name in KEPT_WITHOUT_USE, name


def test_specs_are_enough_where_nothing_is_saved() -> None:
    assert isinstance(Pullback(_rows()[0][0], _rows()[0][1], (True,)).signature.inputs[0], Spec)
