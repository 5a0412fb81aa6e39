"""Rules shared by the rows: specs in, spec out, and the one place that rejects input."""

from __future__ import annotations

from calor.dtypes import DType, bool_, real_of
from calor.errors import DTypeError, ShapeError
from calor.specs import Spec, spec


def _same_shape(specs: tuple[Spec, ...]) -> None:
    first = specs[0]
    for s in specs[1:]:
        if s.shape != first.shape or s.dtype is not first.dtype:
            raise ShapeError(f"operands {first} and {s} differ; primitives do not broadcast")


def _refuse(x: Spec, wanted: str) -> DTypeError:
    if x.dtype.kind == "storage":
        return DTypeError(
            f"{x.dtype.name} is a storage type without arithmetic; cast it first: "
            f"x.astype(calor.float32)"
        )
    return DTypeError(f"needs {wanted} operands, not {x}; cast with x.astype(...)")


def numbers(*specs: Spec) -> Spec:
    """Integers, floating or complex in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind in ("bool", "storage"):
        raise _refuse(specs[0], "numeric")
    return specs[0]


def floats(*specs: Spec) -> Spec:
    """Floating or complex in, the same out."""
    _same_shape(specs)
    if not specs[0].dtype.is_inexact:
        raise _refuse(specs[0], "floating or complex")
    return specs[0]


def real_floats(*specs: Spec) -> Spec:
    """Real floating in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind != "float":
        raise _refuse(specs[0], "real floating")
    return specs[0]


def reals(*specs: Spec) -> Spec:
    """Integers or real floating in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind not in ("int", "uint", "float"):
        raise _refuse(specs[0], "real")
    return specs[0]


def ordered(*specs: Spec) -> Spec:
    """Bool, integers or real floating in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind in ("complex", "storage"):
        raise _refuse(specs[0], "real")
    return specs[0]


def bits(*specs: Spec) -> Spec:
    """Bool or integers in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind not in ("bool", "int", "uint"):
        raise _refuse(specs[0], "integer or bool")
    return specs[0]


def integers(*specs: Spec) -> Spec:
    """Integers in, the same out."""
    _same_shape(specs)
    if not specs[0].dtype.is_integer:
        raise _refuse(specs[0], "integer")
    return specs[0]


def anything(*specs: Spec) -> Spec:
    """Any dtype but storage in, the same out."""
    _same_shape(specs)
    if specs[0].dtype.kind == "storage":
        raise _refuse(specs[0], "arithmetic")
    return specs[0]


def magnitude(x: Spec) -> Spec:
    """Numbers in, their real type out."""
    numbers(x)
    return spec(x.shape, real_of(x.dtype))


def part(x: Spec) -> Spec:
    """Complex in, its real type out."""
    if not x.dtype.is_complex:
        raise _refuse(x, "complex")
    return spec(x.shape, real_of(x.dtype))


def test(*specs: Spec) -> Spec:
    """Any dtype but storage in, bool out."""
    anything(*specs)
    return spec(specs[0].shape, bool_)


def compare(*specs: Spec) -> Spec:
    """Two operands of an ordered dtype in, bool out."""
    ordered(*specs)
    return spec(specs[0].shape, bool_)


def select(condition: Spec, x: Spec, y: Spec) -> Spec:
    """A bool condition and two operands of one spec."""
    if condition.dtype is not bool_:
        raise _refuse(condition, "a bool condition and")
    _same_shape((x, y))
    if condition.shape != x.shape:
        raise ShapeError(f"condition {condition} and operands {x} differ in shape")
    return x


def check_axes(x: Spec, axes: tuple[int, ...]) -> None:
    """Raise ShapeError unless the axes are distinct and within the rank (not negative here)."""
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"axes {axes} do not fit {x}; axes are distinct and below {x.ndim}")


def without_axes(x: Spec, axes: tuple[int, ...], dtype: DType) -> Spec:
    """Return the spec of a reduction over the axes."""
    check_axes(x, axes)
    return spec(tuple(n for i, n in enumerate(x.shape) if i not in axes), dtype)


def index_type(x: Spec) -> None:
    """Raise DTypeError unless x holds integers."""
    if not x.dtype.is_integer:
        raise _refuse(x, "integer index")


def same_rank(x: Spec, other: tuple[int, ...], what: str) -> None:
    """Raise ShapeError unless a per-axis attribute has one entry for each axis."""
    if len(other) != x.ndim:
        raise ShapeError(
            f"{what} {other} has {len(other)} entries for {x}, which has {x.ndim} axes"
        )
