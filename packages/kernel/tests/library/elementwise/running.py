"""Running one op's launches on arrays: on lanes of both shapes, and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.ops.base import table
from calor.specs import Spec, spec
from calor_interpreter.device import MANY_UNITS, ONE_UNIT
from calor_interpreter.launch import run_on_lanes
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import Input, Output, View, Work
from calor_kernel.library.elementwise import Expression, lower_expression
from calor_kernel.library.elementwise.values import stored

Array = np.ndarray[Any, Any]
Run = Callable[[Any, tuple[int, int, int], list[Any]], None]


def _on_lanes(kernel: Any, cubes: tuple[int, int, int], arguments: list[Any]) -> None:
    run_on_lanes(kernel, cubes, arguments, checks=True)


def _on_cpu(kernel: Any, cubes: tuple[int, int, int], arguments: list[Any]) -> None:
    from calor_cpu.testing import run

    run(kernel, cubes, arguments)


MACHINES: Final[dict[str, tuple[DeviceInfo, Run]]] = {
    "one-unit": (ONE_UNIT, _on_lanes),
    "many-units": (MANY_UNITS, _on_lanes),
}
if find_spec("calor_cpu") is not None:
    MACHINES["cpu"] = (ONE_UNIT, _on_cpu)
FASTEST: Final = list(MACHINES)[-1]


def view_of(array: Array, base: Array) -> View:
    """Return how an array lies in the memory of another."""
    size = array.itemsize
    offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // size
    strides = tuple(s // size for s in array.strides)
    return View(array.shape, strides, as_dtype(array.dtype), offset)


def base_of(array: Array) -> Array:
    """Return the array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def memory_of(array: Array) -> Array:
    """Return a copy of the memory under an array, flat, in the type that kernels see."""
    base = base_of(array)
    made = aligned(base.nbytes)
    made[:] = np.ascontiguousarray(base).reshape(-1).view(np.uint8)
    return made.view(stored(as_dtype(base.dtype)).numpy)


def aligned(nbytes: int) -> Array:
    """Return memory of bytes as a device allocates it."""
    raw = np.full(nbytes + 64, 0xFF, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


def run_expression(
    expression: Expression, arrays: Sequence[Array], machine: str = FASTEST
) -> list[Array]:
    """Return the results of an expression on arrays of one shape, which may be any views."""
    info, run = MACHINES[machine]
    shape = arrays[0].shape
    outputs = [spec(shape, t) for t in expression.outputs]
    views = [view_of(a, base_of(a)) for a in arrays]
    memories = [memory_of(a) for a in arrays]
    (work, *_) = lower_expression(expression, views, outputs, info)
    return execute(work, memories, outputs, run)


def execute(
    work: Work, memories: Sequence[Array], outputs: Sequence[Spec], run: Run
) -> list[Array]:
    """Return what the launches of a work make."""
    made = [aligned(s.nbytes).view(stored(s.dtype).numpy) for s in outputs]
    for launch in work.launches:
        arguments = []
        for given in launch.arguments:
            if isinstance(given, Input):
                arguments.append((memories[given.number], given.offset))
            elif isinstance(given, Output):
                arguments.append((made[given.number], given.offset))
            else:
                arguments.append(given)
        run(launch.build.kernel(), launch.cubes, arguments)
    return [m.view(s.dtype.numpy).reshape(s.shape) for m, s in zip(made, outputs, strict=True)]


def run_op(
    op: str,
    arrays: Sequence[Array],
    machine: str = FASTEST,
    attributes: Mapping[str, Any] | None = None,
) -> tuple[Array, Array]:
    """Return what a machine makes of an op, and what its row's reference makes of it."""
    attributes = attributes or {}
    specs = [spec(a.shape, as_dtype(a.dtype)) for a in arrays]
    row = table()[op]
    result = row.rule(*specs, **attributes)
    dtypes: list[DType] = [s.dtype for s in specs]
    expression = Expression.of(op, dtypes, result.dtype, attributes)
    (made,) = run_expression(expression, arrays, machine)
    with np.errstate(all="ignore"):
        wanted = row.reference(*arrays, **attributes) if row.reference is not None else made
    return made, np.asarray(wanted)
