"""Values of a run, and their places.

A value is one of

- a ``calor.Tensor`` on the model's device,
- a host array (NumPy): small constants, shapes and everything computed from them; strings (arrays
  of objects), and types that calor lacks as long as no device needs them,
- ``Narrow``: elements of a type that calor lacks, on the device in a carrier type,
- a list: a sequence of values,
- None: an optional without a value, or an input that is left out.

**The placement rule**: inputs of a graph are on the device; strings, and inputs whose elements
decide shapes, are on the host. A constant of up to HOST_LIMIT elements is on the host and is
uploaded when an operator needs it on the device; larger ones are on the device. A result is on the
host if all operands were and it has up to HOST_LIMIT elements; results of ``Shape`` and ``Size``
always are. All shape computation therefore runs on the host, once for a compiled graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.errors import DTypeError
from calor_onnx.sized import SizedArray
from calor_onnx.types import CARRIERS, STRING, HostType, calor_type, name_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Narrow:
    """Elements of a type that calor lacks; ``tensor`` holds them in a carrier type."""

    tensor: Tensor
    dtype: HostType

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.tensor.shape


@dataclass(frozen=True, slots=True)
class Later:
    """An output that the host computes from a tensor's elements: texts, dictionaries.

    In a compiled graph an operator returns it for an output that no other node reads, so that the
    graph can be compiled as a whole.
    """

    tensor: Tensor
    finish: Callable[[Array], Any]


def dtype_of(value: Any) -> HostType:
    """Return the element type of a tensor, a narrow tensor or a host array, as the host's type."""
    return value.dtype.numpy if isinstance(value, Tensor) else np.dtype(value.dtype)


def is_host(value: Any) -> bool:
    """Return whether a value is on the host; an optional without a value counts."""
    if isinstance(value, list):
        return all(map(is_host, value))
    return value is None or isinstance(value, np.ndarray | SizedArray)


def native(array: Array) -> Array:
    """Return an array in the machine's byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def upload(array: Array, device: Any, *, as_number: bool = True) -> Tensor | Narrow:
    """Return the device's tensor of a host array.

    With ``as_number``, an array of one element becomes an operand number of graphs, which needs no
    read. Inputs of a graph do not, because they differ at each call.

    Raises
    ------
    DTypeError
        If no device has the type, as for strings.
    """
    array = native(array)
    if array.dtype == STRING or array.dtype.kind in "SU":
        raise DTypeError("strings stay on the host; this operator computes with numbers")
    carrier = CARRIERS.get(array.dtype)
    if carrier is not None:
        with np.errstate(invalid="ignore"):
            carried = array.astype(carrier.numpy)
        return Narrow(calor.asarray(carried, device=device), array.dtype)
    known = calor_type(array.dtype)
    if known is None:
        raise DTypeError(f"calor has no {name_of(array.dtype)}")
    if as_number and array.size == 1 and known.kind in ("float", "int", "uint", "bool"):
        number = array.reshape(()).item()
        # A number beyond signed 64 bits cannot be an operand of a plan.
        if not isinstance(number, int) or abs(number) < 2**63:
            return calor.full(array.shape, number, dtype=known, device=device)
    return calor.asarray(array, device=device)


def to_host(value: Any) -> Array:
    """Return the elements of a value as a host array; a pending value is computed."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, Narrow):
        # NumPy warns about NaN in conversions to ml_dtypes' types.
        with np.errstate(invalid="ignore"):
            return value.tensor.numpy().astype(value.dtype)
    found: Array = value.numpy()
    return found


def brought(made: Any) -> Any:
    """Return results with their tensors as host arrays."""
    if isinstance(made, list | tuple):
        return type(made)(brought(x) for x in made)
    return to_host(made) if isinstance(made, Tensor | Narrow) else made
