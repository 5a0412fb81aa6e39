"""Devices with one matrix instruction by name, whose planes copy by loads and stores."""

from dataclasses import replace

from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.language.matrices import SHAPES


def named_info(name: str, **more: int) -> DeviceInfo:
    """Return what a device with an instruction says of itself; simdgroups' have less memory."""
    return replace(
        MANY_UNITS,
        features=MANY_UNITS.features - {"async_copy"},
        planes=(SHAPES[name].lanes,),
        shared_bytes=(32 if name.startswith("simdgroup") else 64) << 10,
        matrices=frozenset({name}),
        **more,
    )
