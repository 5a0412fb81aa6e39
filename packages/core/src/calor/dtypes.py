"""Element types and the promotion lattice.

Requirements: identity comparison must be enough on hot paths (one object per type); promotion is
the Python Array API standard's table (2024.12), PyTorch's where the standard leaves it open
(integer with floating gives the floating type), and an error where neither defines a result.
float8 types are storage: they can be moved, cast and stored, and arithmetic on them is an error
that says to cast.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from calor.errors import DTypeError
from calor.local import local

Kind = Literal["bool", "int", "uint", "float", "complex", "storage"]


class DType:
    """An element type of a tensor. There is one object for each; compare with ``is`` or ``==``.

    Parameters
    ----------
    name : str
        The name, such as "float32".
    kind : {"bool", "int", "uint", "float", "complex", "storage"}
        The category; "storage" types (float8) have no arithmetic.
    host : dtype-like
        The NumPy type of the same elements.
    index : int
        The position in the table of all types.

    Attributes
    ----------
    itemsize : int
        The size of an element in bytes.
    numpy : numpy.dtype
        The NumPy type of the same elements.

    Examples
    --------
    >>> import calor
    >>> calor.float32.itemsize, calor.float32.kind
    (4, 'float')
    """

    __slots__ = ("index", "itemsize", "kind", "name", "numpy")

    def __init__(self, name: str, kind: Kind, host: Any, index: int) -> None:
        self.name: Final = name
        self.kind: Final[Kind] = kind
        self.numpy: Final[np.dtype[Any]] = np.dtype(host)
        self.itemsize: Final = self.numpy.itemsize
        self.index: Final = index

    def __repr__(self) -> str:
        return f"calor.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """What NumPy 2.4 and newer take this type for, as in ``np.zeros(3, dtype=x.dtype)``."""
        return self.numpy

    @property
    def dtype(self) -> np.dtype[Any]:
        """What older versions of NumPy take this type for."""
        return self.numpy

    @property
    def byteorder(self) -> str:
        """The order of bytes as NumPy says it: "=" for the machine's, "|" for single bytes."""
        return self.numpy.byteorder

    @property
    def is_floating(self) -> bool:
        """True for real floating types, float8 storage included."""
        return self.kind == "float" or self.kind == "storage"

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """True for the types that gradients flow through: floating and complex."""
        return self.kind == "float" or self.kind == "complex"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers; bool is not one."""
        return self.kind == "int" or self.kind == "uint"


_TABLE: list[tuple[str, Kind, Any]] = [
    ("bool", "bool", np.bool_),
    ("int8", "int", np.int8),
    ("int16", "int", np.int16),
    ("int32", "int", np.int32),
    ("int64", "int", np.int64),
    ("uint8", "uint", np.uint8),
    ("uint16", "uint", np.uint16),
    ("uint32", "uint", np.uint32),
    ("uint64", "uint", np.uint64),
    ("float16", "float", np.float16),
    ("bfloat16", "float", ml_dtypes.bfloat16),
    ("float32", "float", np.float32),
    ("float64", "float", np.float64),
    ("complex64", "complex", np.complex64),
    ("complex128", "complex", np.complex128),
    ("float8_e4m3fn", "storage", ml_dtypes.float8_e4m3fn),
    ("float8_e5m2", "storage", ml_dtypes.float8_e5m2),
]

ALL: Final[tuple[DType, ...]] = tuple(
    DType(name, kind, host, index) for index, (name, kind, host) in enumerate(_TABLE)
)
(
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e5m2,
) = ALL

_NAMES: Final[dict[str, DType]] = {t.name: t for t in ALL} | {"bool_": bool_}
_HOST: Final[dict[np.dtype[Any], DType]] = {t.numpy: t for t in ALL}
_PYTHON: Final[dict[type, DType]] = {
    bool: bool_,
    int: int64,
}

DEFAULT_INT: Final = int64


def _by_name(name: str) -> DType:
    return _NAMES[name]


def default_float() -> DType:
    """Return the dtype of real numbers that no operand decides; see `calor.default_dtype`.

    Returns
    -------
    DType
        Dtype float32, unless the program, a context or ``CALOR_DEFAULT_DTYPE`` says otherwise.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.default_float()
    calor.float32
    """
    return _NAMES[local.floating]


def default_complex() -> DType:
    """Return the dtype of complex numbers that no operand decides: of parts as `default_float`.

    Returns
    -------
    DType
        Dtype complex128 where the default is float64, else complex64.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.default_complex()
    calor.complex64
    """
    return _COMPLEX_OF[default_float()]


def default_of(dtype: DType) -> DType:
    """Return the dtype of a tensor made of a Python number that a trace holds in a dtype.

    Parameters
    ----------
    dtype : DType
        One that carries the number exactly: bool, int64, float64 or complex128.

    Returns
    -------
    DType
        The default dtype of the kind.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.default_of(calor.float64), calor.dtypes.default_of(calor.int64)
    (calor.float32, calor.int64)
    """
    if dtype.kind == "float":
        return default_float()
    return default_complex() if dtype.is_complex else dtype


def names_dtype(value: Any) -> bool:
    """Return whether a value says a dtype, and no device: a dtype, a type, or a dtype's name.

    Parameters
    ----------
    value : Any
        What the user gave.

    Returns
    -------
    bool
        Whether :func:`as_dtype` is meant to take it.

    Examples
    --------
    >>> from calor.dtypes import names_dtype
    >>> names_dtype("float16"), names_dtype("cpu")
    (True, False)
    """
    return isinstance(value, DType | np.dtype | type) or (
        isinstance(value, str) and value in _NAMES
    )


def as_dtype(value: Any) -> DType:
    """Return the DType of a name, a NumPy dtype or a Python number type.

    Parameters
    ----------
    value : DType, str, NumPy dtype or type
        Such as "bfloat16", ``numpy.float32`` or ``float`` (the default dtype).

    Returns
    -------
    DType
        The dtype.

    Raises
    ------
    DTypeError
        If there is none.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.as_dtype("bfloat16")
    calor.bfloat16
    """
    if type(value) is DType:
        return value
    found: DType | None = None
    if isinstance(value, np.dtype):
        found = _HOST.get(value)
    elif isinstance(value, str):
        found = _NAMES.get(value)
    elif value is float:
        found = default_float()
    elif value is complex:
        found = default_complex()
    elif isinstance(value, type) and value in _PYTHON:
        found = _PYTHON[value]
    if found is None:
        try:
            found = _HOST.get(np.dtype(value).newbyteorder("="))
        except (TypeError, ValueError, AttributeError):
            found = None
    if found is None:
        known = ", ".join(t.name for t in ALL)
        told = repr(value) if isinstance(value, str | int | float | type | np.dtype) else None
        told = told or f"a {type(value).__name__}"
        raise DTypeError(f"{told} is not a dtype that calor knows; it has {known}")
    return found


_WIDTH = {t: t.itemsize for t in ALL}
_SIGNED = {1: int8, 2: int16, 4: int32, 8: int64}


def _promote(a: DType, b: DType) -> DType | None:
    if a is b:
        return a
    if a.kind == "storage" or b.kind == "storage":
        return None
    if a.kind == "bool":
        return b
    if b.kind == "bool":
        return a
    if a.kind == b.kind:
        if {a, b} == {float16, bfloat16}:
            return float32
        return a if a.itemsize > b.itemsize else b
    kinds = {a.kind, b.kind}
    if kinds == {"int", "uint"}:
        signed, unsigned = (a, b) if a.kind == "int" else (b, a)
        if signed.itemsize > unsigned.itemsize:
            return signed
        return _SIGNED.get(unsigned.itemsize * 2)
    if "complex" in kinds:
        number, other = (a, b) if a.kind == "complex" else (b, a)
        return complex128 if other is float64 else number
    return a if a.kind == "float" else b


_PROMOTED: Final[dict[tuple[DType, DType], DType | None]] = {
    (a, b): _promote(a, b) for a in ALL for b in ALL
}


def promote(a: DType, b: DType) -> DType:
    """Return the common dtype of two dtypes.

    Parameters
    ----------
    a : DType
        The one dtype.
    b : DType
        The other dtype.

    Returns
    -------
    DType
        The dtype of an operation on both.

    Raises
    ------
    DTypeError
        If there is none: uint64 with a signed integer, float8 with anything else.

    References
    ----------
    Python array API standard 2024.12, "Type promotion rules"; integers with floating types as in
    PyTorch.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.promote(calor.int32, calor.float16)
    calor.float16
    """
    result = _PROMOTED[a, b]
    if result is None:
        raise DTypeError(
            f"{a.name} and {b.name} have no common type; cast one of them first, "
            f"for example x.astype(calor.float32)"
        )
    return result


_RANK = {"bool": 0, "uint": 1, "int": 1, "float": 2, "storage": 2, "complex": 3}
_COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}
_REAL_OF = {complex64: float32, complex128: float64}


def promote_weak(strong: DType, weak: DType) -> DType:
    """Return the dtype of an operation between a tensor and a Python number.

    The number takes the tensor's dtype if its kind is the same or a lower one (bool, integer, real,
    complex). Otherwise it brings the default dtype of its own kind, as in PyTorch.

    Parameters
    ----------
    strong : DType
        The dtype of the tensor.
    weak : DType
        The default dtype of the number.

    Returns
    -------
    DType
        The dtype of the operation.

    Raises
    ------
    DTypeError
        If ``strong`` is float8, which has no arithmetic.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.promote_weak(calor.float16, calor.int64)
    calor.float16
    >>> calor.dtypes.promote_weak(calor.int8, calor.float32)
    calor.float32
    """
    if strong.kind == "storage":
        return promote(strong, weak)
    if _RANK[weak.kind] <= _RANK[strong.kind]:
        return strong
    if weak.kind == "complex":
        return _COMPLEX_OF.get(strong) or default_complex()
    return default_float() if weak.kind == "float" else DEFAULT_INT


def real_of(dtype: DType) -> DType:
    """Return the dtype of the real part.

    Parameters
    ----------
    dtype : DType
        Any dtype.

    Returns
    -------
    DType
        Of complex64 float32, of complex128 float64; other dtypes as they are.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.real_of(calor.complex128)
    calor.float64
    """
    return _REAL_OF.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts have a floating dtype.

    Parameters
    ----------
    dtype : DType
        A floating or complex dtype.

    Returns
    -------
    DType
        For float32 and half types complex64, for float64 complex128.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.complex_of(calor.float16)
    calor.complex64
    """
    return dtype if dtype.kind == "complex" else _COMPLEX_OF[dtype]


def float_of(dtype: DType) -> DType:
    """Return the dtype itself if it is floating or complex, else the default floating dtype.

    Parameters
    ----------
    dtype : DType
        Any dtype except float8.

    Returns
    -------
    DType
        A floating or complex dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is float8.

    Examples
    --------
    >>> import calor
    >>> calor.dtypes.float_of(calor.int8)
    calor.float32
    """
    if dtype.kind == "storage":
        raise DTypeError(f"{dtype.name} is a storage type; cast first: x.astype(calor.float32)")
    return dtype if dtype.is_inexact else default_float()
