"""How rows are added to the op table: ``op(name, rule, reference, vjp, ...)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calor.graph.attributes import Scalar as Scalar
from calor.graph.op import SIGNATURES as SIGNATURES
from calor.graph.op import TABLE as TABLE
from calor.graph.op import Autocast as Autocast
from calor.graph.op import Batch as Batch
from calor.graph.op import Check as Check
from calor.graph.op import Keeps as Keeps
from calor.graph.op import Op as Op
from calor.graph.op import Promotion, register
from calor.graph.op import Rule as Rule
from calor.graph.op import Saves as Saves
from calor.graph.op import Signature as Signature
from calor.graph.op import find as find
from calor.graph.op import signature as signature
from calor.graph.op import table as table
from calor.recording.rows import CheckedOp, RecordedOp
from calor.recording.tracing import trace_function
from calor.specs import Spec


class Composite(RecordedOp):
    """A row that smaller ops define. A device that lacks the row gets the graph of these.

    Parameters
    ----------
    name : str
        The op's name.
    rule : callable
        Specs of the operands and attributes to the spec of the result.
    reference : callable or None, optional
        The meaning in NumPy.
    vjp : callable, tuple of callable, or None, optional
        The reverse rule, as for `Op`.
    saves : str, tuple of str, or callable, optional
        What the vjp reads, as for `Op`.
    jvp : callable or None, optional
        The forward rule.
    no_gradient : str or None, optional
        Why the op has no gradient, if it has none.
    decompose : callable or None, optional
        The function of tensors that defines the op; needed here.
    promotion : {"none", "same", "float"}, optional
        How operands are promoted, as for `Op`.
    partial : bool, optional
        Whether the vjp takes None for results without gradient.
    since : str, optional
        The first release with the row.
    gradient_only : bool, optional
        Whether the row changes gradients only.
    checks : tuple of Check, optional
        Where the conformance suite meets the op.
    batch : callable, "leading" or None, optional
        What `calor.vmap` makes of the op, as for `Op`.
    autocast : {"", "low", "float32"}, optional
        What `calor.autocast` does with floating operands, as for `Op`.
    keeps : callable or None, optional
        Further results for the gradient alone, as for `Op`.
    """

    __slots__ = ()

    def definition(self, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Any:
        """Return the graph that the row's function of tensors records for given operands.

        Parameters
        ----------
        inputs : tuple of Spec
            The operands.
        attributes : dict of str to Any
            The attributes.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        TraceError
            If the function captures a tensor, or makes one from a host array.
        """
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
    batch: Batch | None = None,
    may_fail: bool = False,
    autocast: Autocast = "",
    keeps: Keeps | None = None,
) -> Op:
    """Add a row to the op table.

    A package outside calor may add ops under a prefix of its own ("acme.name") if each has a
    decomposition, so that every device can run it.

    Parameters
    ----------
    name : str
        The op's name; unique.
    rule : callable
        Specs of the operands and attributes to the spec of the result, or a tuple of specs.
    reference : callable or None, optional
        The meaning in NumPy: arrays and attributes to an array.
    vjp : callable, tuple of callable, or None, optional
        The reverse rule, as for `Op`.
    saves : str, tuple of str, or callable, optional
        What the vjp reads, as for `Op`. By default nothing.
    jvp : callable or None, optional
        The forward rule, for ops whose vjp cannot be transposed.
    no_gradient : str or None, optional
        Why the op has no gradient, if it has none.
    decompose : callable or None, optional
        The function of tensors that defines the op in smaller ones.
    promotion : {"none", "same", "float"}, optional
        How operands are promoted, as for `Op`.
    partial : bool, optional
        Whether the vjp takes None for results without gradient. By default False.
    since : str, optional
        The first release with the row. By default "0.1".
    gradient_only : bool, optional
        Whether the row changes gradients only. By default False.
    checks : tuple of Check, optional
        Where the conformance suite meets the op. By default its tables say it.
    batch : callable, "leading" or None, optional
        What `calor.vmap` makes of the op, as for `Op`. By default elementwise ops take the mapped
        axis first, and composites are decomposed.
    may_fail : bool, optional
        Whether the op, which is no composite, refuses some contents of its operands, such as an
        index out of range. Its errors name the line that recorded it. By default False.
    autocast : {"", "low", "float32"}, optional
        What `calor.autocast` does with floating operands, as for `Op`. By default nothing.
    keeps : callable or None, optional
        Further results for the gradient alone, as for `Op`. By default none.

    Returns
    -------
    Op
        The row; a call records it.

    Raises
    ------
    ArgumentError
        If the name is taken, or the row of another package has no decomposition.
    """
    primitive = CheckedOp if may_fail else RecordedOp
    kind = primitive if decompose is None else Composite
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
            batch=batch,
            autocast=autocast,
            keeps=keeps,
        )
    )
