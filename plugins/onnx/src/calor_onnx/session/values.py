"""OrtValue: a value that stays on a device between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.backends.device import Device
from calor.device_selection import as_device
from calor_onnx.session.absent import SPARSE, refused
from calor_onnx.session.faults import InvalidArgument
from calor_onnx.session.providers import processor
from calor_onnx.types import STRING, element_type, numpy_type
from calor_onnx.values import dtype_of, to_host, upload

_KINDS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda", "webgpu": "wgpu", "rocm": "hip"}
_TYPES = {"float32": "float", "float64": "double"}


class OrtDevice:
    """A device by kind and number.

    Parameters
    ----------
    name : str
        Kind of device: "cpu", "cuda", or the name of a calor device.
    number : int, default 0
        Number among devices of that kind.

    Examples
    --------
    >>> import calor_onnx
    >>> device = calor_onnx.OrtDevice.make("cuda", 1)
    >>> device.device_type(), device.device_id()
    ('cuda', 1)
    """

    def __init__(self, name: str, number: int = 0) -> None:
        self.name = name
        self.number = number

    @staticmethod
    def make(name: str, number: int = 0) -> OrtDevice:
        """Return a device.

        Parameters
        ----------
        name : str
            Kind of device: "cpu", "cuda", or the name of a calor device.
        number : int, default 0
            Number among devices of that kind.

        Returns
        -------
        OrtDevice
            The device.
        """
        return OrtDevice(name.lower(), number)

    @staticmethod
    def cpu() -> str:
        """Return the name of CPUs, "cpu".

        Returns
        -------
        str
            The name.
        """
        return "cpu"

    @staticmethod
    def cuda() -> str:
        """Return the name of NVIDIA GPUs, "cuda".

        Returns
        -------
        str
            The name.
        """
        return "cuda"

    def device_type(self) -> str:
        """Return the kind of device.

        Returns
        -------
        str
            The kind.
        """
        return self.name

    def device_id(self) -> int:
        """Return the number among devices of this kind.

        Returns
        -------
        int
            The number.
        """
        return self.number

    def device_mem_type(self) -> int:
        """Return the type of memory, always 0.

        Returns
        -------
        int
            0.
        """
        return 0

    def device_vendor_id(self) -> int:
        """Return the number of the vendor, always 0.

        Returns
        -------
        int
            0.
        """
        return 0


def device_named(name: Any, number: int = 0) -> Device:
    """Return calor's device for a kind of device in ONNX Runtime's or calor's terms."""
    if isinstance(name, OrtDevice):
        name, number = name.name, name.number
    kind = _KINDS.get(str(name).lower(), str(name))
    if kind == "cpu":
        return processor()
    return as_device(kind if ":" in kind or not number else f"{kind}:{number}")


class OrtValue:
    """A tensor on a device, a host array of texts, or a sequence.

    Parameters
    ----------
    value : Tensor, array, list or None
        The value; None is an optional without one.

    Examples
    --------
    >>> import calor_onnx, numpy as np
    >>> value = calor_onnx.OrtValue.ortvalue_from_numpy(np.ones((2, 3), np.float32))
    >>> value.shape(), value.data_type()
    ([2, 3], 'tensor(float)')
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        # A Tensor, a Narrow, a host array, a list or None.
        self.value = value

    @staticmethod
    def ortvalue_from_numpy(
        array: Any, device_type: Any = "cpu", device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """Copy a host array to a device.

        Parameters
        ----------
        array : array
            The array. Texts stay on the host.
        device_type : str or OrtDevice, default "cpu"
            Kind of device, or the device.
        device_id : int, default 0
            Number of the device.
        vendor_id : int, default -1
            Ignored.

        Returns
        -------
        OrtValue
            The value.

        Raises
        ------
        DTypeError
            If calor has no such dtype.
        """
        host = np.asarray(array)
        if host.dtype.kind in "SUO":
            return OrtValue(host.astype(np.object_))
        return OrtValue(upload(host, device_named(device_type, device_id)))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: Any, onnx_element_type: int) -> OrtValue:
        """Return a value with the bytes of a host array and an ONNX element type.

        Parameters
        ----------
        data : array
            The bytes, with elements of the same size.
        onnx_element_type : int
            Number of the ONNX element type.

        Returns
        -------
        OrtValue
            The value, on the CPU.

        Raises
        ------
        ModelError
            If ONNX has no such element type.
        """
        host = np.asarray(data)
        return OrtValue.ortvalue_from_numpy(host.view(numpy_type(onnx_element_type)))

    @staticmethod
    def ortvalue_from_shape_and_type(
        shape: Any,
        element_type: Any = np.float32,
        device_type: Any = "cpu",
        device_id: int = 0,
        vendor_id: int = -1,
    ) -> OrtValue:
        """Return a value of zeros on a device.

        Parameters
        ----------
        shape : sequence of int
            Shape of the value.
        element_type : dtype or int, default numpy.float32
            NumPy dtype, or number of an ONNX element type.
        device_type : str or OrtDevice, default "cpu"
            Kind of device, or the device.
        device_id : int, default 0
            Number of the device.
        vendor_id : int, default -1
            Ignored.

        Returns
        -------
        OrtValue
            The value.

        Raises
        ------
        ModelError
            If ONNX has no such element type.
        """
        kind = numpy_type(element_type) if isinstance(element_type, int) else element_type
        host = np.zeros(tuple(shape), kind)
        return OrtValue.ortvalue_from_numpy(host, device_type, device_id)

    @staticmethod
    def from_dlpack(  # numpydoc ignore=RS01
        data: Any, is_bool_tensor: bool = False
    ) -> OrtValue:
        """Return a value that shares memory with a tensor of another library.

        Parameters
        ----------
        data : object
            A tensor with ``__dlpack__``.
        is_bool_tensor : bool, default False
            Convert the elements to bool.

        Returns
        -------
        OrtValue
            The value.
        """
        made = calor.from_dlpack(data)
        return OrtValue(calor.astype(made, calor.bool) if is_bool_tensor else made)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self._tensor().__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> Any:
        return self._tensor().__dlpack_device__()

    def _tensor(self) -> Tensor:
        if not isinstance(self.value, Tensor):
            raise InvalidArgument(
                f"DLPack needs a tensor, and this value is a {self.data_type()}; use numpy()"
            )
        return self.value

    def numpy(self) -> Any:
        """Return the elements as a host array.

        Returns
        -------
        array or list
            A writable array; for a sequence a list of them.
        """
        return host_of(self.value)

    def shape(self) -> list[int]:
        """Return the shape.

        Returns
        -------
        list of int
            The sizes of the axes.
        """
        return list(self.value.shape)

    def element_type(self) -> int:
        """Return the number of the ONNX element type.

        Returns
        -------
        int
            The number, as in ``onnx.TensorProto``.
        """
        return element_type(dtype_of(self.value))

    def data_type(self) -> str:
        """Return the type in ONNX Runtime's notation.

        Returns
        -------
        str
            The type, such as ``tensor(float)`` or ``seq(tensor(float))``.
        """
        if isinstance(self.value, list):
            inner = OrtValue(self.value[0]).data_type() if self.value else "tensor(float)"
            return f"seq({inner})"
        known = dtype_of(self.value)
        return f"tensor({'string' if known == STRING else _TYPES.get(known.name, known.name)})"

    def device_name(self) -> str:
        """Return the kind of device that holds the elements.

        Returns
        -------
        str
            The kind, such as "cpu" or "cuda".
        """
        if not isinstance(self.value, Tensor):
            return "cpu"
        kind = self.value.device.name.partition(":")[0]
        return "cpu" if kind == "numpy" else kind

    def data_ptr(self) -> int:
        """Return the address of the elements in host memory.

        Returns
        -------
        int
            The address.

        Raises
        ------
        InvalidArgument
            If the value is on a GPU; use DLPack then.
        """
        if self.device_name() != "cpu":
            raise InvalidArgument(
                f"the value is on {self.device_name()}, whose addresses are not exposed; use DLPack"
            )
        host = np.asarray(self.value) if isinstance(self.value, np.ndarray) else self.numpy()
        return int(host.ctypes.data)

    def has_value(self) -> bool:
        """Return whether there is a value; an optional may have none.

        Returns
        -------
        bool
            False for None.
        """
        return self.value is not None

    def is_tensor(self) -> bool:
        """Return whether this is not a sequence.

        Returns
        -------
        bool
            False for a sequence.
        """
        return not isinstance(self.value, list)

    def is_tensor_sequence(self) -> bool:
        """Return whether this is a sequence.

        Returns
        -------
        bool
            True for a sequence.
        """
        return isinstance(self.value, list)

    def is_sparse_tensor(self) -> bool:
        """Return False: calor has no sparse tensors.

        Returns
        -------
        bool
            False.
        """
        return False

    def as_sparse_tensor(self) -> Any:
        """Raise an error: calor has no sparse tensors.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise refused("as_sparse_tensor", SPARSE)

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> OrtValue:
        """Raise an error: calor has no sparse tensors.

        Parameters
        ----------
        sparse_tensor : object
            Ignored.

        Raises
        ------
        NotImplemented
            Always.
        """
        raise refused("ort_value_from_sparse_tensor", SPARSE)

    def tensor_size_in_bytes(self) -> int:
        """Return the size of the elements.

        Returns
        -------
        int
            The number of bytes.
        """
        count = 1
        for size in self.shape():
            count *= size
        return count * int(dtype_of(self.value).itemsize)

    def update_inplace(self, array: Any) -> None:
        """Replace the elements; later runs read the new ones.

        Parameters
        ----------
        array : array
            The new elements.

        Raises
        ------
        DTypeError
            If calor has no such dtype.
        """
        device = self.value.device if isinstance(self.value, Tensor) else None
        host = np.asarray(array)
        self.value = host if device is None else upload(host, device)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Copy the elements of values to other values; each stays on its device.

    Parameters
    ----------
    src : sequence of OrtValue
        The values to read.
    dst : sequence of OrtValue
        The values to overwrite, of the same types and shapes.
    stream : object, default None
        Ignored.

    Raises
    ------
    InvalidArgument
        If types or shapes differ.
    ValueError
        If there are not as many values to read as to overwrite.

    Examples
    --------
    >>> import calor_onnx, numpy as np
    >>> make = calor_onnx.OrtValue.ortvalue_from_numpy
    >>> ones, zeros = make(np.ones(2)), make(np.zeros(2))
    >>> calor_onnx.copy_tensors([ones], [zeros])
    >>> zeros.numpy().tolist()
    [1.0, 1.0]
    """
    for one, other in zip(src, dst, strict=True):
        if (one.data_type(), one.shape()) != (other.data_type(), other.shape()):
            raise InvalidArgument(
                f"{one.data_type()} {one.shape()} cannot be copied to {other.data_type()} "
                f"{other.shape()}; types and shapes must be equal"
            )
    for one, other in zip(src, dst, strict=True):
        other.update_inplace(one.numpy())


def host_of(value: Any) -> Any:
    """Return a value as a host array that the caller may write to; for a sequence a list of them.

    ONNX Runtime's outputs belong to the caller. Here an output may be memory of a device or of the
    model, so it is copied then.
    """
    if isinstance(value, list):
        return [host_of(item) for item in value]
    if value is None or isinstance(value, dict):
        return value
    found = to_host(value)
    return found.copy() if found is value or not found.flags.writeable else found
