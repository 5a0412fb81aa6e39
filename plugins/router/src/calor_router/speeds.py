"""What a device's work costs, measured on it: calls, operations, bytes, products, transfers.

Requirements: one model serves devices that nobody here has seen, so it is made of a few figures
that any device can be asked for by running graphs on it. The figures are marginal ones: a device
that fuses pays little for one more operation of a chain, and one that runs op by op the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
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
from calor.specs import Spec, spec
from calor_router.figures import kept

_SMALL: Final = spec((16,), float32)
# More than the caches of most processors hold, and little to measure.
_LARGE: Final = spec((1 << 20,), float32)
_SQUARE: Final = 256
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


def speeds_of(device: Device) -> Speeds:
    """Return the speeds of a device, measured once on a machine.

    Parameters
    ----------
    device : Device
        The device.

    Returns
    -------
    Speeds
        The figures; those of a slow processor if the device cannot run float32.
    """
    return Speeds(*kept(("speeds", _name(device)), lambda: _speeds(device)))


def transfer(source: Device, target: Device) -> tuple[float, float]:
    """Return the seconds of a transfer between devices, measured once on a machine.

    Parameters
    ----------
    source : Device
        The device that has the value.
    target : Device
        The device that receives it.

    Returns
    -------
    tuple of float
        The seconds to begin, and those for each byte.
    """
    names = "transfer", _name(source), _name(target)
    start, byte = kept(names, lambda: _transfer(source, target))
    return start, byte


def measure(devices: Sequence[Device]) -> None:
    """Measure the speeds of devices and of the transfers between them, as far as not known.

    Parameters
    ----------
    devices : sequence of Device
        The devices.
    """
    if len(devices) < 2:
        return
    for device in devices:
        speeds_of(device)
        for other in devices:
            if other is not device:
                transfer(device, other)


def _name(device: Device) -> str:
    return f"{device.name} {device.info.description}"


def _speeds(device: Device) -> tuple[float, ...]:
    try:
        return astuple(_measured(device))
    except CalorError:
        return astuple(_UNKNOWN)


def _transfer(source: Device, target: Device) -> tuple[float, ...]:
    small, large = (_moved(source, target, known) for known in (_SMALL, _LARGE))
    return small, max(large - small, 0.0) / _LARGE.nbytes


def _measured(device: Device) -> Speeds:
    one, chain = (_timed(device, _chain(_SMALL, n), _SMALL) for n in (1, _CHAIN))
    longer = [_timed(device, _chain(_LARGE, n), _LARGE) for n in (1, _CHAIN)]
    square = spec((_SQUARE, _SQUARE), float32)
    product = _timed(device, _product(square), square)
    node = max(chain - one, 0.0) / (_CHAIN - 1)
    byte = max(longer[1] - longer[0], longer[0] / _CHAIN) / (_CHAIN - 1) / (2 * _LARGE.nbytes)
    flop = max(product - one, product / 4) / (2 * _SQUARE**3)
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


def _least(once: Callable[[], None]) -> float:
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
