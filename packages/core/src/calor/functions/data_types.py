"""Questions about dtypes: kinds, limits, promotion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from calor import dtypes
from calor.dtypes import DType, as_dtype, real_of
from calor.errors import ArgumentError, DTypeError
from calor.functions.arguments import python_number
from calor.recording.record import weak_spec
from calor.tensor.values import Handle

KINDS: dict[str, frozenset[str]] = {
    "bool": frozenset({"bool"}),
    "signed integer": frozenset({"int"}),
    "unsigned integer": frozenset({"uint"}),
    "integral": frozenset({"int", "uint"}),
    "real floating": frozenset({"float", "storage"}),
    "complex floating": frozenset({"complex"}),
    "numeric": frozenset({"int", "uint", "float", "storage", "complex"}),
}


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Tell whether a dtype is of a kind.

    Parameters
    ----------
    dtype : DType or str
        The dtype to judge.
    kind : DType, str or tuple of these
        A dtype, or "bool", "signed integer", "unsigned integer", "integral", "real floating",
        "complex floating" or "numeric". A tuple holds if one of its members does.

    Returns
    -------
    bool
        Whether ``dtype`` is of the kind. float8 types are "real floating".

    Raises
    ------
    ArgumentError
        If the name is none of these kinds.
    DTypeError
        If ``dtype`` is unknown.

    References
    ----------
    Python array API standard 2024.12, ``isdtype``.

    Examples
    --------
    >>> import calor
    >>> calor.isdtype(calor.int8, "integral"), calor.isdtype(calor.int8, ("bool", calor.float32))
    (True, False)
    """
    known = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(known, k) for k in kind)
    if not isinstance(kind, str):
        return known is as_dtype(kind)
    if kind not in KINDS:
        raise ArgumentError(f"isdtype: kind {kind!r} is none of {', '.join(KINDS)}")
    return known.kind in KINDS[kind]


def can_cast(from_: Any, to: DType, /) -> bool:
    """Tell whether type promotion converts a dtype to another.

    Parameters
    ----------
    from_ : Tensor, ndarray, DType or str
        A dtype, or a tensor whose dtype is taken.
    to : DType or str
        The dtype to convert to.

    Returns
    -------
    bool
        True if the common dtype of both is ``to``. False from an integer to a floating dtype.

    Raises
    ------
    DTypeError
        If a dtype is unknown.

    References
    ----------
    Python array API standard 2024.12, ``can_cast``.

    Examples
    --------
    >>> import calor
    >>> calor.can_cast(calor.int8, calor.int32), calor.can_cast(calor.int32, calor.int8)
    (True, False)
    """
    known, wanted = _dtype_of(from_), as_dtype(to)
    if known.is_integer and wanted.is_inexact:
        return False
    try:
        return dtypes.promote(known, wanted) is wanted
    except DTypeError:
        return False


def _dtype_of(x: Any) -> DType:
    if isinstance(x, Handle):
        return x._value.spec.dtype
    return as_dtype(x.dtype if isinstance(x, np.ndarray) else x)


def result_type(*arrays_and_dtypes: Any) -> DType:  # numpydoc ignore=RS01
    """Return the common dtype of tensors, dtypes and numbers.

    Parameters
    ----------
    *arrays_and_dtypes : Tensor, ndarray, DType or number
        At least one. Python numbers are weak: they change the kind of the result, never its width.
        Of numbers alone it is the default dtype of their kind.

    Returns
    -------
    DType
        The dtype that an operation on all of them has.

    Raises
    ------
    DTypeError
        If there is no common dtype, or nothing is given.

    References
    ----------
    Python array API standard 2024.12, ``result_type``.

    Examples
    --------
    >>> import calor
    >>> calor.result_type(calor.int8, calor.int16), calor.result_type(calor.float16, 2.5)
    (calor.int16, calor.float16)
    """
    given = [python_number(x) for x in arrays_and_dtypes]
    numbers = [x for x in given if isinstance(x, bool | int | float | complex)]
    strong = [_dtype_of(x) for x in given if not isinstance(x, bool | int | float | complex)]
    if not given:
        raise DTypeError("result_type: give at least one tensor, dtype or number")
    if not strong:
        strong = [as_dtype(type(number)) for number in numbers]
    result = strong[0]
    for t in strong[1:]:
        result = dtypes.promote(result, t)
    for number in numbers:
        result = dtypes.promote_weak(result, weak_spec(number).dtype)
    return result


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """Limits of a floating dtype; of a complex one, of its parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerLimits:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Return the limits of a floating or complex dtype.

    Parameters
    ----------
    type : Tensor, DType or str
        The dtype, or a tensor whose dtype is taken.

    Returns
    -------
    FloatLimits
        ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal`` and ``dtype``; of a complex dtype,
        those of its parts.

    Raises
    ------
    DTypeError
        If the dtype is an integer dtype or bool.

    References
    ----------
    Python array API standard 2024.12, ``finfo``.

    Examples
    --------
    >>> import calor
    >>> calor.finfo(calor.bfloat16).eps
    0.0078125
    """
    known = real_of(_dtype_of(type))
    if not known.is_floating:
        raise DTypeError(f"finfo: {known.name} is not floating; see calor.iinfo")
    limits: Any = ml_dtypes.finfo(known.numpy)  # type: ignore[no-untyped-call]
    return FloatLimits(
        limits.bits,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        float(limits.smallest_normal),
        known,
    )


def iinfo(type: Any, /) -> IntegerLimits:
    """Return the limits of an integer dtype.

    Parameters
    ----------
    type : Tensor, DType or str
        The dtype, or a tensor whose dtype is taken.

    Returns
    -------
    IntegerLimits
        ``bits``, ``max``, ``min`` and ``dtype``.

    Raises
    ------
    DTypeError
        If the dtype is not an integer dtype.

    References
    ----------
    Python array API standard 2024.12, ``iinfo``.

    Examples
    --------
    >>> import calor
    >>> calor.iinfo(calor.int8).max
    127
    """
    known = _dtype_of(type)
    if not known.is_integer:
        raise DTypeError(f"iinfo: {known.name} is not an integer type; see calor.finfo")
    limits = np.iinfo(known.numpy)
    return IntegerLimits(limits.bits, int(limits.max), int(limits.min), known)
