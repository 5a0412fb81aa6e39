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
        "fma": "a fused multiply-add in one instruction",
        "gather": "loads by a vector of indices in one instruction",
        "compress": "compaction of a vector's selected lanes in one instruction",
        "masked_access": "loads and stores of a vector's selected lanes as fast as of all",
        "dot_8": "products of 8-bit integers summed in 32 bits, four a lane",
        "dot_bfloat16": "products of bfloat16 summed in float32, two a lane",
        "tile_8": "products of tiles of 8-bit integers in memory, summed in 32 bits",
        "tile_bfloat16": "products of tiles of bfloat16 in memory, summed in float32",
        "async_copy": "asynchronous copies to shared memory",
        "tensor_copy": "box copies by a descriptor, counted by barriers in memory",
        "mbarrier": "barriers in shared memory that count arrivals and bytes",
        "clusters": "cubes that run together and can access each other's shared memory",
        "matrix": "matrix instructions on fragments",
        "load_matrix": "collective loads of 8 x 8 blocks of 16-bit elements by a plane",
        "async_matrix": "asynchronous matrix instructions on shared memory",
        "pointers": "memory chosen among a launch's buffers by a number",
        "overlap": "launches that start while the launch before them ends, and then wait for it",
        "early_exit": "units that end are not waited for at the barriers of their cube",
        "forward_progress": "a running cube makes progress while others spin",
        "together": "launches whose cubes, one for each core at most, all run at the same time",
        "repeats": "recorded launches that repeat with other addresses",
        "print": "prints from kernels",
        "fork": "works in a forked child process after a restart",
        "links": "exchanges memory directly with other devices of its kind",
    }
)
