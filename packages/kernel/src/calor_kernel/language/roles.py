"""Roles: work of some units of a cube (warp specialization), and requests of a launch."""

from __future__ import annotations

from typing import Literal

from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.nodes import Block
from calor_kernel.language.builder import Builder, current
from calor_kernel.language.carry import Body, Frame, Region, Undefined, Values, leaves, same, shape
from calor_kernel.language.features import FEATURES

# The planes that share a matrix instruction and a register budget.
_WARPGROUP = 4


def has(feature: str) -> bool:
    """Return whether the target device has a feature; decided at build time.

    ``feature`` is one of ``calor_kernel.language.features.FEATURES``, or "debug" for builds that
    check assertions; KeyError for another name.
    """
    if feature != "debug" and feature not in FEATURES:
        raise KeyError(f"{feature!r} is no feature; there are {', '.join(FEATURES)}, debug")
    return feature in current().features


class role(Region):
    """``with role(first, count):`` work of some of a cube's units; the others skip it.

    ``first`` and ``count`` are in warpgroups (four planes), or in planes with ``scope="plane"``.
    ``registers``: the registers per unit; a device may take them from the other units. ``apart``:
    whether its warpgroups synchronize with each other by barriers in memory. Adjacent roles run
    concurrently, and synchronize by named barriers or pipelines; a barrier of the cube inside a
    role is an error. A value assigned in a role exists only in it.
    """

    def __init__(
        self,
        first: int,
        count: int = 1,
        *,
        scope: Literal["plane", "warpgroup"] = "warpgroup",
        registers: int = 0,
        apart: bool = False,
    ) -> None:
        builder = current()
        step = builder.plane * (_WARPGROUP if scope == "warpgroup" else 1)
        self.builder = builder
        self.first, self.count = first * step, count * step
        self.registers = registers
        self.apart = apart
        units = units_of(builder)
        if first < 0 or count < 1 or self.first + self.count > units:
            raise KernelTypeError(
                f"a role of units {self.first} to {self.first + self.count - 1} "
                f"needs a cube that has them, and this one has {units}; choose a blueprint without "
                f"roles for devices of few units"
            )

    def make(self, body: Body, values: Values, names: tuple[str, ...]) -> Values:
        """Emit the region, and return the values of the names after it."""
        builder = self.builder
        frame = Frame(builder, values, names)
        with builder.inside(Block()) as block:
            end = body(*frame.set(frame.before()))
            items = frame.flat(())
        frame.restore()
        asked = {"registers": self.registers, "apart": self.apart}
        said = {"first": self.first, "count": self.count, **{k: v for k, v in asked.items() if v}}
        builder.emit("role", (), (), said, regions=[block])
        lost = Undefined("a register array that a role changes")
        pairs = zip(frame.flat(()), items, strict=True)
        frame.set([a if same(a, b) else lost for a, b in pairs], ())
        kept = []
        for a, b, name in zip(values, end, names, strict=True):
            unchanged = shape(a) == shape(b) and all(map(same, leaves(a), leaves(b)))
            kept.append(a if unchanged else Undefined(name))
        return tuple(kept)


def units_of(builder: Builder) -> int:
    """Return the number of units in a cube."""
    x, y, z = builder.cube
    return x * y * z


def arrive(name: int, count: int) -> None:
    """Arrive at a named barrier of the device without waiting.

    ``barrier(name=…, count=…)`` waits until ``count`` units have arrived or wait.
    """
    builder = current()
    if units_of(builder) > 1:
        builder.emit("arrive", (), (), {"name": name, "count": count})


def launch_attributes(
    *,
    cluster: tuple[int, int, int] | None = None,
    registers: int | None = None,
    cubes_per_core: int | None = None,
    dynamic_shared: bool | None = None,
    together: bool | None = None,
) -> None:
    """Set a launch's requests to the device, beside cubes and arguments.

    ``cluster``: cubes along x, y and z that run together and can access each other's shared memory;
    a launch consists of whole clusters. Set it before creating barriers in memory. ``registers``:
    the maximum per unit. ``cubes_per_core``: the wanted occupancy. ``dynamic_shared``: whether the
    launch, not the kernel, reserves shared memory, as devices require above a size (48 KiB on
    NVIDIA GPUs); each piece keeps its ``align``. ``together``: whether cubes wait for others
    that start later; there is one for each core at most, and a device starts all or none.
    """
    builder = current()
    given = {
        "cluster": cluster,
        "registers": registers,
        "cubes_per_core": cubes_per_core,
        "dynamic_shared": dynamic_shared,
        "together": together,
    }
    if cluster is not None and cluster != (1, 1, 1) and "clusters" not in builder.features:
        raise KernelTypeError(f"the device has no clusters, and the kernel asks for {cluster}")
    if together and "together" not in builder.features:
        raise KernelTypeError("the device does not run all cubes of a launch at the same time")
    builder.attributes.update({k: v for k, v in given.items() if v is not None})


def clustered() -> bool:
    """Return whether cubes run in clusters of several."""
    return bool(current().attributes.get("cluster", (1, 1, 1)) != (1, 1, 1))
