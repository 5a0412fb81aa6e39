"""How rows are added to the op table: ``op(name, rule, reference, vjp, ...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.graph.attributes import Scalar as Scalar
from calor.graph.op import SIGNATURES as SIGNATURES
from calor.graph.op import TABLE as TABLE
from calor.graph.op import Check as Check
from calor.graph.op import Op as Op
from calor.graph.op import Promotion, register
from calor.graph.op import Rule as Rule
from calor.graph.op import Saves as Saves
from calor.graph.op import Signature as Signature
from calor.graph.op import find as find
from calor.graph.op import signature as signature
from calor.graph.op import table as table
from calor.recording.rows import RecordedOp
from calor.recording.tracing import trace_function
from calor.specs import Spec


class Composite(RecordedOp):
    """A row that smaller ops define: a graph of them is traced where a device lacks the row."""

    __slots__ = ()

    def definition(self, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Any:
        """Return the graph that the row's function of tensors records for these operands."""
        assert self.decompose is not None
        return trace_function(self.decompose, inputs, attributes)


def op(
    name: str,
    rule: Rule,
    reference: Callable[..., Any] | None = None,
    vjp: Callable[..., Any] | tuple[Callable[..., Any] | None, ...] | None = None,
    *,
    saves: Saves = "",
    jvp: Callable[..., Any] | None = None,
    no_gradient: str | None = None,
    decompose: Callable[..., Any] | None = None,
    promotion: Promotion = "none",
    partial: bool = False,
    since: str = "0.1",
    gradient_only: bool = False,
    checks: tuple[Check, ...] = (),
) -> Op:
    """Add a row to the op table and return it; the parameters are the attributes of :class:`Op`.

    A package outside calor may add ops under its own prefix (``"acme.name"``) when each has a
    decomposition, so that every device can run it. Raises ArgumentError when the name is taken, or
    when a foreign op has none.
    """
    kind = RecordedOp if decompose is None else Composite
    return register(
        kind(
            name,
            rule,
            reference,
            vjp,
            saves=saves,
            jvp=jvp,
            no_gradient=no_gradient,
            decompose=decompose,
            promotion=promotion,
            partial=partial,
            since=since,
            gradient_only=gradient_only,
            checks=checks,
        )
    )
