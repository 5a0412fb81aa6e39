"""The launches of a step beside the ceilings of its device, or of a device that is described."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness import report
from programs.ours import Ours

# Ops that matrix units compute, if a device has them.
_PRODUCTS = ("dot", "matmul", "linear", "conv", "attention", "recurrence")
# Ops that choose elements and places, and compute nothing.
_QUIET = frozenset(
    ["reshape", "expand", "permute", "slice", "full", "constant", "iota", "stop_gradient"]
)
# A product that fills a device, and one that fills a processor.
_LARGE, _FEW = 8192, 1024
# Runs of a step in which each launch is timed: few, or those of half a second up to a maximum.
_RUNS, _MOST_RUNS, _SECONDS = 3, 50, 0.5
# Runs of the launches that multiply, and add one to numbers.
_STARTS = 10
# Numbers that are larger than all caches: of a processor, and of a device with its own memory.
_PROCESSOR_COUNT, _DEVICE_COUNT = 1 << 24, 1 << 26
# The least numbers by which a rate is measured: below, a launch is mostly its start.
_LEAST_COUNT = 1 << 14


@dataclass(frozen=True)
class Ceilings:
    """Bytes and operations per second; ``products``: of the matrix units in the step's dtype.

    ``start``: the seconds of a launch that does next to nothing.
    """

    nbytes: float
    flops: float
    products: float
    start: float = 0.0

    def least(self, names: str, nbytes: int, flops: int) -> float:
        """Return the least seconds of a launch; one without a task starts and ends all the same."""
        product = any(word in names for word in _PRODUCTS)
        computing = flops / (self.products if product else self.flops)
        return self.start + max(nbytes / self.nbytes, computing)

    def __str__(self) -> str:
        return (
            f"ceilings: {self.nbytes / 1e9:.3g} GB/s, {self.flops / 1e9:.4g} GFLOP/s, "
            f"products {self.products / 1e9:.4g} GFLOP/s, a start {report.seconds(self.start)}"
        )


# The described devices that are an H200 by some driver.
ON_H200 = ("cuda", "opencl", "wgpu")
# Measured on an H200 by copies, and by products of 8192 in the dtype.
_PEAKS = {"float32": 49.7e12, "tf32": 380e12, "bfloat16": 739e12}
H200 = {dtype: Ceilings(4.3e12, 50e12, peak) for dtype, peak in _PEAKS.items()}


@dataclass(frozen=True)
class Row:
    """A launch: the ops that its task computes, and seconds taken, None where nothing runs."""

    op: str
    label: str
    covers: tuple[str, ...]
    results: tuple[str, ...]
    seconds: float | None
    least: float
    nbytes: int
    flops: int
    cubes: tuple[int, int, int]

    @property
    def counted(self) -> float:
        """The seconds by which launches are ordered."""
        return self.least if self.seconds is None else self.seconds


def of_step(step: Ours, ceilings: Ceilings, described: bool = False) -> list[Row]:
    """Return the launches of one step, after steps that plan it."""
    import calor
    import calor_kernel

    step.run()
    step.run(2)
    step.wait()
    taken: list[list[Any]] = []
    for number in range(_MOST_RUNS):
        if number == 1 and described:
            break
        if number >= _RUNS and number * sum(one.seconds for one in taken[0]) > _SECONDS:
            break
        with calor.device(step.device), calor_kernel.profile(step.device) as profile:
            step.run()
        if taken and len(profile.events) != len(taken[0]):
            taken.clear()
        taken.append(profile.events)
    rows = []
    for events in zip(*taken, strict=True):
        event = events[0]
        names = " ".join((event.op, event.blueprint, *event.covers)).lower()
        least = ceilings.least(names, int(event.nbytes), int(event.flops))
        rows.append(
            Row(
                event.op,
                event.blueprint,
                event.covers,
                event.results,
                None if described else min(one.seconds for one in events),
                least,
                int(event.nbytes),
                int(event.flops),
                event.cubes,
            )
        )
    return rows


def ceilings_of(step: Ours) -> Ceilings:
    """Return a device's ceilings; that of matrix units is the rate of a large product by calor.

    A device's memory moves bytes at the rate of what is larger than its caches. A processor's
    caches hold a small step as a whole, so its rate is that of as many bytes as the step keeps.
    """
    import calor
    import calor_kernel
    from calor_kernel.runtime.backend import engine_of

    engine = engine_of(step.device, "it has no ceilings")
    known = engine.ceilings
    side = _FEW if engine.host_memory else _LARGE
    dtype = calor.bfloat16 if step.setting.dtype == "bfloat16" else calor.float32
    count = _DEVICE_COUNT
    if engine.host_memory:
        count = min(max(_footprint(step) // 8, _LEAST_COUNT), _PROCESSOR_COUNT)
    with calor.device(step.device), step.precision(), calor.no_grad():
        # Equal elements take less power than those of a model, and are multiplied faster.
        drawn = np.random.default_rng(0).standard_normal((side, side), np.float32)
        x = calor.asarray(drawn).astype(dtype)
        times = []
        calor.eval(x @ x)
        with calor_kernel.profile(step.device) as profile:
            for _ in range(_STARTS):
                before = profile.seconds
                calor.eval(x @ x)
                times.append(profile.seconds - before)
        start, moving = (_sum_seconds(step, n) for n in (1, count))
    bandwidth = max(known.bandwidth, 8 * count / max(moving - start, 0.1 * moving))
    return Ceilings(bandwidth, known.flops, 2 * side**3 / min(times), start)


def _footprint(step: Ours) -> int:
    """Return the bytes that a step keeps, once it is planned."""
    step.run()
    step.run(2)
    return step.peak_bytes() or 0


def _sum_seconds(step: Ours, count: int) -> float:
    """Return the least seconds in which one is added to some numbers."""
    import calor
    import calor_kernel

    x, times = calor.ones(count, dtype=calor.float32), list[float]()
    calor.eval(x + 1)
    with calor_kernel.profile(step.device) as profile:
        for _ in range(_STARTS):
            before = profile.seconds
            calor.eval(x + 1)
            times.append(profile.seconds - before)
    return min(times)


def described_ceilings(step: Ours) -> Ceilings:
    """Return the ceilings of a described device: an H200's, or an assumption from its cores."""
    from calor_kernel.contract.cost import ceilings_of as assumed
    from calor_kernel.runtime.backend import engine_of

    if step.device in ON_H200:
        return H200[step.setting.dtype]
    known = assumed(engine_of(step.device, "it has no ceilings").device.info)
    return Ceilings(known.bandwidth, known.flops, known.flops)


def heads(rows: Sequence[Row]) -> str:
    """Return the line that says how many launches there are, and how long they take."""
    least = sum(row.least for row in rows)
    taken = sum(row.counted for row in rows)
    if any(row.seconds is None for row in rows):
        return f"{len(rows)} launches, {report.seconds(least)} at the ceilings"
    share = f"{least / taken:.0%} of the ceilings" if taken else ""
    return f"{len(rows)} launches, {report.seconds(taken)}, {share}"


def table(rows: Sequence[Row], most: int | None = None) -> Iterator[str]:
    """Yield the launches grouped by op and label, the longest first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.label), []).append(row)
    whole = sum(row.counted for row in rows) or 1e-30
    ordered = sorted(groups.items(), key=lambda item: -sum(row.counted for row in item[1]))
    yield f"launches {'time':>8} {'share':>6} {'ceiling':>8} {'of it':>6}  op, kernel: covers"
    for (op, label), found in ordered[:most]:
        least, taken = sum(r.least for r in found), sum(r.counted for r in found)
        measured = found[0].seconds is not None
        cells = (
            f"{len(found):>8}",
            f"{report.seconds(taken) if measured else '-':>8}",
            f"{taken / whole:>6.1%}",
            f"{report.seconds(least or None):>8}",
            f"{least / taken:>6.0%}" if measured and taken else f"{'-':>6}",
        )
        yield f"{' '.join(cells)}  {op}, {label}: {covered(found)}"


def covered(rows: Sequence[Row], most: int = 3) -> str:
    """Return what some launches compute: the most frequent chains of ops."""
    chains: dict[str, int] = {}
    for row in rows:
        text = shortened(row.covers)
        chains[text] = chains.get(text, 0) + 1
    ordered = sorted(chains.items(), key=lambda item: -item[1])
    shown = [f"{count} x {text}" for text, count in ordered[:most] if text]
    return "; ".join([*shown, *(["..."] if len(ordered) > most else [])])


def shortened(names: Sequence[str], most: int = 12) -> str:
    """Return names of ops with repetitions counted, the first of many."""
    parts: list[list[Any]] = []
    for name in [n for n in names if n not in _QUIET] or names:
        if parts and parts[-1][0] == name:
            parts[-1][1] += 1
        else:
            parts.append([name, 1])
    texts = [name if count == 1 else f"{name}*{count}" for name, count in parts]
    return " ".join([*texts[:most], *([f"(+{len(texts) - most})"] if len(texts) > most else [])])


def sequence(rows: Sequence[Row]) -> Iterator[str]:
    """Yield every launch in order."""
    yield f"{'number':>6} {'time':>8} {'ceiling':>8}  kernel | results | covers"
    for number, row in enumerate(rows):
        taken = report.seconds(row.seconds)
        results = ", ".join(text.replace(", ", ",") for text in row.results[:3])
        more = f" (+{len(row.results) - 3})" if len(row.results) > 3 else ""
        ops = shortened(row.covers, 20) or row.op
        least = report.seconds(row.least or None)
        yield f"{number:>6} {taken:>8} {least:>8}  {row.label} | {results}{more} | {ops}"


def far_below(rows: Sequence[Row], fraction: float, share: float = 0.02) -> list[dict[str, Any]]:
    """Return the launches far from their ceilings, those of one kernel and problem as one.

    Only what takes a ``share`` of the step's time or more is told, if its least time is less than a
    ``fraction`` of the time taken.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = row.op, row.label, row.results, row.nbytes, row.flops
        groups.setdefault(key, []).append(row)
    whole = sum(row.counted for row in rows) or 1e-30
    found: list[dict[str, Any]] = [
        {
            "op": some[0].op,
            "kernel": some[0].label,
            "results": list(some[0].results),
            "covers": covered(some, 1),
            "launches": len(some),
            "seconds": taken / len(some),
            "share": taken / whole,
            "of_ceiling": some[0].least / (taken / len(some)),
            "bytes": some[0].nbytes,
            "flops": some[0].flops,
            "cubes": list(some[0].cubes),
        }
        for some in groups.values()
        if (taken := sum(row.counted for row in some))
    ]
    low = [one for one in found if one["share"] >= share and one["of_ceiling"] < fraction]
    return sorted(low, key=lambda one: -one["share"])


def told(low: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each of the launches far from their ceilings."""
    for one in low:
        yield (
            f"{one['share']:>6.1%} {one['of_ceiling']:>5.0%}  {one['launches']} x "
            f"{report.seconds(one['seconds'])}  {one['op']}, {one['kernel']} {one['cubes']}: "
            f"{', '.join(one['results'][:2])}; {one['covers']}"
        )


def grouped(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the kernels of a step as plain data, in the order of the table."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.label), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -sum(row.counted for row in item[1]))
    return [
        {
            "op": op,
            "kernel": label,
            "launches": len(found),
            "seconds": None if found[0].seconds is None else sum(r.counted for r in found),
            "least_s": sum(r.least for r in found),
            "bytes": sum(r.nbytes for r in found),
            "flops": sum(r.flops for r in found),
        }
        for (op, label), found in ordered
    ]
