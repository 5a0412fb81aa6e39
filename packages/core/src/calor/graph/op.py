"""What an operation is: one row of the op table, and the interned signatures that traces refer to.

Requirements: a primitive is one row (name, rule, reference, gradient, residuals), so that the
reference backend, autograd, the test rows and a vendor's coverage table all read the same line.
Rules are the only place that rejects input. No row broadcasts or promotes: that happens above, as
explicit ``expand`` and ``cast`` nodes.

A row is data here. What recording it on tensors means stands on a higher floor, in subclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar

from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.graph.attributes import exact_items
from calor.interning import Interner
from calor.specs import Spec

Rule = Callable[..., Any]
Promotion = Literal["same", "float", "none"]
Residuals = str | tuple[str, ...]
Saves = Residuals | Callable[..., Residuals]


class Check(NamedTuple):
    """Operands at which the conformance suite meets an op, and how near its results must be.

    The suite takes every dtype that the op's rule takes, special numbers and gradients beside.

    Attributes
    ----------
    domains: for each operand the interval that its elements are drawn from.
    ulps: the largest error, in units in the last place of the exact result.
    scale: operands to a size at which units are taken instead, where that is larger: for results
        that are differences of larger terms.
    name: tells several checks of one op apart.
    no_gradient: why the op is not differentiated at these operands, if it is not.
    at_edges: why a gradient saves an operand whose numbers change it at edges alone, if one does.
    """

    domains: tuple[tuple[float, float], ...]
    ulps: float = 4.0
    scale: Callable[..., Any] | None = None
    name: str = ""
    no_gradient: str | None = None
    at_edges: str | None = None


class Op:
    """One row of the op table.

    Attributes
    ----------
    name: the op's name; ops of other packages are prefixed, ``"acme.fused_norm"``.
    rule: specs and attributes to the output Spec, or a tuple of Specs for several outputs.
    reference: the NumPy meaning, arrays and attributes to an array (or a tuple of arrays).
    vjp: per operand a function ``(g, y, *x, **attributes) -> gradient``, or one function that
        returns the list of all of them. Written in ops, so gradients of any order exist.
    saves: which residuals each vjp reads: a string of ``"y"`` and operand digits (``"*"`` for all
        operands), one string per operand function; where it depends on more, a function of the
        operand specs and attributes. An operand that is not saved reaches the vjp as its Spec.
    jvp: ``(tangents, y, *x, **attributes) -> tangent`` where the transpose of the vjp is no road.
    no_gradient: why the op has no gradient, when it has none.
    decompose: for a kept composite, the function of tensors that defines it in smaller ops.
    partial: whether the vjp of an op with several outputs takes None for an output that no gradient
        reached, instead of zeros.
    promotion: how operands of an elementwise op meet: "same" common type, "float" the same with
        integers made floating, "none" for ops that are not elementwise.
    since: the first release that has the row; a row added later carries a decomposition.
    gradient_only: whether the row changes gradients alone; it is decomposed before compiling.
    checks: where the conformance suite meets the op, for rows that say it themselves; its tables
        say it for all others.
    """

    __slots__ = (
        "checks",
        "decompose",
        "gradient_only",
        "jvp",
        "memo",
        "name",
        "no_gradient",
        "partial",
        "promotion",
        "reference",
        "rule",
        "saves",
        "since",
        "vjp",
    )

    def __init__(
        self,
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
    ) -> None:
        self.name: Final = name
        self.rule: Final = rule
        self.reference: Final = reference
        self.vjp = vjp
        self.saves: Final = saves
        self.jvp = jvp
        self.no_gradient: Final = no_gradient
        self.decompose: Final = decompose
        self.promotion: Final = promotion
        self.partial: Final = partial
        self.since: Final = since
        self.gradient_only: Final = gradient_only
        self.checks: Final = checks
        # Memo of (operand specs, attributes) to a recipe; filled by the recorder.
        self.memo: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (find, (self.name,))

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Record the op on tensors that already agree; no broadcasting, no promotion."""
        raise TypeError(f"op {self.name!r} is a node of graphs only; it is not called on tensors")

    def differentiate_by(
        self,
        *,
        vjp: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
    ) -> None:
        """Set the gradient of a row whose gradient is written on a floor above the row's.

        Control flow is such a row: its gradient traces control flow. Each rule is set once, by the
        module that has it; ArgumentError when there is one already.
        """
        if (vjp and self.vjp) or (jvp and self.jvp):
            raise ArgumentError(f"op {self.name!r} has a gradient already; rules are set once")
        self.vjp = vjp or self.vjp
        self.jvp = jvp or self.jvp

    def definition(self, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Any:
        """Return the graph that defines a kept composite for operands of these specs."""
        raise TypeError(f"op {self.name!r} is a primitive, which no smaller ops define")

    def residuals_for(
        self, needs: tuple[bool, ...], sig: Signature
    ) -> tuple[bool, tuple[bool, ...]]:
        """Return (is the output saved, which operands are saved) when ``needs`` want gradients."""
        saves = self.saves
        if callable(saves):
            saves = saves(*sig.inputs, **sig.attributes)
        if isinstance(saves, tuple):
            saves = "".join(s for s, n in zip(saves, needs, strict=True) if n)
        keep_all = "*" in saves
        return "y" in saves, tuple(keep_all or str(i) in saves for i in range(len(needs)))

    def pullback(
        self,
        needs: tuple[bool, ...],
        g: Any,
        y: Any,
        x: tuple[Any, ...],
        attributes: Mapping[str, Any],
    ) -> list[Any]:
        """Return the gradients of the operands that ``needs`` names, None for the others."""
        vjp = self.vjp
        if vjp is None:
            raise AssertionError(f"op {self.name} has no vjp; the recorder must not link it")
        if isinstance(vjp, tuple):
            return [
                f(g, y, *x, **attributes) if need and f is not None else None
                for f, need in zip(vjp, needs, strict=True)
            ]
        return list(vjp(g, y, *x, **attributes))


TABLE: Final[dict[str, Op]] = {}
# Called where a name is not in the table yet, and before the whole table is listed: each brings
# rows that are imported when they are asked for.
PROVIDERS: Final[list[Callable[[], object]]] = []

Row = TypeVar("Row", bound=Op)


def register(row: Row) -> Row:
    """Add a row to the op table and return it.

    Raises ArgumentError when the name is taken, or when the row of another package has no
    decomposition.
    """
    if row.name in TABLE:
        raise ArgumentError(f"op {row.name!r} is already in the table; names are unique")
    if "." in row.name and row.decompose is None:
        raise ArgumentError(
            f"op {row.name!r} of another package needs a decomposition into calor's ops, "
            f"so that devices which do not know it can run it: op(..., decompose=function)"
        )
    TABLE[row.name] = row
    return row


def table() -> Mapping[str, Op]:
    """Return every row by its name, also those that packages bring when they are asked for.

    >>> from calor.ops.base import table
    >>> "add" in table(), "attention" in table()
    (True, True)
    """
    for provide in PROVIDERS:
        provide()
    return TABLE


def find(name: str) -> Op:
    """Return the row of that name; ArgumentError when the table has none."""
    row = TABLE.get(name) or table().get(name)
    if row is None:
        raise ArgumentError(
            f"no op {name!r} in the table; the package that adds it is not installed, or has to be "
            f"imported first"
        )
    return row


class Signature:
    """An op with its attributes and operand specs: everything of a node but its operands.

    Interned, so it is part of a trace's key by identity.
    """

    __slots__ = ("__weakref__", "attributes", "cost", "inputs", "op", "outputs")

    def __init__(
        self,
        row: Op,
        attributes: dict[str, Any],
        inputs: tuple[Spec, ...],
        outputs: tuple[Spec, ...],
    ) -> None:
        self.op: Final = row
        self.attributes: Final = attributes
        self.inputs: Final = inputs
        self.outputs: Final = outputs
        self.cost = 1

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.attributes} {self.inputs} -> {self.outputs}>"


SIGNATURES: Final[Interner[Any, Signature]] = Interner()


def signature(row: Op, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Signature:
    """Return the interned signature; runs the op's rule the first time.

    What the rule refuses raises ShapeError, DTypeError or ArgumentError that name the op.
    """
    key = (row, inputs, exact_items(attributes))
    found = SIGNATURES.get(key)
    if found is not None:
        return found
    try:
        result = row.rule(*inputs, **attributes)
    except (ShapeError, DTypeError, ArgumentError) as error:
        error.name_op(row.name)
        raise
    outputs = result if isinstance(result, tuple) else (result,)
    return SIGNATURES.add(key, lambda: Signature(row, attributes, inputs, outputs))
