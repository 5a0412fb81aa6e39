"""Making tensors, and changing where and in which type their elements are held."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.backends.selection import as_device, current_device, on_device
from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError, ShapeError
from calor.functions.operands import python_number, sizes_of
from calor.graph.record import number_on
from calor.graph.trace import Handle, computed, materialize
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.movement import expand
from calor.ops.sources import full as full_row
from calor.reference.conversion import cast
from calor.specs import spec

if TYPE_CHECKING:
    from calor.functions.operands import Operand
    from calor.tensor.tensor import Tensor


def _device(device: Any) -> Device:
    return current_device() if device is None else as_device(device)


def host_array(obj: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return a host array of a dtype that calor knows; Python numbers take calor's defaults."""
    if isinstance(obj, np.ndarray | np.generic) or hasattr(type(obj), "__array__"):
        array = np.asarray(obj)
        known = as_dtype(array.dtype)
    else:
        try:
            array = np.asarray(obj)
        except ValueError as error:
            raise ShapeError(
                f"asarray: the parts of the nested sequence differ in shape; pad them to one shape "
                f"first ({error})"
            ) from None
        if array.dtype == object or array.dtype.kind not in "biufcV":
            raise DTypeError(
                f"asarray: {type(obj).__name__} does not hold numbers of one shape "
                f"(NumPy made it {array.dtype})"
            )
        known = {"f": dtypes.DEFAULT_FLOAT, "c": dtypes.DEFAULT_COMPLEX}.get(
            array.dtype.kind, as_dtype(array.dtype)
        )
        if not array.size and not isinstance(obj, np.ndarray):
            known = dtypes.DEFAULT_FLOAT
        if dtype is not None and array.size and array.dtype.kind in "iu" and dtype.is_integer:
            limits = np.iinfo(dtype.numpy)
            for number in (int(array.min()), int(array.max())):
                if not limits.min <= number <= limits.max:
                    raise OverflowError(
                        f"asarray: the Python number {number} does not fit {dtype.name} "
                        f"({limits.min} … {limits.max}); choose a wider dtype"
                    )
    wanted = known if dtype is None else dtype
    return array if array.dtype == wanted.numpy else cast(array, dtype=wanted.numpy)


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with the elements of a number, a nested sequence, an array or a tensor.

    Python floats become float32 and complex numbers complex64 unless ``dtype`` says otherwise.
    The elements are copied; ``copy=False`` shares a host array's memory where the device can,
    and raises ValueError where it cannot. ``requires_grad`` makes it a leaf for gradients.

    >>> import calor
    >>> calor.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Handle):
        made: Tensor = obj  # type: ignore[assignment]
        if wanted is not None and wanted is not made.dtype:
            if copy is False:
                raise ValueError(f"asarray: {made.dtype.name} to {wanted.name} needs a copy")
            made = astype(made, wanted)
        if device is not None and as_device(device) is not made.device:
            if copy is False:
                raise ValueError("asarray: another device needs a copy")
            made = to_device(made, device)
        if copy and made is obj:
            made = made.copy()
        if requires_grad:
            made = made.detach().requires_grad_()
        return made
    if hasattr(type(obj), "__dlpack__") and not isinstance(obj, np.ndarray):
        taken = from_dlpack(obj, device=device, copy=copy)
        return asarray(taken, dtype=wanted, requires_grad=requires_grad)
    if type(obj) is list or type(obj) is tuple:
        obj = _nested(obj)
    target = _device(device)
    array = host_array(obj, wanted)
    shape = spec(array.shape, as_dtype(array.dtype))
    backend = target.backend
    if copy is False:
        same = isinstance(obj, np.ndarray) and (array is obj or array.base is obj)
        if not same or not array.flags.c_contiguous or not target.info.feature("host_views"):
            raise ValueError(
                "asarray: copy=False needs a contiguous host array of the wanted dtype and a "
                "device that shares host memory; pass copy=None"
            )
        buffer = backend.adopt(target.index, array)
    else:
        buffer = backend.upload(target.index, np.ascontiguousarray(array).reshape(array.shape))
    tensor: Tensor = computed(shape, target, buffer)
    if requires_grad:
        tensor.requires_grad_()
    return tensor


def _nested(obj: Any) -> Any:
    """Return the nested sequence with its tensors replaced by host arrays."""
    if isinstance(obj, Handle):
        return obj.numpy()  # type: ignore[attr-defined]
    if isinstance(obj, list | tuple):
        return [_nested(item) for item in obj]
    return obj


def full(
    shape: int | tuple[int, ...],
    fill_value: Operand,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of a shape with every element equal to a number (or 0-d tensor).

    The dtype is the default one of the number's kind unless ``dtype`` says otherwise. The number is
    an input of the plan, so another one makes no other plan; 0 and 1 are constants. Raises
    OverflowError when an integer dtype cannot hold it.

    >>> import calor
    >>> calor.full((2,), 7).tolist()
    [7, 7]
    """
    sizes = sizes_of(shape, "full")
    if any(n < 0 for n in sizes):
        raise ShapeError(f"full: shape {sizes} has a negative size")
    number = python_number(fill_value)
    if not isinstance(number, bool | int | float | complex):
        value = asarray(number, dtype=dtype, device=device)
        made: Tensor = expand(value, shape=sizes)
        return made.detach().requires_grad_() if requires_grad else made
    known = as_dtype(type(number) if dtype is None else dtype)
    number = _of_kind(number, known)
    target = _device(device)
    # −0 equals 0, but is another constant.
    if number not in (0, 1) or "-" in repr(number):
        made = expand(number_on(number, known, target), shape=sizes)
    elif device is None:
        made = full_row(value=_constant(number, known), shape=sizes, dtype=known)
    else:
        with on_device(target):
            made = full_row(value=_constant(number, known), shape=sizes, dtype=known)
    return made.requires_grad_() if requires_grad else made


@cache
def _constant(number: Any, dtype: DType) -> Scalar:
    return Scalar.of(number, dtype)


def _of_kind(number: Any, dtype: DType) -> Any:
    """Return the number in the kind of a dtype; DTypeError when only a complex dtype holds it."""
    if dtype.kind == "complex":
        return complex(number)
    if isinstance(number, complex):
        raise DTypeError(f"full: the complex number {number} does not fit {dtype.name}")
    return bool(number) if dtype.kind == "bool" else int(number) if dtype.is_integer else number


def full_like(
    x: Tensor,
    /,
    fill_value: Operand,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with the shape, dtype and device of x, every element equal to a number.

    >>> import calor
    >>> calor.full_like(calor.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """
    known = x.dtype if dtype is None else dtype
    where = x.device if device is None else device
    return full(x.shape, fill_value, dtype=known, device=where, requires_grad=requires_grad)


def zeros(
    shape: int | tuple[int, ...],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros, float32 unless ``dtype`` says otherwise.

    >>> import calor
    >>> calor.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    known = dtypes.DEFAULT_FLOAT if dtype is None else dtype
    return full(shape, 0, dtype=known, device=device, requires_grad=requires_grad)


def zeros_like(
    x: Tensor, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros with the shape, dtype and device of x.

    >>> import calor
    >>> calor.zeros_like(calor.asarray([3, 4])).tolist()
    [0, 0]
    """
    return full_like(x, 0, dtype=dtype, device=device, requires_grad=requires_grad)


def ones(
    shape: int | tuple[int, ...],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones, float32 unless ``dtype`` says otherwise.

    >>> import calor
    >>> calor.ones(3).tolist()
    [1.0, 1.0, 1.0]
    """
    known = dtypes.DEFAULT_FLOAT if dtype is None else dtype
    return full(shape, 1, dtype=known, device=device, requires_grad=requires_grad)


def ones_like(
    x: Tensor, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones with the shape, dtype and device of x.

    >>> import calor
    >>> calor.ones_like(calor.asarray([3, 4])).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor whose elements are not to be relied on (they are 0), float32 by default.

    >>> import calor
    >>> calor.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor of the shape, dtype and device of x with elements not to be relied on.

    >>> import calor
    >>> calor.empty_like(calor.ones((2, 3))).shape
    (2, 3)
    """
    return zeros_like(x, dtype=dtype, device=device)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of an array of another library that speaks DLPack.

    The elements are copied, where the array API standard would share them: the other side may
    write to its memory at any time, and a tensor's value, which may be read later than it was asked
    for, must not change. ``copy=False`` shares the memory where the device can, and then it must
    not be written while the tensor lives. Raises ExchangeError, a BufferError and ValueError, where
    it cannot be shared.

    >>> import calor, numpy
    >>> calor.from_dlpack(numpy.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    from calor.tensor.dlpack import from_dlpack as import_array

    return import_array(x, device=device, copy=copy)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return the tensor with its elements converted: floats to integers truncate and saturate.

    >>> import calor
    >>> calor.astype(calor.asarray([1.7, -3.2]), calor.int8).tolist()
    [1, -3]
    """
    wanted = as_dtype(dtype)
    if wanted is x.dtype and not x._value.spec.weak:
        made = x.copy() if copy else x
    else:
        made = e.cast(x, dtype=wanted)
    return made if device is None else to_device(made, device)


def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on another device; through the host between unlike backends.

    >>> import calor
    >>> calor.to_device(calor.ones(2), "numpy").device
    device('numpy:0')
    """
    target = as_device(device)
    source = x.device
    if target is source:
        return x
    buffer = materialize(x._value)
    known = x._value.spec
    if target.backend is source.backend:
        moved = source.backend.copy(source.index, buffer, known, target.index)
    else:
        host = source.backend.download(source.index, buffer, known)
        moved = target.backend.upload(target.index, host)
    made: Tensor = computed(known, target, moved)
    if x._record is not None:
        from calor.transforms.records import linked_move

        made._record = linked_move(x, source)
    return made
