"""Making tensors: of given elements, or filled with one number."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from calor import dtypes
from calor.backends.device import Device
from calor.device_selection import as_device, current_device
from calor.dtypes import DType, as_dtype
from calor.errors import DTypeError, ShapeError
from calor.functions import nested
from calor.functions.arguments import python_number, sizes_of
from calor.functions.conversion import astype, from_dlpack, to_device
from calor.ops import elementwise as e
from calor.ops.base import Scalar
from calor.ops.movement import expand
from calor.ops.sources import full as full_row
from calor.recording.record import number_on
from calor.recording.trace import computed
from calor.reference.conversion import cast
from calor.specs import spec
from calor.tensor.tensor import Operand, Tensor
from calor.tensor.values import Handle


def _device(device: Any) -> Device:
    return current_device() if device is None else as_device(device)


def _has_buffer(obj: Any) -> bool:
    """Return whether an object lends memory with a dtype of its own, as array.array does."""
    if isinstance(obj, list | tuple | int | float | complex):
        return False
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


def host_array(obj: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """Return a host array of a dtype that calor has; Python numbers take calor's default dtypes.

    Parameters
    ----------
    obj : Any
        A number, a nested sequence, or an object with ``__array__`` or the buffer protocol.
    dtype : DType or None
        The dtype to convert to; None keeps the array's own.

    Returns
    -------
    numpy.ndarray
        The elements of ``obj``.

    Raises
    ------
    ShapeError
        If the parts of a nested sequence differ in shape.
    DTypeError
        If ``obj`` does not hold numbers.
    OverflowError
        If a Python integer does not fit ``dtype``.
    """
    if hasattr(type(obj), "__array__") or _has_buffer(obj):
        array = np.asarray(obj)
        if array.dtype.kind in "OUSMm":
            raise DTypeError(
                f"asarray: {array.dtype} is not a dtype of numbers; convert the array first"
            )
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
                f"asarray: a {type(obj).__name__} does not hold numbers (NumPy makes it an array "
                f"of dtype {array.dtype})"
            )
        known = {"f": dtypes.default_float(), "c": dtypes.default_complex()}.get(
            array.dtype.kind, as_dtype(array.dtype)
        )
        if not array.size and not isinstance(obj, np.ndarray):
            known = dtypes.default_float()
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

    Parameters
    ----------
    obj : Any
        A number, a nested list or tuple of numbers, arrays and tensors, a NumPy array, an array
        with ``__dlpack__``, or a tensor.
    dtype : DType or str, optional
        The dtype of the result. By default that of an array or tensor, and the common one of those
        in a nested sequence; bool, int64, float32 or complex64 for Python numbers alone.
    device : Device or str, optional
        Where the result is. By default the device of the first tensor, else the current device.
    copy : bool, optional
        True always copies a tensor; False shares the memory of a host array, and raises if that is
        not possible. By default host arrays are copied and tensors are not.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The shape of ``obj``. A tensor that already fits is returned as it is; gradients flow to
        the tensors of a nested sequence.

    Raises
    ------
    ShapeError
        If the parts of a nested sequence differ in shape.
    DTypeError
        If ``obj`` does not hold numbers, or ``dtype`` is unknown.
    OverflowError
        If a Python integer does not fit ``dtype``.
    ValueError
        If ``copy`` is False and another dtype, device or layout needs a copy.

    References
    ----------
    Python array API standard 2024.12, ``asarray``.

    Examples
    --------
    >>> import calor
    >>> calor.asarray([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, Handle):
        made: Tensor = obj  # type: ignore[assignment]
        if made._value.spec.weak:
            # A traced Python number becomes the tensor that it becomes outside the trace.
            made = e.cast(made, dtype=dtypes.default_of(made.dtype) if wanted is None else wanted)
        elif wanted is not None and wanted is not made.dtype:
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
    if isinstance(obj, list | tuple):
        parts: list[Any] = []
        obj = nested.taken(obj, asarray, parts)
        wanted = nested.dtype_of(parts) if wanted is None else wanted
        device = nested.device_of(parts) if device is None else device
        if copy is not False and nested.is_recorded(parts):
            known = partial(asarray, dtype=wanted, device=device)
            return asarray(nested.joined(obj, wanted, device, known), requires_grad=requires_grad)
        obj = nested.host_values(obj)
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


def full(
    shape: int | tuple[int, ...],
    fill_value: Operand,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of which every element is the same number.

    Parameters
    ----------
    shape : int or tuple of int
        The sizes of the axes, each at least 0.
    fill_value : Tensor, ndarray or number
        The number, or a 0-d tensor. A number other than 0 and 1 is an input of the plan, so another
        number needs no other plan.
    dtype : DType or str, optional
        The dtype of the result. By default bool, int64, float32 or complex64, by the kind of the
        number.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The given shape.

    Raises
    ------
    ShapeError
        If a size is negative.
    DTypeError
        If the number is complex and ``dtype`` is not.
    OverflowError
        If an integer dtype cannot hold the number.

    References
    ----------
    Python array API standard 2024.12, ``full``.

    Examples
    --------
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
        with as_device(target):
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


def _operand(x: Any) -> Tensor:
    """Return a tensor for what has the shape of the result; DTypeError for sequences."""
    if isinstance(x, list | tuple):
        raise DTypeError(
            f"full_like: x is a {type(x).__name__}; pass a tensor, calor.asarray(x) makes one"
        )
    return asarray(x)


def full_like(  # numpydoc ignore=RS01
    x: Operand,
    /,
    fill_value: Operand,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with the shape of x of which every element is the same number.

    Parameters
    ----------
    x : Tensor, ndarray or number
        That whose shape is taken.
    fill_value : Tensor, ndarray or number
        The number, or a 0-d tensor.
    dtype : DType or str, optional
        The dtype of the result. By default that of ``x``.
    device : Device or str, optional
        Where the result is. By default the device of ``x``.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    DTypeError
        If the number is complex and the dtype is not.
    OverflowError
        If an integer dtype cannot hold the number.

    References
    ----------
    Python array API standard 2024.12, ``full_like``.

    Examples
    --------
    >>> import calor
    >>> calor.full_like(calor.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """
    like = _operand(x)
    known = like.dtype if dtype is None else dtype
    where = like.device if device is None else device
    return full(like.shape, fill_value, dtype=known, device=where, requires_grad=requires_grad)


def zeros(
    shape: int | tuple[int, ...],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        The sizes of the axes, each at least 0.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The given shape.

    Raises
    ------
    ShapeError
        If a size is negative.

    References
    ----------
    Python array API standard 2024.12, ``zeros``.

    Examples
    --------
    >>> import calor
    >>> calor.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    known = dtypes.default_float() if dtype is None else dtype
    return full(shape, 0, dtype=known, device=device, requires_grad=requires_grad)


def zeros_like(
    x: Operand, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of zeros with the shape of x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        That whose shape is taken.
    dtype : DType or str, optional
        The dtype of the result. By default that of ``x``.
    device : Device or str, optional
        Where the result is. By default the device of ``x``.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The shape of ``x``.

    References
    ----------
    Python array API standard 2024.12, ``zeros_like``.

    Examples
    --------
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
    """Return a tensor of ones.

    Parameters
    ----------
    shape : int or tuple of int
        The sizes of the axes, each at least 0.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The given shape.

    Raises
    ------
    ShapeError
        If a size is negative.

    References
    ----------
    Python array API standard 2024.12, ``ones``.

    Examples
    --------
    >>> import calor
    >>> calor.ones(3).tolist()
    [1.0, 1.0, 1.0]
    """
    known = dtypes.default_float() if dtype is None else dtype
    return full(shape, 1, dtype=known, device=device, requires_grad=requires_grad)


def ones_like(
    x: Operand, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return a tensor of ones with the shape of x.

    Parameters
    ----------
    x : Tensor, ndarray or number
        That whose shape is taken.
    dtype : DType or str, optional
        The dtype of the result. By default that of ``x``.
    device : Device or str, optional
        Where the result is. By default the device of ``x``.
    requires_grad : bool, optional
        Whether the result is a leaf that collects a gradient in ``.grad``.

    Returns
    -------
    Tensor
        The shape of ``x``.

    References
    ----------
    Python array API standard 2024.12, ``ones_like``.

    Examples
    --------
    >>> import calor
    >>> calor.ones_like(calor.asarray([3, 4])).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device, requires_grad=requires_grad)


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor whose elements a program must not rely on.

    Parameters
    ----------
    shape : int or tuple of int
        The sizes of the axes, each at least 0.
    dtype : DType or str, optional
        The dtype of the result. By default float32.
    device : Device or str, optional
        Where the result is. By default the current device, which ``with calor.device(...)`` sets.

    Returns
    -------
    Tensor
        The given shape. The elements are 0.

    Raises
    ------
    ShapeError
        If a size is negative.

    References
    ----------
    Python array API standard 2024.12, ``empty``.

    Examples
    --------
    >>> import calor
    >>> calor.empty((2, 3)).shape
    (2, 3)
    """
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Operand, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor with the shape of x whose elements a program must not rely on.

    Parameters
    ----------
    x : Tensor, ndarray or number
        That whose shape is taken.
    dtype : DType or str, optional
        The dtype of the result. By default that of ``x``.
    device : Device or str, optional
        Where the result is. By default the device of ``x``.

    Returns
    -------
    Tensor
        The shape of ``x``. The elements are 0.

    References
    ----------
    Python array API standard 2024.12, ``empty_like``.

    Examples
    --------
    >>> import calor
    >>> calor.empty_like(calor.ones((2, 3))).shape
    (2, 3)
    """
    return zeros_like(x, dtype=dtype, device=device)
