"""Changing where and in which dtype the elements of a tensor are held."""

from __future__ import annotations

from typing import Any

from calor.compiling.partitioned import move
from calor.device_selection import as_device, current_device
from calor.dtypes import as_dtype
from calor.errors import DTypeError, ExchangeError
from calor.functions.dlpack import import_array
from calor.ops import elementwise as e
from calor.ops.movement import reshape
from calor.recording.records import Custom, Projection
from calor.recording.trace import computed, materialize
from calor.tensor.tensor import Tensor


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of another library's array, exchanged by DLPack.

    Parameters
    ----------
    x : object
        An array with ``__dlpack__`` and ``__dlpack_device__``.
    device : Device or str, optional
        Where the result is. By default the current device.
    copy : bool, optional
        False shares the memory where the device can; the array must then not be written to while
        the tensor lives. By default the elements are copied.

    Returns
    -------
    Tensor
        The shape and dtype of ``x``.

    Raises
    ------
    ExchangeError
        If the memory cannot be exchanged as asked. It is a BufferError and a ValueError.

    Notes
    -----
    The standard shares the memory by default. A tensor's value may be read later than it was asked
    for and must not change, so calor copies unless it is told otherwise.

    References
    ----------
    Python array API standard 2024.12, ``from_dlpack``.

    Examples
    --------
    >>> import calor, numpy
    >>> calor.from_dlpack(numpy.asarray([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    target = current_device() if device is None else as_device(device)
    if not isinstance(x, Tensor):
        return import_array(x, target, copy)
    if device is None or target is x.device:
        return x.copy() if copy else x
    if copy is False:
        raise ExchangeError(
            f"from_dlpack: copy=False cannot bring a tensor from {x.device.name} to "
            f"{target.name}; pass copy=None"
        )
    return to_device(x, target)


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Return the tensor with its elements converted to another dtype.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype.
    dtype : DType or str
        The dtype of the result.
    copy : bool, optional
        Whether the result is a new tensor even if ``x`` has the dtype already. By default True.
    device : Device or str, optional
        Where the result is. By default the device of ``x``.

    Returns
    -------
    Tensor
        The shape of ``x``. Conversion of floating elements to integers truncates toward zero, and
        saturates at the limits of the dtype.

    Raises
    ------
    DTypeError
        If ``dtype`` is unknown.

    References
    ----------
    Python array API standard 2024.12, ``astype``.

    Examples
    --------
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


def bits_as(x: Tensor, dtype: Any, /) -> Tensor:
    """Return the bits of the elements of a tensor as another dtype.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype.
    dtype : DType or str
        The dtype of the result.

    Returns
    -------
    Tensor
        The shape of ``x``, whose last axis is longer if the dtype is narrower and shorter if it is
        wider.

    Raises
    ------
    DTypeError
        If a wider dtype does not fit the last axis.
    """
    wanted = as_dtype(dtype)
    if wanted is x.dtype:
        return x.copy()
    size, new = x.dtype.itemsize, wanted.itemsize
    if size == new:
        made: Tensor = e.bitcast(x, dtype=wanted)
        return made
    if not x.ndim or x.shape[-1] * size % new:
        raise DTypeError(
            f"view: shape {x.shape} of {x.dtype.name} has no last axis of a multiple of {new} "
            f"bytes, which {wanted.name} takes"
        )
    if size > new:
        parts = e.bitcast(x, dtype=wanted)
        joined: Tensor = reshape(parts, shape=(*x.shape[:-1], x.shape[-1] * (size // new)))
        return joined
    shape = (*x.shape[:-1], x.shape[-1] * size // new, new // size)
    wide: Tensor = e.bitcast(reshape(x, shape=shape), dtype=wanted)
    return wide


def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Return the tensor on another device.

    Parameters
    ----------
    x : Tensor
        Any shape and dtype. It is computed first if it is pending.
    device : Device or str
        The device, or its name such as "cuda:0".
    stream : Any, optional
        Not used; the standard has the parameter.

    Returns
    -------
    Tensor
        The elements of ``x``, or ``x`` itself if it is there already. Gradients flow back to the
        device of ``x``. Devices of different backends exchange elements through the host.

    Raises
    ------
    DeviceError
        If there is no such device.

    References
    ----------
    Python array API standard 2024.12, ``array.to_device``.

    Examples
    --------
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
    made: Tensor = computed(known, target, move(buffer, source, target, known))
    if x._record is not None:
        made._record = _linked_move(x, source)
    return made


def _linked_move(x: Any, source: Any) -> Projection:
    """Return the record of a copy to another device: its gradient moves back."""

    def pull(gs: list[Any]) -> list[Any]:
        return [to_device(gs[0], source)]

    return Projection(Custom((x._record,), pull, 1, (x._value.spec,)), 0)
