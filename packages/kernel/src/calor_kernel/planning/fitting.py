"""Folds launches with more cubes along an axis than the device allows.

Requirements: families give the number of cubes along x, y and z only. A launch within the limits is
unchanged. GPUs usually allow 65,535 cubes along y and z, and practically any number along x; a
launch that fits along x and y together is folded too.
"""

from __future__ import annotations

from dataclasses import replace

from calor.errors import UnsupportedError
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Launch
from calor_kernel.ir.passes.cubes import COUNT, COUNTS


def fitted(launch: Launch, info: DeviceInfo, op: str) -> Launch:
    """Return an equivalent launch within the device's limits.

    UnsupportedError if there are more cubes than the device launches along x and y.

    >>> from calor_kernel.contract.work import Build
    >>> info = DeviceInfo("a device", frozenset(), max_cubes=(100, 4, 4))
    >>> few = Launch(Build(None, ()), (2, 3, 4), ())
    >>> fitted(few, info, "op") is few
    True
    >>> many = fitted(replace(few, cubes=(2, 3, 20)), info, "op")
    >>> many.cubes, many.arguments
    ((60, 2, 1), (2, 3, 20))
    """
    cubes, (most, down, _) = launch.cubes, info.max_cubes
    if all(count <= limit for count, limit in zip(cubes, info.max_cubes, strict=True)):
        return launch
    x, y, z = cubes
    total = x * y * z
    rows = 1 if total <= most else -(-total // most)
    if rows > down:
        raise UnsupportedError(
            f"{launch.label or op} is a launch of {cubes} cubes, and the device launches at most "
            f"{most * down}; compute it in parts along its first axis",
            op=op,
        )
    build = launch.build
    signature = (*build.signature, *(COUNT for _ in COUNTS))
    return replace(
        launch,
        build=replace(build, signature=signature, folded=True),
        cubes=(total if rows == 1 else -(-total // rows), rows, 1),
        arguments=(*launch.arguments, *cubes),
    )
