"""The optional features of devices; kernels query them by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FEATURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "barrier": "cubes of many units, with barriers and shared memory",
        "planes": "units in lock step that shuffle, reduce and vote",
        "atomics": "32-bit integer atomics in global and shared memory",
        "atomics_64": "64-bit integer atomics",
        "float_atomics": "atomic add of float32",
        "fma": "a fused multiply-add that is one instruction",
        "gather": "loads by a vector of indices that are one instruction",
        "compress": "moving the chosen lanes of a vector together in one instruction",
        "dot_8": "products of 8-bit integers summed in 32 bits, four a lane",
        "dot_bfloat16": "products of bfloat16 summed in float32, two a lane",
        "async_copy": "copies to shared memory that run beside the computation",
        "tensor_copy": "copies of boxes by a descriptor, which barriers in memory count",
        "mbarrier": "barriers in shared memory that count arrivals and bytes",
        "clusters": "cubes that run together and reach each other's shared memory",
        "matrix": "matrix instructions on fragments",
        "load_matrix": "loads of 8 x 8 blocks of 16-bit elements by the lanes of a plane together",
        "async_matrix": "matrix instructions that run beside the units, on shared memory",
        "forward_progress": "a cube that runs goes on while others spin",
        "print": "prints from kernels",
        "fork": "works on in a forked child process, once it was restarted",
        "links": "exchanges memory with other devices of its kind by means of its own",
    }
)
