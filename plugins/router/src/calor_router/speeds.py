"""What a device's work costs, measured on it: calls, operations, bytes, products, transfers.

Requirements: one model serves devices that nobody here has seen, so it is made of a few figures
that any device can be asked for by running graphs on it. The figures are marginal ones: a device
that fuses pays little for one more operation of a chain, and one that runs op by op the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from math import isqrt
from time import perf_counter
from typing import Any, Final

import numpy as np

from calor.backends.device import Device
from calor.compiling.partition import compile_graph
from calor.compiling.partitioned import move
from calor.dtypes import float32
from calor.errors import CalorError
from calor.graph.graph import Builder, Graph
from calor.ops import contraction
from calor.ops import elementwise as e
from calor.plugins.discovery import get_device
from calor.specs import Spec, spec
from calor_router.figures import kept

_SMALL: Final = spec((16,), float32)
# More than the caches of most processors hold, and little to measure.
_LARGE: Final = 1 << 20
_SQUARE: Final = 256
_WORK: Final = 512
_CHAIN: Final = 9
_SAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Speeds:
    """The seconds that a device takes.

    Parameters
    ----------
    call : float
        For a call of a compiled graph.
    node : float
        For one more operation in it.
    byte : float
        For one more byte that an operation reads or writes.
    flop : float
        For one more arithmetic operation of a product.
    """

    call: float
    node: float
    byte: float
    flop: float


# What is assumed of a device that cannot run the graphs which are timed: a slow processor.
_UNKNOWN: Final = Speeds(20e-6, 2e-6, 0.2e-9, 0.1e-9)


def speeds_of(device: Device, length: int = 0) -> Speeds:
    """Return the speeds of a device, measured once on a machine.

    Parameters
    ----------
    device : Device
        The device.
    length : int, optional
        The elements of the vectors on which it is measured at least. By default figures of any are
        taken.

    Returns
    -------
    Speeds
        The figures; those of a slow processor if the device cannot run float32.
    """
    room = length or _LARGE
    names = "speeds", name_of(device)
    return Speeds(*kept(names, lambda: _speeds(device, room), least=length, room=room))


def transfer(source: Device, target: Device, length: int = 0) -> tuple[float, float]:
    """Return the seconds of a transfer between devices, measured once on a machine.

    Parameters
    ----------
    source : Device
        The device that has the value.
    target : Device
        The device that receives it.
    length : int, optional
        The elements of the vectors on which it is measured at least. By default figures of any are
        taken.

    Returns
    -------
    tuple of float
        The seconds to begin, and those for each byte.
    """
    names = "transfer", name_of(source), name_of(target)
    room = length or _LARGE
    start, byte = kept(names, lambda: _transfer(source, target, room), least=length, room=room)
    return start, byte


def returns_at_once(device: Device, length: int = 0) -> bool:
    """Tell whether calls of a device return before their work is done, measured once.

    Parameters
    ----------
    device : Device
        The device.
    length : int, optional
        The elements of the vectors on which it is measured at least. By default figures of any are
        taken.

    Returns
    -------
    bool
        True if a call takes less than half of the time until its result is there.
    """
    room = length or _LARGE
    names, size = ("returns", name_of(device)), min(_WORK, isqrt(room))
    return bool(kept(names, lambda: (float(_early(device, size)),), least=length, room=room)[0])


def measure(devices: Sequence[Device], limits: Sequence[int | None]) -> None:
    """Measure the speeds of devices and of the transfers between them, as far as not known.

    Parameters
    ----------
    devices : sequence of Device
        The devices.
    limits : sequence of int or None
        The most bytes in use on each; the host streams values to those with a limit.
    """
    if len(devices) < 2:
        return
    host = get_device("numpy")
    for device, limit in zip(devices, limits, strict=True):
        speeds_of(device, _length(limit))
        returns_at_once(device, _length(limit))
        for other, least in zip(devices, limits, strict=True):
            if other is not device:
                within = min((n for n in (limit, least) if n is not None), default=None)
                transfer(device, other, _length(within))
        if limit is not None and device is not host:
            transfer(host, device, _length(limit))
            transfer(device, host, _length(limit))


def _length(within: int | None) -> int:
    """Return of how many elements a vector is of which several fit some bytes."""
    return _LARGE if within is None else max(min(_LARGE, within // 32), _SMALL.size)


def name_of(device: Device) -> str:
    """Return what tells a device from others on this machine, and from those of other versions."""
    limits = "".join(f" {name} {most}" for name, most in sorted(device.info.limits.items()))
    return f"{device.name} {device.info.description}{limits}"


def _speeds(device: Device, length: int) -> tuple[float, ...]:
    try:
        return astuple(_measured(device, length))
    except CalorError:
        return astuple(_UNKNOWN)


def _transfer(source: Device, target: Device, length: int) -> tuple[float, ...]:
    long = spec((length,), float32)
    small, large = (_moved(source, target, known) for known in (_SMALL, long))
    return small, max(large - small, 0.0) / long.nbytes


def _early(device: Device, size: int) -> bool:
    backend, index = device.backend, device.index
    try:
        executable = compile_graph(device, _product(spec((size, size), float32)))
        given = [backend.upload(index, np.full((size, size), 0.5, np.float32))]
        whole = _least(lambda: (executable(given), backend.synchronize(index)))
        issued = []
        for _ in range(_SAMPLES):
            start = perf_counter()
            made = executable(given)
            issued.append(perf_counter() - start)
            backend.synchronize(index)
            del made
    except CalorError:
        return False
    return 2 * min(issued) < whole


def _measured(device: Device, length: int) -> Speeds:
    long = spec((length,), float32)
    one, chain = (_timed(device, _chain(_SMALL, n), _SMALL) for n in (1, _CHAIN))
    longer = [_timed(device, _chain(long, n), long) for n in (1, _CHAIN)]
    side = min(_SQUARE, isqrt(length))
    square = spec((side, side), float32)
    product = _timed(device, _product(square), square)
    node = max(chain - one, 0.0) / (_CHAIN - 1)
    byte = max(longer[1] - longer[0], longer[0] / _CHAIN) / (_CHAIN - 1) / (2 * long.nbytes)
    flop = max(product - one, product / 4) / (2 * side**3)
    return Speeds(max(one - node, 0.0), node, byte, flop)


def _moved(source: Device, target: Device, known: Spec) -> float:
    try:
        given = source.backend.upload(source.index, np.ones(known.shape, known.dtype.numpy))

        def once() -> None:
            made = move(given, source, target, known)
            target.backend.synchronize(target.index)
            del made

        return _least(once)
    except CalorError:
        return 10e-6 + known.nbytes * 1e-9


def _timed(device: Device, graph: Graph, *given: Spec) -> float:
    backend, index = device.backend, device.index
    executable = compile_graph(device, graph)
    inputs = [backend.upload(index, np.full(s.shape, 0.5, s.dtype.numpy)) for s in given]

    def once() -> None:
        made = executable(inputs)
        backend.synchronize(index)
        del made

    return _least(once)


def _least(once: Callable[[], object]) -> float:
    """Return the shortest time of a few; the first run may compile."""
    once()
    times = []
    for _ in range(_SAMPLES):
        start = perf_counter()
        once()
        times.append(perf_counter() - start)
    return min(times)


def _chain(known: Spec, length: int) -> Graph:
    """Return a graph of several operations, each on the result of the one before."""
    builder = Builder()
    value = builder.input(known)
    for number in range(length):
        row = e.tanh if number % 2 else e.neg
        (value,) = builder.add(row, (value,), {}, [known])
    return builder.build([value])


def _product(known: Spec) -> Graph:
    builder = Builder()
    value = builder.input(known)
    attributes: dict[str, Any] = {
        "contract": ((1,), (0,)),
        "batch": ((), ()),
        "dtype": known.dtype,
    }
    (made,) = builder.add(contraction.dot_general, (value, value), attributes, [known])
    return builder.build([made])
