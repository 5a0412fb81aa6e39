"""DeviceInfo: the description of a device for the choice of kernels and their variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from calor.dtypes import DType
from calor_kernel.language.features import FEATURES

# The alignment of pieces of shared memory.
_PIECE: Final = 16


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """The properties of a device that kernels and their choice depend on.

    ``dtypes``: the element types with arithmetic (others are stored, and converted).
    ``vector_bytes``: the widest vector of one access or instruction. ``max_units``: the maximum
    units per cube; 1 for a device without barriers between units. ``planes``: the possible plane
    sizes, of kernels built for planes. ``accumulators``: the float32 sums that a unit keeps in
    registers, if the compiler's limit differs from the usual one for its planes; else 0.
    ``registers``: those of a unit, as kernels estimate them, from which on the compiler was seen to
    be slow; 0 if the usual limit holds. ``shared_bytes``: the shared memory of a cube;
    ``shared_word``: the bytes that an element takes there at least;
    ``core_shared_bytes``: that of a core, which its cubes divide, if a cube may not have all of it;
    else 0. ``cores``: the cubes that run concurrently. ``caches``: bytes per level, the nearest
    first, as far as private to a core. ``max_cubes``: cubes of a launch per axis. ``align``: the
    alignment of buffers in bytes; ``part_align``: that of the parts of a buffer which a kernel may
    take for one, if it is less. ``max_seen_bytes``: the most of a buffer that a launch sees,
    None if it sees all. ``flushes``: arithmetic may flush float32 subnormals to zero.
    ``arguments``: buffers and numbers of a launch. ``choices``: buffers among which a number
    chooses one, if the device has "pointers". ``launch_ns``: the nanoseconds between launches that
    wait for each other, where they are so many that the compilation of joined kernels pays; else 0.
    ``matrices``: the named matrix instructions of :mod:`calor_kernel.language.matrices`.
    """

    description: str
    dtypes: frozenset[DType]
    features: frozenset[str] = frozenset()
    vector_bytes: int = 16
    max_units: int = 1
    max_cube: tuple[int, int, int] = (1, 1, 1)
    planes: tuple[int, ...] = (1,)
    accumulators: int = 0
    registers: int = 0
    shared_bytes: int = 0
    shared_word: int = 1
    core_shared_bytes: int = 0
    cores: int = 1
    caches: tuple[int, ...] = ()
    max_cubes: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    memory_bytes: int = 0
    max_buffer_bytes: int = 2**63 - 1
    max_seen_bytes: int | None = None
    align: int = 64
    part_align: int = 0
    flushes: bool = False
    arguments: int = 64
    choices: int = 1 << 10
    launch_ns: int = 0
    matrices: frozenset[str] = frozenset()
    native: Mapping[str, Any] = field(default_factory=dict)

    @property
    def starts(self) -> int:
        """The alignment in bytes of the start of a part of a buffer that kernels may read."""
        return self.part_align or self.align

    def shared_room(self, count: int, itemsize: int) -> int:
        """Return the bytes of shared memory of a piece of so many elements, with its alignment.

        >>> DeviceInfo("a device", frozenset(), shared_word=4).shared_room(9, 1)
        48
        """
        return -(-count * max(itemsize, self.shared_word) // _PIECE) * _PIECE

    def shared_of(self, cubes: int) -> int:
        """Return the bytes of shared memory that each of so many cubes of a core may have."""
        whole = max(self.core_shared_bytes, self.shared_bytes)
        return min(whole // cubes, self.shared_bytes)

    def has(self, feature: str) -> bool:
        """Return whether the device has a feature of FEATURES; KeyError for an unknown name."""
        if feature not in FEATURES:
            raise KeyError(f"{feature!r} is no feature; there are {', '.join(FEATURES)}")
        return feature in self.features
