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
    """Accept integer, floating and complex operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are bool or float8.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind in ("bool", "storage"):
        raise _refuse(specs[0], "numeric")
    return specs[0]


def floats(*specs: Spec) -> Spec:
    """Accept floating and complex operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are of another dtype.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if not specs[0].dtype.is_inexact:
        raise _refuse(specs[0], "floating or complex")
    return specs[0]


def real_floats(*specs: Spec) -> Spec:
    """Accept real floating operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are of another dtype.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind != "float":
        raise _refuse(specs[0], "real floating")
    return specs[0]


def reals(*specs: Spec) -> Spec:
    """Accept integer and real floating operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are of another dtype.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind not in ("int", "uint", "float"):
        raise _refuse(specs[0], "real")
    return specs[0]


def ordered(*specs: Spec) -> Spec:
    """Accept bool, integer and real floating operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are complex or float8.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind in ("complex", "storage"):
        raise _refuse(specs[0], "real")
    return specs[0]


def bits(*specs: Spec) -> Spec:
    """Accept bool and integer operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are of another dtype.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind not in ("bool", "int", "uint"):
        raise _refuse(specs[0], "integer or bool")
    return specs[0]


def integers(*specs: Spec) -> Spec:
    """Accept integer operands of one spec.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are of another dtype.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if not specs[0].dtype.is_integer:
        raise _refuse(specs[0], "integer")
    return specs[0]


def anything(*specs: Spec) -> Spec:
    """Accept operands of one spec, of any dtype but float8.

    Parameters
    ----------
    *specs : Spec
        The operands.

    Returns
    -------
    Spec
        The same.

    Raises
    ------
    DTypeError
        If they are float8.
    ShapeError
        If they differ.
    """
    _same_shape(specs)
    if specs[0].dtype.kind == "storage":
        raise _refuse(specs[0], "arithmetic")
    return specs[0]


def magnitude(x: Spec) -> Spec:
    """Return the spec of absolute values: numbers in, their real dtype out.

    Parameters
    ----------
    x : Spec
        The operand.

    Returns
    -------
    Spec
        The shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is bool or float8.
    """
    numbers(x)
    return spec(x.shape, real_of(x.dtype))


def part(x: Spec) -> Spec:
    """Return the spec of a real or imaginary part: complex in, its real dtype out.

    Parameters
    ----------
    x : Spec
        The operand.

    Returns
    -------
    Spec
        The shape of ``x``.

    Raises
    ------
    DTypeError
        If ``x`` is not complex.
    """
    if not x.dtype.is_complex:
        raise _refuse(x, "complex")
    return spec(x.shape, real_of(x.dtype))


def test(*specs: Spec) -> Spec:
    """Return the spec of a test of each element: any dtype but float8 in, bool out.

    Parameters
    ----------
    *specs : Spec
        The operands, of one spec.

    Returns
    -------
    Spec
        Their shape and bool.

    Raises
    ------
    DTypeError
        If they are float8.
    ShapeError
        If they differ.
    """
    anything(*specs)
    return spec(specs[0].shape, bool_)


def compare(*specs: Spec) -> Spec:
    """Return the spec of a comparison: bool, integer or real floating in, bool out.

    Parameters
    ----------
    *specs : Spec
        The operands, of one spec.

    Returns
    -------
    Spec
        Their shape and bool.

    Raises
    ------
    DTypeError
        If they are complex or float8.
    ShapeError
        If they differ.
    """
    ordered(*specs)
    return spec(specs[0].shape, bool_)


def select(condition: Spec, x: Spec, y: Spec) -> Spec:
    """Return the spec of a choice between two operands.

    Parameters
    ----------
    condition : Spec
        A bool of the same shape.
    x : Spec
        The one operand.
    y : Spec
        The other operand, of the same spec.

    Returns
    -------
    Spec
        The spec of ``x``.

    Raises
    ------
    DTypeError
        If the condition is not bool.
    ShapeError
        If the operands differ, or the condition has another shape.
    """
    if condition.dtype is not bool_:
        raise _refuse(condition, "a bool condition and")
    _same_shape((x, y))
    if condition.shape != x.shape:
        raise ShapeError(f"condition {condition} and operands {x} differ in shape")
    return x


def check_axes(x: Spec, axes: tuple[int, ...]) -> None:
    """Check that axes are distinct and exist. Negative ones do not.

    Parameters
    ----------
    x : Spec
        The operand.
    axes : tuple of int
        The axes.

    Raises
    ------
    ShapeError
        If an axis is named twice or does not exist.
    """
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        raise ShapeError(f"axes {axes} do not fit {x}; axes are distinct and below {x.ndim}")


def without_axes(x: Spec, axes: tuple[int, ...], dtype: DType) -> Spec:
    """Return the spec of a reduction over axes.

    Parameters
    ----------
    x : Spec
        The operand.
    axes : tuple of int
        The axes, distinct and not negative.
    dtype : DType
        The dtype of the result.

    Returns
    -------
    Spec
        The shape of ``x`` without the axes.

    Raises
    ------
    ShapeError
        If an axis is named twice or does not exist.
    """
    check_axes(x, axes)
    return spec(tuple(n for i, n in enumerate(x.shape) if i not in axes), dtype)


def index_type(x: Spec) -> None:
    """Check that an operand holds integers.

    Parameters
    ----------
    x : Spec
        The operand.

    Raises
    ------
    DTypeError
        If it does not.
    """
    if not x.dtype.is_integer:
        raise _refuse(x, "integer index")


def same_rank(x: Spec, other: tuple[int, ...], what: str) -> None:
    """Check that an attribute has one entry for each axis.

    Parameters
    ----------
    x : Spec
        The operand.
    other : tuple of int
        The attribute.
    what : str
        Its name, for the error.

    Raises
    ------
    ShapeError
        If the number of entries differs from that of axes.
    """
    if len(other) != x.ndim:
        raise ShapeError(
            f"{what} {other} has {len(other)} entries for {x}, which has {x.ndim} axes"
        )
