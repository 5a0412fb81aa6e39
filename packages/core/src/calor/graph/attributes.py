"""Attributes of ops: numbers and host arrays as attributes, and when two are the same.

Two attributes are the same by type and bits, not by ``==``.

Requirements: 0.0 and −0.0 make different results, and so may 1, 1.0 and True; to a dictionary each
of these is one key. A NaN equals itself here, so that a cache finds it again. Recording an op looks
in a memo by ``==``, which is quick, and asks the tests made here whether what it found was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from calor.dtypes import as_dtype
from calor.sizes import Size

Test = Callable[[Any], bool]

# Numbers of different types may be equal; nothing else that is an attribute equals another type.
_NUMBERS: Final = (bool, int, float, complex, np.generic)
# Types whose instances may be equal by ``==`` while their parts differ, or may change.
_EXACT: Final = (np.generic, np.ndarray, list, tuple, dict, set, frozenset, slice, range)
# Types of which equal instances of one type are the same.
PLAIN: Final = (str, bytes, bool, int, type(None), type)


def exact(value: Any) -> Any:
    """Return a value that is equal for attributes of equal type and bits.

    Parameters
    ----------
    value : Any
        An attribute: a number, a container of these, a host array, or anything comparable.

    Returns
    -------
    Any
        What the value is now: later changes of a container are not seen. It is hashable if the
        parts are. NaN equals NaN; 0.0 and −0.0 differ, and so do 1, 1.0 and True.

    Examples
    --------
    >>> exact(0.0) == exact(-0.0), exact((1, 2)) == exact((True, 2))
    (False, False)
    >>> exact(float("nan")) == exact(float("nan"))
    True
    """
    kind = type(value)
    if kind is tuple:
        return tuple([exact(item) for item in value])
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if isinstance(value, _EXACT):
        return _exact_parts(kind, value)
    if _is_record(kind):
        compared = [f.name for f in kind.__dataclass_fields__.values() if f.compare]
        return kind, tuple([exact(getattr(value, name, None)) for name in compared])
    return kind, value


def _is_record(kind: type) -> bool:
    """Return whether instances of a dataclass are compared, by those fields that it compares."""
    made = getattr(kind, "__dataclass_params__", None)
    return made is not None and bool(made.eq)


def _exact_parts(kind: type, value: Any) -> Any:
    """Return `exact` of an instance of ``_EXACT``."""
    if isinstance(value, np.generic | np.ndarray):
        return kind, value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return kind, tuple([(exact(key), exact(item)) for key, item in value.items()])
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(exact, value))
    if isinstance(value, slice | range):
        return kind, exact((value.start, value.stop, value.step))
    return kind, tuple(map(exact, value))


def exact_items(attributes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return attributes as one hashable value in which each is compared by `exact`.

    Parameters
    ----------
    attributes : mapping of str to Any
        The attributes, in any order.

    Returns
    -------
    tuple
        The value.

    Examples
    --------
    >>> exact_items({"axis": 1, "eps": 0.0}) == exact_items({"eps": 0.0, "axis": 1})
    True
    """
    if not attributes:
        return ()
    return tuple([(name, exact(attributes[name])) for name in sorted(attributes)])


def of_integers(value: Any) -> bool:
    """Tell whether an attribute is a tuple of plain integers, as shapes and axes are.

    Parameters
    ----------
    value : Any
        The attribute.

    Returns
    -------
    bool
        False for tuples with bools or NumPy integers.
    """
    return type(value) is tuple and all(type(item) is int for item in value)


def exact_test(known: Any) -> Test | None:
    """Return a test whether a value that equals an attribute also has its type and bits.

    Parameters
    ----------
    known : Any
        The attribute.

    Returns
    -------
    callable or None
        A function from a value to bool; None if equality is enough.
    """
    if type(known) is tuple:
        tests = [(place, test) for place, item in enumerate(known) if (test := exact_test(item))]
        return (lambda value: all(t(value[i]) for i, t in tests)) if tests else None
    if not isinstance(known, _NUMBERS):
        return None
    kind = type(known)
    if kind in (int, bool) or (kind is float and known):
        return lambda value: type(value) is kind
    bits = exact(known)
    return lambda value: bool(exact(value) == bits)


@dataclass(frozen=True, slots=True, repr=False)
class Scalar:
    """A number as an op's attribute, compared by its bits: −0.0, NaN and 1 are distinct.

    Parameters
    ----------
    dtype : str
        The dtype's name.
    bits : bytes
        The number as the dtype stores it.
    """

    dtype: str
    bits: bytes

    def __repr__(self) -> str:
        return repr(self.number)

    @property
    def number(self) -> Any:
        """The number as a Python bool, int, float or complex."""
        return np.frombuffer(self.bits, as_dtype(self.dtype).numpy)[0].item()

    @staticmethod
    def of(number: Any, dtype: Any) -> Scalar:
        """Return the attribute for a number stored in a dtype.

        Parameters
        ----------
        number : bool, int, float or complex
            The number.
        dtype : DType or str
            The dtype.

        Returns
        -------
        Scalar
            The attribute.

        Raises
        ------
        DTypeError
            If ``dtype`` is unknown.
        """
        known = as_dtype(dtype)
        return Scalar(known.name, np.asarray(number).astype(known.numpy).tobytes())


@dataclass(frozen=True, slots=True)
class SizedScalar:
    """A symbolic size as the number of an op's attribute, while a graph is traced for many sizes.

    Parameters
    ----------
    dtype : str
        The dtype's name.
    size : Size
        The size.
    """

    dtype: str
    size: Size


@dataclass(frozen=True, slots=True, repr=False)
class HostArray:
    """A host array as an op's attribute, compared by shape, dtype and bytes.

    Parameters
    ----------
    dtype : str
        The dtype's name.
    shape : tuple of int
        The sizes of the axes.
    data : bytes
        The elements in row-major order.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)}, {len(self.data)} bytes>"

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The array, read-only."""
        return np.frombuffer(self.data, as_dtype(self.dtype).numpy).reshape(self.shape)

    @staticmethod
    def of(array: np.ndarray[Any, Any]) -> HostArray:
        """Return the attribute for an array.

        Parameters
        ----------
        array : numpy.ndarray
            The array.

        Returns
        -------
        HostArray
            The attribute.

        Raises
        ------
        DTypeError
            If calor does not have the dtype of the array.
        """
        return HostArray(as_dtype(array.dtype).name, array.shape, array.tobytes())
