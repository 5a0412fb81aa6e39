"""The language of the rows.

Requirements: a row is data, so that the tests of the core, of a device and of a vendor's report
read the same line. It names an op of the table (or a function of tensors), the domain of each
operand, the attributes, an oracle that is not the op's own reference, the tolerance, and the dtypes
that the op takes. What differs by dtype is written as a placeholder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    """Stands for the dtype of the row in an attribute: ``dtype=SAME``."""

    def __repr__(self) -> str:
        return "SAME"


SAME = Same()


def limits_of(dtype: Any) -> Any:
    """Return eps, tiny, max and smallest_subnormal of a floating dtype, those of ml_dtypes too."""
    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Number:
    """Stands for a number as the op table writes it, in the dtype of the row."""

    value: Any

    def of(self, dtype: DType) -> Scalar:
        """Return the attribute."""
        return Scalar.of(self.value, dtype)


@dataclass(frozen=True)
class Domain:
    """Where the elements of an operand come from.

    ``draw`` takes a NumPy generator, a dtype and the shape and returns an array. ``dtype`` is None
    for the dtype of the row. ``part`` is for operands whose dtype follows from the row's.
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
        """Return the dtype of the operand when the row has dtype ``main``."""
        return main if self.dtype is None else self.dtype

    def __repr__(self) -> str:
        kind = f".of({self.dtype.name})" if self.dtype is not None else ""
        return f"{self.name}{self.shape}{kind}"


@dataclass(frozen=True)
class Tolerance:
    """How far a result may be from the oracle's.

    ``ulps`` counts units in the last place of the output's dtype at the expected number, or at
    ``scale(*wide operands, **attributes)`` where that is larger: for sums of products the same op
    on magnitudes. Half types are computed in float32 and rounded once, so one unit is enough for
    them unless ``half`` says otherwise.
    """

    ulps: float
    half: float = 1.0
    scale: Callable[..., Any] | str | None = None


exact = Tolerance(0.0, 0.0)


def ulp(n: float, *, half: float = 1.0, scale: Callable[..., Any] | str | None = None) -> Tolerance:
    """Return a tolerance of n units in the last place; ``scale="terms"`` for sums of products."""
    return Tolerance(n, half, scale)


@dataclass(frozen=True)
class Case:
    """One row."""

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

    @property
    def elementwise(self) -> bool:
        """Whether the op works element by element, so that any shape will do."""
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
        """Return operands; the same ones for the same row, dtype and seed."""
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
        """Return the row with all operands of another shape."""
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

    ``oracle`` takes the operands widened (integers as Python numbers, float16 to float32 as
    float64, float64 as the machine's long double) and the attributes, and returns the result or a
    tuple of results in any wider type; with ``raw`` it takes and returns the dtype itself.
    ``no_gradient`` says why the row is not differentiated at these operands. ``out`` gives the
    outputs' dtypes for the row's where the oracle's kind of number does not say them. ``covers``
    names the op that a function stands for, where the op cannot be called by itself. ``since`` is
    the release that brought the row; it only counts from the next minor release on.
    """
    return Case(
        operation, inputs, oracle, tol, tuple(dtypes), attributes, name, no_gradient, raw, out,
        covers, since,
    )  # fmt: skip


def accepted(cases: Sequence[Case]) -> dict[str, tuple[DType, ...]]:
    """Return, per op, every dtype that some row of it takes."""
    found: dict[str, set[DType]] = {}
    for c in cases:
        found.setdefault(c.op, set()).update(c.dtypes)
    return {op: tuple(t for t in EVERY if t in kinds) for op, kinds in found.items()}


def pairs(cases: Sequence[Case]) -> Iterator[tuple[Case, DType]]:
    """Yield every row with every dtype that it takes."""
    for c in cases:
        for dtype in c.dtypes:
            yield c, dtype


def covering(cases: Sequence[Case], full: bool) -> Iterator[tuple[Case, DType]]:
    """Yield all pairs, or a sample in which each row is met, and each op with each of its dtypes.

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
