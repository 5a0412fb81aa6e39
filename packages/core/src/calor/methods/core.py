"""What is a tensor's own: gradients, in-place changes, moves between devices and to the host."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from calor.backends.device import Device
from calor.device_selection import as_device
from calor.dtypes import names_dtype
from calor.errors import DeviceError, DTypeError, GradientError, ShapeError
from calor.functions.conversion import astype, to_device
from calor.functions.manipulation import identity
from calor.local import local
from calor.recording.records import Leaf
from calor.recording.rows import stop_gradient
from calor.recording.sites import locate
from calor.recording.trace import exports, materialize
from calor.recording.tracing import gradients_on, note_gradients
from calor.recording.views import carried, refresh
from calor.recording.writes import write
from calor.tensor.tensor import Tensor, with_methods, wrap
from calor.tensor.values import ready
from calor.transforms import grad as backpropagation
from calor.transforms.state import epoch


@with_methods
class CoreMethods(Tensor):
    """Gradients, in-place changes, moves between devices and to the host."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded for gradients; settable on leaves."""
        if local.jit:
            note_gradients()
        return self._record is not None

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self.requires_grad_(wanted)

    def requires_grad_(self, wanted: bool = True) -> Tensor:
        """Start or stop recording operations on this tensor for gradients.

        Parameters
        ----------
        wanted : bool, optional
            Whether operations are recorded. By default True.

        Returns
        -------
        Tensor
            The tensor itself.

        Raises
        ------
        DTypeError
            If the dtype is neither floating nor complex.
        GradientError
            If recording is to stop on a tensor computed from others that require gradients.
        """
        if self._record is not None and type(self._record) is not Leaf:
            if wanted:
                return self
            raise GradientError(
                "this tensor is computed from others that require gradients; "
                "x.detach() gives a tensor without them"
            )
        if wanted and not self.dtype.is_inexact:
            raise DTypeError(f"gradients need a floating or complex dtype, not {self.dtype.name}")
        if wanted is (self._record is None):
            # A jitted function that knew the tensor otherwise has to look again.
            epoch.count += 1
        if not wanted:
            self._record = None
        elif self._record is None:
            self._record = Leaf(None, weakref.ref(self))
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward()`` has added up, or None."""
        if local.jit:
            note_gradients()
            for trace in local.jit:
                trace.note_look(self)
        found: Tensor | None = self._grad
        return found

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and value.shape != self.shape:
            raise ShapeError(f"a gradient of shape {value.shape} does not fit {self.shape}")
        if local.jit:
            note_gradients()
            local.jit[-1].note_grad(self, assigned=True)
        self._grad = value

    def backward(self, gradient: Tensor | None = None, *, create_graph: bool = False) -> None:
        """Add the gradient of this tensor to ``.grad`` of every leaf it was computed from.

        It may be called repeatedly, and after the value was read.

        Parameters
        ----------
        gradient : Tensor, optional
            The gradient with respect to this tensor, of its shape and dtype. By default 1, for a
            tensor of one element.
        create_graph : bool, optional
            Whether the gradients can be differentiated again. By default False.

        Raises
        ------
        GradientError
            If the tensor depends on no tensor that requires gradients, or ``gradient`` is left out
            and it has several elements.
        ShapeError
            If the shape of ``gradient`` differs.
        DTypeError
            If the dtype of ``gradient`` differs.

        Examples
        --------
        >>> import calor
        >>> x = calor.asarray([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        backpropagation.backward(self, gradient, create_graph)

    def detach(self) -> Tensor:
        """Return a tensor of the same value through which no gradient flows.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor.
        """
        if local.jit:
            local.jit[-1].touch(self)
            if self.dtype.is_inexact:
                # The graph must say it, for it may be differentiated after the trace.
                return wrap(stop_gradient(self)._value)  # type: ignore[no-any-return]
        made: Tensor = wrap(self._value)
        return made

    def _rebind(self, new: Any) -> Tensor:
        """Give this handle another value: what in-place operators do."""
        if new is NotImplemented:
            return new  # type: ignore[no-any-return]
        old = self._value.spec
        spec = new._value.spec
        if spec.shape != old.shape:
            raise ShapeError(
                f"an in-place operation gives shape {spec.shape}, the tensor has {old.shape}; "
                f"write x = x + y instead"
            )
        if new._value.device is not self._value.device:
            raise DeviceError(
                f"an in-place operation gives a tensor on {new.device.name}, this one is on "
                f"{self.device.name}; move the operand first"
            )
        if spec.dtype is not old.dtype:
            raise DTypeError(
                f"an in-place operation gives {spec.dtype.name}, the tensor holds "
                f"{old.dtype.name}; cast the operand, or write x = x + y"
            )
        if type(self._record) is Leaf and gradients_on():
            raise GradientError(
                "in-place change of a leaf that requires gradients; do it inside "
                "`with calor.no_grad():`, or write x = x + y"
            )
        if type(new._record) is Leaf:
            # What is written is computed of a leaf, and no leaf itself.
            new = identity(new)
        if self._view is not None and carried(self, new):
            return self
        write(self, new)
        if self._view is not None:
            refresh(self)
        return self

    def to(self, target: Any = None, *, device: Any = None, dtype: Any = None) -> Tensor:
        """Return the tensor on a device, in a dtype, or both.

        Parameters
        ----------
        target : Device, DType, str or Tensor, optional
            A device or its name, a dtype, or a tensor whose device and dtype are taken.
        device : Device or str, optional
            The device, by keyword.
        dtype : DType or str, optional
            The dtype, by keyword. Names of dtypes are accepted here only.

        Returns
        -------
        Tensor
            The tensor itself if nothing changes.

        Examples
        --------
        >>> import calor
        >>> calor.ones(2).to(calor.float16).dtype
        calor.float16
        """
        if target is not None:
            if names_dtype(target):
                dtype = target
            elif isinstance(target, Tensor):
                device, dtype = target.device, target.dtype
            else:
                device = target
        result: Tensor = self
        if dtype is not None:
            result = astype(result, dtype, copy=False)
        if device is not None and as_device(device) is not result.device:
            result = to_device(result, device)
        return result

    def copy(self) -> Tensor:
        """Return a tensor of the same value, through which gradients flow.

        Returns
        -------
        Tensor
            The shape and dtype of the tensor. Tensors never share changes, so no memory is copied
            before one of them changes.
        """
        if local.jit:
            local.jit[-1].touch(self)
        made: Tensor = wrap(self._value, None)
        if self._record is not None:
            return identity(self)
        return made

    clone = copy

    def numpy(self, *, copy: bool = False) -> np.ndarray[Any, Any]:
        """Return the elements as a host array.

        Parameters
        ----------
        copy : bool, optional
            Whether the array is a copy and can be written to. By default it is read-only and may
            share the tensor's memory.

        Returns
        -------
        numpy.ndarray
            The shape of the tensor, and its dtype as NumPy has it (ml_dtypes for bfloat16 and
            float8).

        Raises
        ------
        TraceError
            If `calor.jit` traces the call.
        """
        if local.jit:
            local.jit[-1].look_at(self)
        value = self._value
        buffer = materialize(value)
        device = value.device
        try:
            array = device.backend.download(device.index, buffer, value.spec)
        except DeviceError as error:
            locate(error, *device.possible_sites(value))
            raise
        if copy:
            return array.copy()
        exports.count += 1
        array.flags.writeable = False
        return array

    @staticmethod
    def _from_buffer(spec: Any, device: Device, buffer: Any) -> Tensor:
        made: Tensor = wrap(ready(spec, device, buffer))
        return made
