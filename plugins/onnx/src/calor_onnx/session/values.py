"""OrtValue: a value that a program keeps on a device between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import calor
from calor import Tensor
from calor.backends.device import Device
from calor.backends.selection import as_device
from calor_onnx.session.absent import SPARSE, refused
from calor_onnx.session.faults import InvalidArgument
from calor_onnx.session.providers import processor
from calor_onnx.types import STRING, element_type, numpy_type
from calor_onnx.values import dtype_of, to_host, upload

_KINDS = {"cpu": "cpu", "cuda": "cuda", "gpu": "cuda", "webgpu": "wgpu", "rocm": "hip"}
_TYPES = {"float32": "float", "float64": "double"}


class OrtDevice:
    """A device by ONNX Runtime's name for its kind and a number."""

    def __init__(self, name: str, number: int = 0) -> None:
        self.name = name
        self.number = number

    @staticmethod
    def make(name: str, number: int = 0) -> OrtDevice:
        """Return a device for a kind: ``cpu``, ``cuda``."""
        return OrtDevice(name.lower(), number)

    @staticmethod
    def cpu() -> str:
        """Return the kind of processors."""
        return "cpu"

    @staticmethod
    def cuda() -> str:
        """Return the kind of NVIDIA's devices."""
        return "cuda"

    def device_type(self) -> str:
        """Return the kind."""
        return self.name

    def device_id(self) -> int:
        """Return the number among devices of its kind."""
        return self.number

    def device_mem_type(self) -> int:
        """Return 0: memory of a device is all of one kind here."""
        return 0

    def device_vendor_id(self) -> int:
        """Return 0: calor does not ask for the numbers of makers."""
        return 0


def device_named(name: Any, number: int = 0) -> Device:
    """Return calor's device for ONNX Runtime's name of a kind of device, or calor's own name."""
    if isinstance(name, OrtDevice):
        name, number = name.name, name.number
    kind = _KINDS.get(str(name).lower(), str(name))
    if kind == "cpu":
        return processor()
    return as_device(kind if ":" in kind or not number else f"{kind}:{number}")


class OrtValue:
    """A tensor on a device, a host array of texts, or a sequence.

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
        """Return a value with the elements of a host array, on a device."""
        host = np.asarray(array)
        if host.dtype.kind in "SUO":
            return OrtValue(host.astype(np.object_))
        return OrtValue(upload(host, device_named(device_type, device_id)))

    @staticmethod
    def ortvalue_from_numpy_with_onnx_type(data: Any, onnx_element_type: int) -> OrtValue:
        """Return a value of an element type of ONNX with the bytes of a host array."""
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
        """Return a value of zeros."""
        kind = numpy_type(element_type) if isinstance(element_type, int) else element_type
        host = np.zeros(tuple(shape), kind)
        return OrtValue.ortvalue_from_numpy(host, device_type, device_id)

    @staticmethod
    def from_dlpack(data: Any, is_bool_tensor: bool = False) -> OrtValue:
        """Return a value of another library's tensor."""
        made = calor.from_dlpack(data)
        return OrtValue(calor.astype(made, calor.bool) if is_bool_tensor else made)

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self._tensor().__dlpack__(stream=stream, **options)

    def __dlpack_device__(self) -> Any:
        return self._tensor().__dlpack_device__()

    def _tensor(self) -> Tensor:
        if not isinstance(self.value, Tensor):
            raise InvalidArgument(f"this value is no tensor of a device: {self.data_type()}")
        return self.value

    def numpy(self) -> Any:
        """Return the elements as a host array; of a sequence a list of them."""
        return host_of(self.value)

    def shape(self) -> list[int]:
        """Return the sizes of the axes."""
        return list(self.value.shape)

    def element_type(self) -> int:
        """Return the number of the element type in ONNX."""
        return element_type(dtype_of(self.value))

    def data_type(self) -> str:
        """Return the type as ONNX Runtime writes it, such as ``tensor(float)``."""
        if isinstance(self.value, list):
            inner = OrtValue(self.value[0]).data_type() if self.value else "tensor(float)"
            return f"seq({inner})"
        known = dtype_of(self.value)
        return f"tensor({'string' if known == STRING else _TYPES.get(known.name, known.name)})"

    def device_name(self) -> str:
        """Return the kind of device that holds the elements: ``cpu``, ``cuda``."""
        if not isinstance(self.value, Tensor):
            return "cpu"
        kind = self.value.device.name.partition(":")[0]
        return "cpu" if kind == "numpy" else kind

    def data_ptr(self) -> int:
        """Return the address of the elements on a processor.

        Raises InvalidArgument elsewhere: use ``__dlpack__``.
        """
        if self.device_name() != "cpu":
            raise InvalidArgument("a device's memory has no address here; use DLPack")
        host = np.asarray(self.value) if isinstance(self.value, np.ndarray) else self.numpy()
        return int(host.ctypes.data)

    def has_value(self) -> bool:
        """Return whether there is a value: an optional may have none."""
        return self.value is not None

    def is_tensor(self) -> bool:
        """Return whether it is a tensor, no sequence."""
        return not isinstance(self.value, list)

    def is_tensor_sequence(self) -> bool:
        """Return whether it is a sequence."""
        return isinstance(self.value, list)

    def is_sparse_tensor(self) -> bool:
        """Return False: calor has no sparse tensors."""
        return False

    def as_sparse_tensor(self) -> Any:
        """Raise NotImplemented: calor has no sparse tensors."""
        raise refused("as_sparse_tensor", SPARSE)

    @staticmethod
    def ort_value_from_sparse_tensor(sparse_tensor: Any) -> OrtValue:
        """Raise NotImplemented: calor has no sparse tensors."""
        raise refused("ort_value_from_sparse_tensor", SPARSE)

    def tensor_size_in_bytes(self) -> int:
        """Return how many bytes the elements take."""
        count = 1
        for size in self.shape():
            count *= size
        return count * int(dtype_of(self.value).itemsize)

    def update_inplace(self, array: Any) -> None:
        """Give the value other elements; runs that come see these."""
        device = self.value.device if isinstance(self.value, Tensor) else None
        host = np.asarray(array)
        self.value = host if device is None else upload(host, device)


def copy_tensors(src: Sequence[OrtValue], dst: Sequence[OrtValue], stream: Any = None) -> None:
    """Give values the elements of others, of the same types and shapes; each stays where it is.

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
                f"{other.shape()}"
            )
    for one, other in zip(src, dst, strict=True):
        other.update_inplace(one.numpy())


def host_of(value: Any) -> Any:
    """Return a value as NumPy has it, an array that a caller may write into; of a sequence a list.

    ONNX Runtime's outputs are their caller's. Here one may be memory of a device or of the model.
    """
    if isinstance(value, list):
        return [host_of(item) for item in value]
    if value is None or isinstance(value, dict):
        return value
    found = to_host(value)
    return found.copy() if found is value or not found.flags.writeable else found
