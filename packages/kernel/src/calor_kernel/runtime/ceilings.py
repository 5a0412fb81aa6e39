"""A device's measured peak rates: bytes moved and operations per second.

Requirements: estimates and profiles are relative to a measurement on this device. It takes a tenth
of a second on first use, and is cached.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from calor.dtypes import float32
from calor.errors import CalorError
from calor_kernel import language as kl
from calor_kernel.contract.cost import Ceilings, ceilings_of
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Input, Launch, Output
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.device.storage import Lines
from calor_kernel.library.copying import copy_dense
from calor_kernel.planning.engine import Engine

_BYTES: Final = 64 << 20
_SAMPLES: Final = 4
_CHAINS: Final = 16
_TURNS: Final = 1 << 14


@kl.kernel
def multiply_add(y: kl.Out, turns: kl.Size, *, width: int, chains: int) -> None:
    """Run independent chains of multiply-adds, and write the sums."""
    sums = kl.registers(chains, float32, width)
    a, b = kl.splat(0.999, width), kl.splat(0.001, width)
    for _ in kl.loop_range(turns):
        for i in range(chains):
            sums[i] = kl.fma(sums[i], a, b)
    total = sums[0]
    for i in range(1, chains):
        total = total + sums[i]
    y.store(kl.absolute_position() * width, total)


def measured(engine: Engine, lines: Lines) -> Ceilings:
    """Return the ceilings of a device: its own, stored, or measured ones."""
    info = engine.device.info
    if isinstance(info.native.get("ceilings"), Ceilings):
        return ceilings_of(info)
    stored = lines.get("ceilings")
    if stored is not None:
        return Ceilings(*stored)
    width, units = max(info.vector_bytes // 4, 1), min(info.max_units, 256)
    try:
        found = Ceilings(_bandwidth(engine, width, units), _flops(engine, width, units))
    except CalorError:
        return ceilings_of(info)  # A device that cannot run these is estimated.
    lines.put("ceilings", [found.bandwidth, found.flops, found.launch])
    return found


def _best(engine: Engine, launched: Launch, *room: int) -> float:
    """Return the shortest seconds of a launch on memory of some bytes, a buffer each."""
    (function,) = engine.kernels.load([launched.build])
    slots = map(Slot, count())
    arguments = tuple(a if isinstance(a, int) else next(slots) for a in launched.arguments)
    step = Step(function, launched.cubes, arguments, launched.flops, launched.nbytes)
    pieces = [engine.pool.raw(n) for n in room]
    handles = [handle for handle, _ in pieces]
    queue = engine.device.queue
    try:
        recorded = queue.record([step], len(handles))
        queue.run(recorded, handles)
        return min(queue.seconds(recorded, handles)[0] for _ in range(_SAMPLES))
    finally:
        for piece in pieces:
            engine.pool.give(*piece, 0)


def _bandwidth(engine: Engine, width: int, units: int) -> float:
    chunk = units * width * (4 if units > 1 else 1024)
    number = _BYTES // 4
    made = launch(
        copy_dense,
        Grid.line(-(-number // chunk), units),
        Effort("", 0, 2 * _BYTES),
        source=Bound(Input(0), float32),
        target=Bound(Output(), float32),
        count=number,
        chunk=chunk,
        width=width,
        fill=False,
    )
    return 2 * _BYTES / _best(engine, made, _BYTES, _BYTES)


def _flops(engine: Engine, width: int, units: int) -> float:
    cubes = engine.device.info.cores * (8 if units > 1 else 1)
    flops = 2 * cubes * units * width * _CHAINS * _TURNS
    made = launch(
        multiply_add,
        Grid.line(cubes, units),
        Effort("", flops),
        y=Bound(Output(), float32),
        turns=_TURNS,
        width=width,
        chains=_CHAINS,
    )
    return flops / _best(engine, made, cubes * units * width * 4)
