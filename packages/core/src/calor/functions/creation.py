"""Making tensors, and changing where and in which type their elements are held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.backends.selection import as_device, current_device, on_device
from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError
from calor.graph.trace import Handle, materialize, ready, wrap
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.sources import full as full_row
from calor.specs import spec

if TYPE_CHECKING:
    from calor.tensor.tensor import Tensor


def _device(device: Any) -> Device:
    return current_device() if device is None else as_device(device)


def host_array(obj: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return a host array of a dtype that calor knows; Python numbers take calor's defaults."""
    if isinstance(obj, np.ndarray | np.generic):
        array = np.asarray(obj)
        known = as_dtype(array.dtype)
    else:
        array = np.asarray(obj)
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
    wanted = known if dtype is None else dtype
    if array.dtype != wanted.numpy:
        with np.errstate(all="ignore"):
            array = array.astype(wanted.numpy)
    return array


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
    tensor: Tensor = wrap(ready(shape, target, buffer))
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
    fill_value: complex,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of a shape with every element equal to a number.

    >>> import calor
    >>> calor.full((2,), 7).tolist()
    [7, 7]
    """
    if isinstance(fill_value, Handle):
        from calor.functions.manipulation import broadcast_to

        value = fill_value if dtype is None else astype(fill_value, dtype)  # type: ignore[arg-type]
        return broadcast_to(value, _shape(shape))  # type: ignore[arg-type]
    known = as_dtype(type(fill_value)) if dtype is None and type(fill_value) in _KINDS else None
    if known is None:
        known = as_dtype(np.asarray(fill_value).dtype if dtype is None else dtype)
    with on_device(_device(device)):
        made: Tensor = full_row(
            value=Scalar.of(fill_value, known), shape=_shape(shape), dtype=known
        )
    if requires_grad:
        made.requires_grad_()
    return made


_KINDS = (bool, int, float, complex)


def _shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    return tuple(int(n) for n in shape)


def zeros(
    shape: int | tuple[int, ...],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros, float32 unless ``dtype`` says otherwise."""
    known = dtypes.DEFAULT_FLOAT if dtype is None else dtype
    return full(shape, 0, dtype=known, device=device, requires_grad=requires_grad)


def ones(
    shape: int | tuple[int, ...],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones, float32 unless ``dtype`` says otherwise."""
    known = dtypes.DEFAULT_FLOAT if dtype is None else dtype
    return full(shape, 1, dtype=known, device=device, requires_grad=requires_grad)


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
    """Return the tensor on another device; through the host between unlike backends."""
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
    made: Tensor = wrap(ready(known, target, moved))
    if x._record is not None:
        from calor.transforms.records import linked_move

        made._record = linked_move(x, source)
    return made
