"""The language of the rows.

Requirements: a row is data, so that tests of core, of a device and of a vendor's report read the
same line. It names an op of the table (or a function of tensors), the domain of each operand, the
attributes, an oracle that is not the op's own reference, the tolerance, and the dtypes of the op. A
value that depends on the dtype is a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import ml_dtypes
import numpy as np

from calor import dtypes
from calor.dtypes import DType, bool_, float32, float64
from calor.ops.base import Scalar, find

Array = np.ndarray[Any, Any]
EVERY: tuple[DType, ...] = dtypes.ALL


def _of_kind(*kinds: str) -> tuple[DType, ...]:
    return tuple(t for t in EVERY if t.kind in kinds)


BOOL = (bool_,)
INTEGERS = _of_kind("int", "uint")
BITS = _of_kind("bool", "int", "uint")
REAL_FLOATS = _of_kind("float")
COMPLEX = _of_kind("complex")
FLOATS = _of_kind("float", "complex")
REALS = _of_kind("int", "uint", "float")
NUMBERS = _of_kind("int", "uint", "float", "complex")
ORDERED = _of_kind("bool", "int", "uint", "float")
ARITHMETIC = _of_kind("bool", "int", "uint", "float", "complex")
STORAGE = _of_kind("storage")
WIDE_FLOATS = (float32, float64)


class Same:
    """Placeholder for the dtype of the row in an attribute: ``dtype=SAME``."""

    def __repr__(self) -> str:
        return "SAME"


SAME = Same()


def limits_of(dtype: Any) -> Any:
    """Return eps, tiny, max and smallest_subnormal of a floating dtype, including ml_dtypes'."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Number:
    """Placeholder for a number of the op table in the dtype of the row.

    Parameters
    ----------
    value : number
        The number.
    """

    value: Any

    def of(self, dtype: DType) -> Scalar:
        """Return the attribute for a dtype."""
        return Scalar.of(self.value, dtype)


@dataclass(frozen=True)
class Domain:
    """The source of an operand's elements.

    Parameters
    ----------
    name : str
        Name for reports.
    shape : tuple of int
        Shape of the operand.
    draw : callable
        Called as ``draw(generator, dtype, shape)`` with a NumPy generator; returns an array.
    dtype : DType, default None
        Dtype of the operand. None is the dtype of the row.
    """

    name: str
    shape: tuple[int, ...]
    draw: Callable[[np.random.Generator, DType, tuple[int, ...]], Array]
    dtype: DType | None = None

    def of(self, dtype: DType) -> Domain:
        """Return the domain with a dtype of its own."""
        return Domain(self.name, self.shape, self.draw, dtype)

    def resized(self, shape: tuple[int, ...]) -> Domain:
        """Return the domain with another shape."""
        return Domain(self.name, shape, self.draw, self.dtype)

    def type_for(self, main: DType) -> DType:
        """Return the dtype of the operand in a row of dtype ``main``."""
        return main if self.dtype is None else self.dtype

    def __repr__(self) -> str:
        kind = f".of({self.dtype.name})" if self.dtype is not None else ""
        return f"{self.name}{self.shape}{kind}"


@dataclass(frozen=True)
class Tolerance:
    """The accepted difference from the oracle.

    Half types are computed in float32 and rounded once, so one unit is enough for them by default.

    Parameters
    ----------
    ulps : float
        Number of units in the last place of the output's dtype at the expected number, or at
        `scale` if that is larger.
    half : float, default 1.0
        The same for float16 and bfloat16.
    scale : callable or "terms", default None
        Called as ``scale(*wide operands, **attributes)``. "terms" is the op itself on magnitudes,
        for sums of products.
    """

    ulps: float
    half: float = 1.0
    scale: Callable[..., Any] | str | None = None


exact = Tolerance(0.0, 0.0)


def ulp(n: float, *, half: float = 1.0, scale: Callable[..., Any] | str | None = None) -> Tolerance:
    """Return a tolerance of `n` units in the last place.

    Parameters
    ----------
    n : float
        Number of units.
    half : float, default 1.0
        The same for float16 and bfloat16.
    scale : callable or "terms", default None
        Larger magnitudes of which units are counted; "terms" for sums of products.

    Returns
    -------
    Tolerance
        The tolerance.
    """
    return Tolerance(n, half, scale)


# Of how many draws a row keeps the operands: those of its dtypes with one seed.
_DRAWN: Final = 16


@dataclass(frozen=True)
class Case:
    """One row; :func:`case` describes the fields."""

    operation: str | Callable[..., Any]
    inputs: tuple[Domain, ...]
    oracle: Callable[..., Any]
    tol: Tolerance
    dtypes: tuple[DType, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    no_gradient: str | None = None
    raw: bool = False
    out: Callable[[DType], Sequence[DType]] | None = None
    covers: str = ""
    since: str = ""

    @property
    def op(self) -> str:
        """The name of the op; for a function the op that it covers, or its own name with ()."""
        if isinstance(self.operation, str):
            return self.operation
        return self.covers or f"{self.operation.__name__}()"

    @cached_property
    def needed(self) -> dict[DType, tuple[DType, ...]]:
        """The dtypes of operands and attributes by that of the row, as far as they were asked."""
        return {}

    @cached_property
    def outputs(self) -> dict[DType, list[tuple[tuple[int, ...], np.dtype[Any]]]]:
        """Shapes and types of the float outputs by the row's dtype, as far as they were asked."""
        return {}

    @cached_property
    def drawn(self) -> dict[tuple[DType, int], list[Array]]:
        """The operands that were drawn last, which a check records and judges."""
        return {}

    @property
    def elementwise(self) -> bool:
        """Whether the op is elementwise, so that any shape fits."""
        if not isinstance(self.operation, str) or self.attributes:
            return False
        return find(self.operation).promotion != "none"

    def call(self, *tensors: Any, dtype: DType) -> Any:
        """Record the operation on tensors."""
        run = find(self.operation) if isinstance(self.operation, str) else self.operation
        return run(*tensors, **self.attributes_for(dtype))

    def attributes_for(self, dtype: DType) -> dict[str, Any]:
        """Return the attributes with placeholders resolved."""
        return {name: _resolved(value, dtype) for name, value in self.attributes.items()}

    def draw(self, dtype: DType, seed: int = 0) -> list[Array]:
        """Return operands, which are the same for the same row, dtype and seed."""
        found = self.drawn.get((dtype, seed))
        if found is None:
            if len(self.drawn) >= _DRAWN:
                self.drawn.clear()
            found = self.drawn[dtype, seed] = self._draw(dtype, seed)
        # What is handed out may be written.
        return [array.copy(order="K") for array in found]

    def _draw(self, dtype: DType, seed: int) -> list[Array]:
        rng = np.random.default_rng([seed, *self.label.encode(), dtype.index])
        made = []
        for domain in self.inputs:
            kind = domain.type_for(dtype)
            array = np.asarray(domain.draw(rng, kind, domain.shape))
            assert array.shape == domain.shape, f"{domain} drew {array.shape}"
            assert array.dtype == kind.numpy, f"{domain} drew {array.dtype}"
            made.append(array)
        return made

    @property
    def label(self) -> str:
        """A readable name for reports, unique among the rows."""
        return f"{self.op}-{self.name}" if self.name else self.op

    def resized(self, shape: tuple[int, ...]) -> Case:
        """Return the row with another shape of all operands."""
        domains = tuple(d.resized(shape) for d in self.inputs)
        return Case(
            self.operation, domains, self.oracle, self.tol, self.dtypes, self.attributes,
            self.name, self.no_gradient, self.raw, self.out, self.covers, self.since,
        )  # fmt: skip


def _resolved(value: Any, dtype: DType) -> Any:
    if isinstance(value, Same):
        return dtype
    if isinstance(value, Number):
        return value.of(dtype)
    return value


def case(
    operation: str | Callable[..., Any],
    *inputs: Domain,
    oracle: Callable[..., Any],
    dtypes: Sequence[DType],
    tol: Tolerance = exact,
    name: str = "",
    no_gradient: str | None = None,
    raw: bool = False,
    out: Callable[[DType], Sequence[DType]] | None = None,
    covers: str = "",
    since: str = "",
    **attributes: Any,
) -> Case:
    """Return a row.

    Parameters
    ----------
    operation : str or callable
        Name of an op of the table, or a function of tensors.
    *inputs : Domain
        Domains of the operands.
    oracle : callable
        Computes the result or a tuple of results, of any wider type, from widened operands and the
        attributes. Integers are widened to Python numbers, float16 to float32 to float64, float64
        to the machine's long double.
    dtypes : sequence of DType
        Dtypes of the row.
    tol : Tolerance, default exact
        Accepted difference.
    name : str, default ""
        Distinguishes rows of one op.
    no_gradient : str, default None
        Reason why the row is not differentiated at these operands.
    raw : bool, default False
        The oracle takes and returns the dtype itself.
    out : callable, default None
        Dtypes of the outputs for the row's dtype, if the oracle's kind of number does not tell
        them.
    covers : str, default ""
        The op that a function stands for, if the op cannot be called directly.
    since : str, default ""
        The release that added the row, which counts from the next minor release on.
    **attributes : object
        Attributes of the op.

    Returns
    -------
    Case
        The row.
    """
    return Case(
        operation, inputs, oracle, tol, tuple(dtypes), attributes, name, no_gradient, raw, out,
        covers, since,
    )  # fmt: skip


def accepted(cases: Sequence[Case]) -> dict[str, tuple[DType, ...]]:
    """Return for each op all dtypes of its rows."""
    found: dict[str, set[DType]] = {}
    for c in cases:
        found.setdefault(c.op, set()).update(c.dtypes)
    return {op: tuple(t for t in EVERY if t in kinds) for op, kinds in found.items()}


def pairs(cases: Sequence[Case]) -> Iterator[tuple[Case, DType]]:
    """Yield every row with each of its dtypes."""
    for c in cases:
        for dtype in c.dtypes:
            yield c, dtype


def covering(cases: Sequence[Case], full: bool) -> Iterator[tuple[Case, DType]]:
    """Yield all pairs, or a sample with each row, and with each op in each of its dtypes.

    Rows of one op take turns: the first has every dtype, the others the first of each kind.
    """
    seen: set[tuple[str, DType]] = set()
    for c in cases:
        kinds: set[str] = set()
        for dtype in sorted(c.dtypes, key=lambda t: dtypes.ALL.index(t)):
            new = (c.op, dtype) not in seen or dtype.kind not in kinds
            if full or new:
                kinds.add(dtype.kind)
                seen.add((c.op, dtype))
                yield c, dtype
