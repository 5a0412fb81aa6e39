"""DeviceInfo: the description of a device by which kernels and their variants are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from calor.dtypes import DType
from calor_kernel.language.features import FEATURES


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device is, as far as kernels and their choice depend on it.

    ``dtypes``: the element types that it computes with (others are stored, and converted).
    ``vector_bytes``: the widest vector that is one access or one instruction. ``max_units``: units
    in a cube at most; 1 for a device whose units do not meet. ``planes``: the possible numbers of
    units in lock step, of kernels that are built for that. ``accumulators``: the float32 sums that
    a unit keeps in registers, where a compiler keeps another number than its planes let expect; 0
    where not. ``cores``: the cubes that run at the same time. ``caches``: bytes per level, the
    nearest first, as far as a core has them alone. ``max_cubes``: cubes of a launch per axis.
    ``flushes``: arithmetic may take float32 numbers below the smallest normal one for zeros.
    ``matrices``: matrix instructions by their names in :mod:`calor_kernel.language.matrices`, of
    those that are chosen by name.
    """

    description: str
    dtypes: frozenset[DType]
    features: frozenset[str] = frozenset()
    vector_bytes: int = 16
    max_units: int = 1
    max_cube: tuple[int, int, int] = (1, 1, 1)
    planes: tuple[int, ...] = (1,)
    accumulators: int = 0
    shared_bytes: int = 0
    cores: int = 1
    caches: tuple[int, ...] = ()
    max_cubes: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    memory_bytes: int = 0
    max_buffer_bytes: int = 2**63 - 1
    align: int = 64
    flushes: bool = False
    matrices: frozenset[str] = frozenset()
    native: Mapping[str, Any] = field(default_factory=dict)

    def has(self, feature: str) -> bool:
        """Return whether the device has a feature of FEATURES; KeyError for a name that is none."""
        if feature not in FEATURES:
            raise KeyError(f"{feature!r} is no feature; there are {', '.join(FEATURES)}")
        return feature in self.features
