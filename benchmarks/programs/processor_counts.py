"""What a launch on a processor executes and moves, and what a model makes of it.

Requirements: many machines hide their counters, so nothing is read from hardware. Instructions are
counted by stepping through a cube of the launch on the data of the step; a model of the caches says
which bytes come from where, and llvm-mca what the ports do. The measured time lies between that of
the busiest of them and the sum of all, or there is something that the model does not know.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from harness import report
from programs import instructions as code
from programs import port_model, processor_rates
from programs.cache_model import LINE, Caches
from programs.hardware_counters import key
from programs.port_model import Block, Ports
from programs.processor_rates import Rates
from programs.stepping import SteppingError, stepped

# Room behind the last instruction's first byte.
_LAST = 16
# The kinds of instructions that are told, by parts of their names.
_KINDS = {
    "multiply-adds": ("vfmadd", "vfnmadd", "vfmsub", "tdp", "vdpbf16", "vpdp"),
    "divisions and roots": ("vdiv", "vsqrt"),
    "prefetches": ("prefetch",),
}


@dataclass(frozen=True)
class Counts:
    """A launch's instructions, the bytes that each level gives a core, and the model's seconds.

    ``kinds``: the instructions of some kinds, and what reads or writes memory. ``split``: accesses
    of two lines. ``first``, ``second``: bytes that the first cache takes from the second, and the
    second from behind it. ``blocks``: the instructions of a cube that ran equally often; ``ports``
    is None until llvm-mca has read them. ``cubes``: all of the launch's.
    """

    instructions: int
    kinds: dict[str, int]
    split: int
    first: int
    second: int
    cubes: int
    rates: Rates
    processor: str
    blocks: list[Block]
    ports: Ports | None = None

    def plain(self) -> dict[str, Any]:
        """Return the counts as data of a result file."""
        return {**asdict(self), "seconds": self.seconds()}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Counts:
        """Return the counts of a result file."""
        given = {name: value for name, value in told.items() if name != "seconds"}
        given["rates"] = Rates(**given["rates"])
        given["blocks"] = [Block(b["count"], tuple(b["lines"])) for b in given["blocks"]]
        given["ports"] = given["ports"] and Ports(**given["ports"])
        return cls(**given)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part by the model."""
        parts = {
            "L2": self.first / self.rates.second,
            "behind L2": self.second / self.rates.behind,
        }
        if self.ports is not None:
            parts["ports"] = self.cubes * self.ports.cycles / self.rates.cycles
        return parts


def seen() -> dict[int, tuple[bytes, str]]:
    """Return the object files and names of all kernels that are loaded from now on, by address."""
    from calor_cpu.queue import CpuQueue

    images: dict[int, tuple[bytes, str]] = {}
    load = CpuQueue.load

    def kept(self: Any, image: bytes, kernel: Any) -> Any:
        function = load(self, image, kernel)
        images[function.image.address] = image, function.name
        return function

    CpuQueue.load = kept  # type: ignore[method-assign]
    return images


def of_launches(
    step: Any, wanted: Sequence[Mapping[str, Any]], images: Mapping[int, tuple[bytes, str]],
    footprint: int, most: int,
) -> Iterator[tuple[Mapping[str, Any], Counts]]:  # fmt: skip
    """Yield the counts of the launches that a census of the step tells of.

    ``footprint``: the bytes that the step touches between two uses of what a launch reads.
    """
    from calor_kernel.runtime.backend import engine_of

    device = engine_of(step.device, "it has no launches").device
    toolchain: Any = device.toolchain
    info, processor = device.info, toolchain.processor.cpu
    rates = processor_rates.measured(info.caches, footprint, info.vector_bytes)
    found = _places(step, device.queue, wanted)
    for launch in wanted:
        place = found.get(key(launch))
        if place is None:
            print(f"the step has no {launch['op']}, {launch['kernel']} of {launch['results'][:1]}")
        else:
            yield launch, _counted(place, images, info.caches, rates, processor, most)


@dataclass(frozen=True)
class _Place:
    """A launch's function, its arguments, and its cubes; the plan that owns them."""

    function: int
    arguments: int
    cubes: int
    owner: Any


def _places(step: Any, queue: Any, wanted: Sequence[Mapping[str, Any]]) -> dict[Any, _Place]:
    import calor
    import calor_kernel
    from calor_cpu.pool.structures import PlanState, RecordState

    places: list[_Place] = []
    own = type(queue).seconds

    def seconds(recorded: Any, handles: Sequence[int]) -> Any:
        times = own(queue, recorded, handles)
        block = recorded._runner.block
        plan = PlanState.from_address(block.address)
        for number in range(len(times)):
            at = plan.records + ctypes.sizeof(RecordState) * number
            record = RecordState.from_address(at)
            places.append(_Place(record.function, record.args, record.cubes, recorded))
        return times

    queue.seconds = seconds
    try:
        with calor.device(step.device), calor_kernel.profile(step.device) as profile:
            step.run()
    finally:
        del queue.seconds
    if len(profile.events) != len(places):
        raise SteppingError("the step runs launches that are not in its plans")
    asked, found = {key(one) for one in wanted}, dict[Any, _Place]()
    for event, place in zip(profile.events, places, strict=True):
        whole = int(event.nbytes), int(event.flops)
        made = event.op, event.blueprint, tuple(event.results), *whole
        if made in asked:
            found.setdefault(made, place)
    return found


def _counted(
    place: _Place, images: Mapping[int, tuple[bytes, str]], caches: Sequence[int], rates: Rates,
    processor: str, most: int,
) -> Counts:  # fmt: skip
    """Return the counts of a launch, from a cube in its middle after the one before."""
    found = code.of_image(*images[place.function])
    size = found[-1].at + _LAST
    cube = place.cubes // 2
    model = Caches(caches)
    for number in range(max(0, cube - 1), cube + 1):
        arguments = place.arguments, number, number + 1
        steps = stepped(place.function, size, *arguments, most)
        if not steps.whole:
            raise SteppingError(f"a cube has more than {most} instructions; give --most")
        lines = code.touched(steps, place.function, found, LINE)
        traffic = model.run(lines)
    ran = code.counts(steps, place.function, found)
    kinds = {
        kind: place.cubes * sum(ran.get(one.at, 0) for one in found if one.name.startswith(names))
        for kind, names in _KINDS.items()
    }
    kinds["reads"] = place.cubes * _sum(ran, found, lambda m: m.reads)
    kinds["writes"] = place.cubes * _sum(ran, found, lambda m: m.writes)
    return Counts(
        place.cubes * len(steps.registers), kinds, place.cubes * lines.split,
        place.cubes * traffic.first, place.cubes * traffic.second, place.cubes, rates, processor,
        port_model.blocks(found, ran),
    )  # fmt: skip


def _sum(ran: Mapping[int, int], found: Sequence[code.Instruction], takes: Any) -> int:
    return sum(
        ran.get(one.at, 0) * one.memory.rows for one in found if one.memory and takes(one.memory)
    )


def reason(counts: Counts, launch: Mapping[str, Any]) -> str:
    """Return what takes the time of a launch, by the model."""
    parts, taken = counts.seconds(), launch["seconds"]
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    words = {
        "L2": f"{counts.first / 1e3:.0f} kB from the L2 cache",
        "behind L2": f"{counts.second / 1e3:.0f} kB from behind the L2 cache",
        "ports": f"{counts.instructions} instructions",
    }
    told = [f"{words[name]}: {part / taken:.0%} of the time" for name, part in ordered]
    if counts.ports and counts.ports.busy:
        port, share = next(iter(counts.ports.busy.items()))
        told.append(f"port {port} busy {share:.0%} of the modelled cycles")
    products = counts.kinds["multiply-adds"]
    if products < 0.5 * counts.instructions:
        told.append(f"{products / counts.instructions:.0%} of the instructions multiply and add")
    least = max(parts.values())
    if taken > 1.25 * sum(parts.values()):
        told.append(f"{1 - sum(parts.values()) / taken:.0%} of the time is not in the model")
    elif taken > 1.25 * least:
        told.append("they overlap in part")
    return "; ".join(told)


def table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield two lines for each launch: its counts, and the reason."""
    yield (
        f"{'share':>6} {'of it':>5} {'time':>8} {'ports':>8} {'L2':>8} {'behind':>8} "
        f"{'instr.':>9} {'FMA':>4} {'split':>5}  op, kernel: results"
    )
    for row in rows:
        c = row["counters"]
        parts = c["seconds"]
        cells = [report.seconds(parts[name]) for name in ("L2", "behind L2")]
        ports = report.seconds(parts["ports"]) if "ports" in parts else "-"
        whole = c["instructions"]
        reads = c["kinds"]["reads"] + c["kinds"]["writes"]
        yield (
            f"{row['share']:>6.1%} {row['of_ceiling']:>5.0%} {report.seconds(row['seconds']):>8} "
            f"{ports:>8} {cells[0]:>8} {cells[1]:>8} {whole:>9} "
            f"{c['kinds']['multiply-adds'] / whole:>4.0%} {c['split'] / max(reads, 1):>5.0%}  "
            f"{row['op']}, {row['kernel']}: {', '.join(row['results'][:2])}"
        )
        yield f"       {row['why']}"
