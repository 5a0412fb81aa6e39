"""What users ask of devices: figures, limits, waiting, times, and what a device is called.

Sizes, numbers of calls and limits are drawn; each figure is counted here of what lives.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import int64
from calor.errors import ArgumentError, DeviceError, OutOfMemoryError
from calor.plugins.discovery import registry

from ..collecting import quick_collections
from .base import Check, Place, plain_array, plain_type
from .errors import raised
from .memory import at_the_peak, in_use

CONTRACT: Final = "users are told the figures, limits and times of a device as they are"
_TURNS: Final = 6
Rng = np.random.Generator


def _array(rng: Rng, most: int = 5000) -> Any:
    return plain_array(rng.integers(-9, 9, int(rng.integers(1, most))))


def _figures(place: Place, rng: Rng) -> None:
    """Figures follow what lives, and pending work is computed before they are told."""
    device = place.plain
    held: list[Any] = []
    with quick_collections():
        before = in_use(place)
        for _ in range(int(rng.integers(2, 6))):
            x = calor.asarray(_array(rng))
            held += [x, x * 2]
        for asked in (device, device.name, str(device)):
            figures = calor.memory(asked)
            least = sum(t.nbytes for t in held)
            assert figures.in_use - before >= least, (
                f"memory({asked!r}) tells {figures.in_use - before} bytes of {least} that live"
            )
            assert figures.peak >= figures.in_use, f"{figures}"
            assert figures == device.memory, f"memory() tells {figures}, not {device.memory}"
        with calor.device(device):
            assert calor.memory().limit == device.memory.limit, "memory() of the current device"
        held.clear()
        del x
        gc.collect()
        assert calor.memory(device).in_use <= before, "memory() counts what was dropped"


def _limits(place: Place, rng: Rng) -> None:
    """A limit holds from when it is set until it is set anew, and 0 and None are limits too."""
    device = place.plain
    if device.info.feature("memory_limit").level != "full":
        return
    before = device.memory.limit
    try:
        with quick_collections():
            x = calor.asarray(_array(rng, 100))
            used, spare = in_use(place), int(rng.integers(20_000, 60_000))
            calor.set_memory_limit(used + spare, device if rng.random() < 0.5 else device.name)
            assert calor.memory(device).limit == used + spare, f"{calor.memory(device)}"
            many = spare // plain_type().itemsize
            for count, fits in ((many // 3, True), (2 * many, False), (many // 3, True)):
                upload = partial(calor.asarray, plain_array(np.ones(count)))
                if fits:
                    assert upload().size == count, f"{count} numbers and {spare} bytes to spare"
                    continue
                refused = raised(upload)
                assert isinstance(refused, OutOfMemoryError), f"{refused!r}"
                assert "set_memory_limit" in str(refused), f"{refused}"
            calor.set_memory_limit(None, device)
            assert calor.memory(device).limit is None, "None is a limit"
            assert calor.asarray(plain_array(np.ones(2 * many))).size == 2 * many
            for bad in (-1, -(1 << 40)):
                error = raised(partial(calor.set_memory_limit, bad, device))
                assert isinstance(error, ArgumentError), f"{error!r}"
                assert str(bad) in str(error), f"{error}"
            assert x.numpy().size == x.size
    finally:
        device.backend.set_memory_limit(device.index, before)


def _peaks(place: Place, rng: Rng) -> None:
    """A peak is the most that was in use at once."""
    device = place.plain
    with quick_collections(), at_the_peak(place):
        used, peak = in_use(place), device.memory.peak
        made = [calor.asarray(_array(rng)) for _ in range(3)]
        most = calor.memory(device)
        assert most.peak >= max(peak, most.in_use), f"{most} after a peak of {peak}"
        least = sum(t.nbytes for t in made)
        made.clear()
        after = calor.memory(device)
        assert after.peak >= used + least, f"the peak {after.peak} forgets {used + least}"
        assert after.peak == most.peak, f"a peak of {most.peak} became {after.peak}"


def _waits(place: Place, rng: Rng) -> None:
    """What is pending is computed, and errors of pending work are raised, once and again."""
    x = calor.asarray(_array(rng, 50))
    pending = [x * k for k in range(4)]
    calor.synchronize(place.plain if rng.random() < 0.5 else None)
    for k, y in enumerate(pending):
        assert (y.numpy() == x.numpy() * k).all(), f"product {k} after synchronize"
    if place.plain.info.dtypes.get(int64):
        lost = calor.take(x, calor.asarray(np.array([0, x.size + 3])), axis=0)
        fine = x + 1
        error = raised(lambda: calor.synchronize(place.plain))
        assert isinstance(error, DeviceError), f"{error!r}"
        raised(lost.numpy)
        assert (fine.numpy() == x.numpy() + 1).all(), "other work is lost"
        calor.synchronize(place.plain)


def _names(place: Place, rng: Rng) -> None:
    """Devices are listed, named, compared and refused by name."""
    device = place.plain
    every = calor.devices()
    # One that a text describes, such as an address, is made when it is asked for.
    described = registry.is_scheme(device.name.partition(":")[0])
    assert described or device in every, f"{device} is not among {every}"
    names = [d.name for d in every]
    assert len(set(names)) == len(names), f"two devices of one name: {names}"
    for one in every:
        assert repr(one) == f"device({one.name!r})", repr(one)
        assert str(one) == one.name, str(one)
        assert one.name == f"{one.backend.name}:{one.index}", one.name
        assert one == one.name, f"{one} is not {one.name!r}"
        assert hash(one) == hash(one.name), f"the hash of {one}"
        assert (one == one.backend.name) is (one.index == 0), f"{one} and {one.backend.name!r}"
        assert one != "nothing:0", f"{one} is another"
    if described:
        assert calor.device(device.name) is device, f"{device} is another by its name"
        return
    count = device.backend.enumerate()
    for number in (count, count + int(rng.integers(1, 9))):
        name = f"{device.backend.name}:{number}"
        error = raised(partial(calor.zeros, 1, device=name))
        assert isinstance(error, DeviceError), f"{error!r}"
        for word in (f'no device "{name}"', f"has {count} device", "python -m calor devices"):
            assert word in str(error), f"{word!r} is not in {error}"
    error = raised(partial(calor.zeros, 1, device="nowhere"))
    assert "nowhere" in str(error), f"{error}"
    assert device.backend.name in str(error), f"{error}"


def _times(place: Place, rng: Rng) -> None:
    """A function is run as often as it is said, before and while it is timed."""
    repeat, warmup, calls = int(rng.integers(1, 6)), int(rng.integers(0, 4)), []
    x = calor.asarray(_array(rng, 50))

    def work(y: Any, *, k: int) -> Any:
        calls.append(k)
        return [y * k]

    timing = calor.timeit(work, x, k=3, repeat=repeat, warmup=warmup)
    assert calls == [3] * (repeat + warmup), f"{len(calls)} calls, not {repeat + warmup}"
    seconds = timing.seconds
    assert len(seconds) == repeat, f"{len(seconds)} times of {repeat} runs"
    assert all(s > 0 for s in seconds), f"{seconds}"
    assert timing.min == min(seconds), f"{timing.min} of {seconds}"
    assert np.isclose(timing.median, np.median(seconds), rtol=1e-12), f"{timing.median}"
    told = repr(timing)
    assert f"({repeat} run{'s' * (repeat != 1)})" in told, told
    for value, text in ((timing.median, "median"), (timing.min, "min")):
        number, unit = told.partition(f"{text} ")[2].replace(",", "").split()[:2]
        size = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
        assert abs(float(number) * size - value) <= 6e-3 * value, f"{told} of {value}"
    for bad in (0, -2):
        error = raised(partial(calor.timeit, work, x, k=1, repeat=bad))
        assert str(bad) in str(error), f"{error}"


_SUBJECTS: Final[dict[str, Callable[[Place, Rng], None]]] = {
    "figures": _figures, "limits": _limits, "peaks": _peaks, "waits": _waits, "names": _names,
    "times": _times,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    number = list(_SUBJECTS).index(name)
    with calor.device(place.plain):
        for turn in range(_TURNS):
            _SUBJECTS[name](place, np.random.default_rng([place.seed, 57, number, turn]))


def asked_memory() -> Iterator[Check]:
    """Yield a check of each thing that users ask of devices."""
    for name, run in _SUBJECTS.items():
        yield Check(
            kind="memory",
            subject=f"asked-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, run),
            looks=True,
        )
