"""The capabilities of a device with the kernel families: core's Info and the claimed nodes.

Requirements: nothing is declared by hand. A missing capability has a reason that users understand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calor import dtypes
from calor.backends.protocol import FULL, NOT_YET, Info, State, impossible, partial
from calor.dtypes import DType, float32, float64, uint8, uint16
from calor.ops.base import TABLE
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.movement import MOVEMENTS
from calor_kernel.contract.work import LOWERINGS
from calor_kernel.planning.compiling import STRUCTURAL
from calor_kernel.planning.control import FLOWS
from calor_kernel.planning.engine import Engine

# The dtypes for computing with a dtype that the device does not support itself.
_STANDS_FOR: Final[Mapping[DType, tuple[DType, ...]]] = {
    dtypes.float16: (float32, uint16),
    dtypes.bfloat16: (float32, uint16),
    dtypes.complex64: (float32,),
    dtypes.complex128: (float64,),
    dtypes.float8_e4m3fn: (float32, uint8),
    dtypes.float8_e5m2: (float32, uint8),
}
# Dtypes computed in float32 that have its subnormals.
_FLUSHED: Final = frozenset((float32, dtypes.bfloat16, dtypes.complex64))


def describe(engine: Engine) -> Info:
    """Return the device info for core."""
    info = engine.device.info
    host = FULL if engine.host_memory else impossible("the device has memory of its own")
    return Info(
        description=info.description,
        dtypes={d: _dtype(d, info) for d in dtypes.ALL},
        features={
            "interactive": FULL,
            "dynamic_shapes": FULL,
            "in_place": FULL,
            "control_flow": FULL,
            "host_views": host,
            "dlpack": FULL if engine.device.exchange is not None else host,
            "serialize": FULL,
            "memory_limit": FULL,
            "fork": FULL if info.has("fork") else impossible("its driver does not survive a fork"),
            "collectives": FULL if info.has("links") else impossible("it has no links to others"),
            "quantized_only": impossible("it runs graphs of every dtype that it has"),
        },
        ops={name: NOT_YET for name in TABLE if not _known(name)},
        limits={"max_buffer_bytes": info.max_buffer_bytes},
        flushes=_FLUSHED if info.flushes else frozenset(),
    )


def _dtype(dtype: DType, info: DeviceInfo) -> State:
    if dtype in _FLUSHED and info.flushes and float32 in info.dtypes:
        return partial("numbers below 1.2e-38 may be taken for zeros")
    if dtype in info.dtypes:
        return FULL
    parts = _STANDS_FOR.get(dtype)
    if parts is not None and all(d in info.dtypes for d in parts):
        return FULL
    missing = dtype if parts is None else next(d for d in parts if d not in info.dtypes)
    return impossible(f"the device does not compute with {missing.name}")


def _known(name: str) -> bool:
    done = name in STRUCTURAL or name in FLOWS or name in LOWERINGS
    return done or name in MOVEMENTS or TABLE[name].decompose is not None
