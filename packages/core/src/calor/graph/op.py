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
Batch = Callable[..., Any] | Literal["leading"]
# Attributes and the operands' specs, to the attributes where a gradient may follow.
Keeps = Callable[..., dict[str, Any]]
# What autocast does with floating operands: the low type, float32, or nothing.
Autocast = Literal["", "low", "float32"]
Residuals = str | tuple[str, ...]
Saves = Residuals | Callable[..., Residuals]


class Check(NamedTuple):
    """Operands at which the conformance suite meets an op, and how accurate its results must be.

    The suite takes every dtype that the op's rule accepts, and adds special numbers and gradients.

    Attributes
    ----------
    domains : tuple of tuple of float
        For each operand the interval that its elements are drawn from.
    ulps : float, optional
        The largest error, in units in the last place of the exact result. By default 4.
    scale : callable or None, optional
        A function of the operands: the size at which units are taken if it is larger than the
        result, for results that are differences of larger terms.
    name : str, optional
        Tells several checks of one op apart.
    no_gradient : str or None, optional
        Why the op is not differentiated at these operands, if it is not.
    at_edges : str or None, optional
        Why a gradient saves an operand that changes it at edges only, if one does.
    """

    domains: tuple[tuple[float, float], ...]
    ulps: float = 4.0
    scale: Callable[..., Any] | None = None
    name: str = ""
    no_gradient: str | None = None
    at_edges: str | None = None


class Op:
    """One row of the op table.

    Parameters
    ----------
    name : str
        The op's name. Ops of other packages have a prefix: "acme.fused_norm".
    rule : callable
        Specs of the operands and attributes to the spec of the result, or a tuple of specs. It
        alone rejects input.
    reference : callable or None, optional
        The meaning in NumPy: arrays and attributes to an array, or a tuple of arrays.
    vjp : callable, tuple of callable, Op, or None, optional
        One function ``(g, y, *x, **attributes)`` per operand that returns its gradient (None for no
        gradient), or one function that returns the list of all gradients. Written in ops, so
        gradients of any order exist. An op of ``(g, *x)`` is the gradient of a single operand as a
        whole, which rounds half types itself.
    saves : str, tuple of str, or callable, optional
        What the vjp reads: "y" for the result, the digits of operands, "*" for all operands; one
        string per function of ``vjp``. A function of the operands' specs and the attributes where
        it depends on these. An operand that is not saved is passed to the vjp as its Spec.
    jvp : callable or None, optional
        ``(tangents, y, *x, **attributes)`` to the tangent, for ops whose vjp cannot be transposed.
    no_gradient : str or None, optional
        Why the op has no gradient, if it has none.
    decompose : callable or None, optional
        The function of tensors that defines the op in smaller ones.
    promotion : {"none", "same", "float"}, optional
        How the operands of an elementwise op are promoted: to their common dtype, or with integers
        converted to floating too. "none" is for other ops.
    partial : bool, optional
        Whether the vjp of an op with several results takes None, instead of zeros, for a result
        that no gradient reached.
    since : str, optional
        The first release with the row. A row added later has a decomposition.
    gradient_only : bool, optional
        Whether the row changes gradients only; it is decomposed before compiling.
    checks : tuple of Check, optional
        Where the conformance suite meets the op. By default its tables say it.
    batch : callable, "leading" or None, optional
        What `calor.vmap` makes of the op: a function ``(size, mapped, *x, **attributes)``, where
        ``mapped`` says which operands have the mapped axis, of ``size`` elements, as their first.
        It returns the results, each with that axis first. "leading" is for ops that take an axis
        before all others of every operand; attributes named ``axis`` and ``axes`` then count one
        more. By default elementwise ops are "leading", and composites are decomposed.
    autocast : {"", "low", "float32"}, optional
        What the functions that record the op do with floating operands inside `calor.autocast`:
        cast them to its type, or half types to float32. By default nothing.
    keeps : callable or None, optional
        ``(attributes, *specs)`` to the attributes with which a composite has further results that
        its gradient alone reads. It is recorded with these where a gradient may follow.
    """

    __slots__ = (
        "autocast",
        "batch",
        "checks",
        "decompose",
        "gradient_only",
        "jvp",
        "keeps",
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
        batch: Batch | None = None,
        autocast: Autocast = "",
        keeps: Keeps | None = None,
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
        self.batch: Final = batch
        self.autocast: Final = autocast
        self.keeps: Final = keeps
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
        """Set the gradient of a row that is defined on a higher floor, as that of control flow.

        Parameters
        ----------
        vjp : callable or None, optional
            The reverse rule.
        jvp : callable or None, optional
            The forward rule.

        Raises
        ------
        ArgumentError
            If the row has this rule already.
        """
        if (vjp and self.vjp) or (jvp and self.jvp):
            raise ArgumentError(f"op {self.name!r} has a gradient already; rules are set once")
        self.vjp = vjp or self.vjp
        self.jvp = jvp or self.jvp

    def definition(self, inputs: tuple[Spec, ...], attributes: dict[str, Any]) -> Any:
        """Return the graph that defines a composite op for operands of given specs.

        Parameters
        ----------
        inputs : tuple of Spec
            The operands.
        attributes : dict of str to Any
            The attributes.

        Returns
        -------
        Graph
            The graph, in smaller ops.

        Raises
        ------
        TypeError
            If the op is a primitive.
        """
        raise TypeError(f"op {self.name!r} is a primitive, which no smaller ops define")

    def residuals_for(
        self, needs: tuple[bool, ...], sig: Signature
    ) -> tuple[bool, tuple[bool, ...]]:
        """Return which values must be stored for the gradient.

        Parameters
        ----------
        needs : tuple of bool
            Which operands want gradients.
        sig : Signature
            The op with its attributes and operands.

        Returns
        -------
        tuple
            Whether the result is stored, and for each operand whether it is.
        """
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
        """Return the gradients of the operands.

        Parameters
        ----------
        needs : tuple of bool
            Which operands want gradients.
        g : Tensor
            The gradient of the result.
        y : Tensor or Spec
            The result.
        x : tuple of Tensor or Spec
            The operands.
        attributes : mapping of str to Any
            The attributes.

        Returns
        -------
        list of Tensor or None
            One for each operand; None where none is wanted or none exists.
        """
        vjp = self.vjp
        if vjp is None:
            raise AssertionError(f"op {self.name} has no vjp; the recorder must not link it")
        if isinstance(vjp, Op):
            return [vjp(g, *x, **attributes)]
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
    """Add a row to the op table.

    Parameters
    ----------
    row : Op
        The row.

    Returns
    -------
    Op
        The same row.

    Raises
    ------
    ArgumentError
        If the name is taken, or the row of another package has no decomposition.
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
    """Return every row by its name, also those that installed packages bring.

    Returns
    -------
    mapping of str to Op
        The table.

    Examples
    --------
    >>> from calor.ops.base import table
    >>> "add" in table(), "attention" in table()
    (True, True)
    """
    for provide in PROVIDERS:
        provide()
    return TABLE


def find(name: str) -> Op:
    """Return the row of a name.

    Parameters
    ----------
    name : str
        The op's name.

    Returns
    -------
    Op
        The row.

    Raises
    ------
    ArgumentError
        If the table has no such row.
    """
    row = TABLE.get(name) or table().get(name)
    if row is None:
        raise ArgumentError(
            f"no op {name!r} in the table; the package that adds it is not installed, or has to be "
            f"imported first"
        )
    return row


class Signature:
    """An op with its attributes and the specs of its operands. Equal ones are the same object.

    Parameters
    ----------
    row : Op
        The op.
    attributes : dict of str to Any
        The attributes.
    inputs : tuple of Spec
        The operands.
    outputs : tuple of Spec
        The results.
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
    """Return the one Signature of an op, its operands and attributes.

    Parameters
    ----------
    row : Op
        The op.
    inputs : tuple of Spec
        The operands.
    attributes : dict of str to Any
        The attributes.

    Returns
    -------
    Signature
        The signature; the op's rule runs the first time.

    Raises
    ------
    ShapeError
        If the rule rejects the shapes. The error names the op.
    DTypeError
        If the rule rejects the dtypes.
    ArgumentError
        If the rule rejects an attribute.
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
