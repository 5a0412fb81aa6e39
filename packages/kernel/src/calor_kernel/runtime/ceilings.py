"""A device's measured peak rates: bytes moved and operations per second.

Requirements: estimates and profiles are relative to a measurement on this device. It takes a tenth
of a second on first use, and is cached. The rate of memory is that of the library's own copy of
more than the caches hold, without the time that a launch takes to start and end.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from calor.dtypes import float32
from calor.errors import CalorError
from calor.specs import spec
from calor_kernel import language as kl
from calor_kernel.contract.cost import Ceilings, ceilings_of
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, Output, View
from calor_kernel.device.protocol import Slot, Step
from calor_kernel.device.storage import Lines
from calor_kernel.library.copying import dense_copy
from calor_kernel.planning.engine import Engine

# Bytes of a copy: on a processor, and on a device with memory and caches of its own.
_BYTES: Final = 64 << 20
_APART_BYTES: Final = 256 << 20
# What is stored; rates under other names were measured otherwise.
_KEY: Final = "peak rates"
_SAMPLES: Final = 4
_CHAINS: Final = 16
_TURNS: Final = 1 << 14
# A simulated device would take more seconds than this, and is timed for this share of the work.
_LONG: Final = 0.5
_SHARE: Final = 256


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
    stored = lines.get(_KEY)
    if stored is not None:
        return Ceilings(*stored)
    width, units = max(info.vector_bytes // 4, 1), min(info.max_units, 256)
    try:
        bandwidth, start = _copied(engine)
        found = Ceilings(bandwidth, _flops(engine, width, units), timed=start)
    except CalorError:
        return ceilings_of(info)  # A device that cannot run these is estimated.
    lines.put(_KEY, [found.bandwidth, found.flops, found.launch, found.timed])
    return found


def _best(engine: Engine, launched: Launch, *room: int) -> float:
    """Return the shortest seconds of a launch on memory of some bytes, a buffer each."""
    (function,) = engine.kernels.load([launched.build])
    slots = map(Slot, count())
    arguments = tuple(a if isinstance(a, int) else next(slots) for a in launched.arguments)
    step = Step(function, launched.cubes, arguments, launched.flops, launched.nbytes)
    queue, memory = engine.device.queue, engine.device.memory
    handles: list[Any] = []
    try:
        # Blocks of the pool's own would be kept, and count as a program's.
        for nbytes in room:
            handles.append(memory.alloc(nbytes))
        recorded = queue.record([step], len(handles))
        # A processor reads pages that were never written from one page, so each buffer is written.
        queue.run(recorded, handles[::-1])
        queue.run(recorded, handles)
        return min(queue.seconds(recorded, handles)[0] for _ in range(_SAMPLES))
    finally:
        for handle in handles:
            memory.free(handle)


def _copied(engine: Engine) -> tuple[float, float]:
    """Return the bytes per second of a large copy, and the seconds of one of next to nothing."""
    info = engine.device.info
    most = _BYTES if engine.host_memory else _APART_BYTES
    nbytes = min(most, info.max_buffer_bytes // info.align * info.align)
    start = _copying(engine, info.align)
    for part in (max(nbytes // _SHARE // info.align, 1) * info.align, nbytes):
        moving, moved = _copying(engine, part), part
        if moving * _SHARE > _LONG:
            break
    return 2 * moved / max(moving - start, 0.1 * moving), start


def _copying(engine: Engine, nbytes: int) -> float:
    """Return the shortest seconds of the library's copy of some bytes."""
    copied = spec((nbytes // 4,), float32)
    (made,) = dense_copy(View.dense(copied), copied, engine.device.info)
    return _best(engine, made, nbytes, nbytes)


def _flops(engine: Engine, width: int, units: int) -> float:
    cubes = engine.device.info.cores * (8 if units > 1 else 1)
    for turns in (_TURNS // _SHARE, _TURNS):
        flops = 2 * cubes * units * width * _CHAINS * turns
        made = launch(
            multiply_add,
            Grid.line(cubes, units),
            Effort("", flops),
            y=Bound(Output(), float32),
            turns=turns,
            width=width,
            chains=_CHAINS,
        )
        seconds = _best(engine, made, cubes * units * width * 4)
        if seconds * _SHARE > _LONG:
            break
    return flops / seconds
