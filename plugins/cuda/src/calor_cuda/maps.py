"""Tensor maps (TMA descriptors), which the host encodes for a launch.

Requirements: a tensor map contains an address, so it is encoded again for another buffer, and
cached for programs that alternate between a few buffers. It is an argument of the launch and stored
with the arguments, so graphs treat it like them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from calor.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from calor_kernel.ir.nodes import Kernel

from .bindings import failure

NBYTES: Final = 128
_TYPES: Final = {
    int8: "UINT8",
    uint8: "UINT8",
    uint16: "UINT16",
    uint32: "UINT32",
    int32: "INT32",
    uint64: "UINT64",
    int64: "INT64",
    float16: "FLOAT16",
    bfloat16: "BFLOAT16",
    float32: "FLOAT32",
    float64: "FLOAT64",
}
# The copy engine rounds to the bits of TF32.
_ROUNDED: Final = {float32: "TFLOAT32"}
_SWIZZLES: Final = {0: "NONE", 1: "32B", 2: "64B", 3: "128B"}
# Number of cached tensor maps: a program's launches times its sets of buffers.
_KEPT: Final = 4096


@dataclass(frozen=True, slots=True)
class Tensor:
    """The contents of a tensor map except the address; the first axis is the fastest."""

    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    rounded: bool


def tensors(kernel: Kernel, arguments: Sequence[Any]) -> list[tuple[int, Tensor]]:
    """Return for each map the index of its buffer among the arguments, and its tensor.

    The kernel's attribute "maps" names the sizes and strides that are arguments; strides of axes
    beyond the first are in bytes here.
    """
    places = {p.name: i for i, p in enumerate(kernel.parameters)}
    found = []
    for name, sizes, strides, box, swizzle, rounded in kernel.attributes.get("maps", ()):

        def number(given: int | str) -> int:
            return given if isinstance(given, int) else int(arguments[places[given]])

        dtype = kernel.parameters[places[name]].declared.dtype
        steps = tuple(number(s) * dtype.itemsize for s in strides[-2::-1])
        bits = swizzle[0] if swizzle else 0
        tensor = Tensor(dtype, tuple(map(number, sizes[::-1])), steps, box[::-1], bits, rounded)
        found.append((places[name], tensor))
    return found


@lru_cache(_KEPT)
def encoded(address: int, tensor: Tensor) -> bytes:
    """Return the tensor map for an address.

    Raises
    ------
    DeviceError
        If the driver refuses it.
    """
    from cuda.bindings import driver

    kinds = _ROUNDED if tensor.rounded else _TYPES
    whole, half, kind = driver.cuuint64_t, driver.cuuint32_t, kinds[tensor.dtype]
    code, made = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"),
        len(tensor.sizes),
        address,
        [whole(n) for n in tensor.sizes],
        [whole(n) for n in tensor.strides],
        [half(n) for n in tensor.box],
        [half(1)] * len(tensor.sizes),
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{_SWIZZLES[tensor.swizzle]}"),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(code):
        raise failure(int(code), f"describing {tensor} at {address:#x}")
    return ctypes.string_at(made.getPtr(), NBYTES)
