"""Sums of the parts of split convolutions, transposed to the result's layout.

Requirements: parts are added in a fixed order, so that results are reproducible. With few elements
and many parts, units share the parts, since one unit would wait for each read. Parts have the
channels of a tap dense, the result has the taps of a channel dense; both are accessed along their
dense axis, and shared memory transposes, for as many taps at a time as it has room for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic

from calor.dtypes import DType, float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple
from calor_kernel.contract.work import Input, Output, Scratch
from calor_kernel.language.declared import N
from calor_kernel.library.conv.problem import Correlation, accumulator
from calor_kernel.library.gemm.epilogue import After, Epilogue, Tail, Writer
from calor_kernel.library.steps import Steps

_UNITS = 256
# Elements of an access, and the parts that a unit loads at the same time.
WHOLE, _AHEAD = 4, 4
# Minimum of accesses of a tap in a cube, if there are as many.
_LEAST = 8
# Bytes of shared memory of a cube at most.
_BYTES = 32768
# Units of a core that compute parts at least, by cubes of so few units, so that some compute while
# others wait for memory. Of larger cubes, one more than run at the same time would double the time.
_BUSY, _SMALL = 1024, 64
# The alignment of parts and of their rows, in bytes.
ALIGN = WHOLE * float32.itemsize


@dataclass(frozen=True, slots=True)
class Items(Generic[N]):
    """Items of a sum that cubes share: each adds ``turns`` of all ``count`` to a part of its own.

    ``part_step``: the distance between parts.
    """

    count: kl.SizeOf[N]
    turns: kl.SizeOf[N]
    part_step: kl.SizeOf[N]

    @kl.helper
    def ends(self: Items[kl.Number], split: kl.Number) -> tuple[kl.Number, kl.Number]:
        """Return the first item of a part, and the one behind its last."""
        return split * self.turns, kl.min((split + 1) * self.turns, self.count)


@dataclass(frozen=True, slots=True)
class Parts:
    """A result that cubes compute in ``splits`` parts; ``target``: where they go."""

    items: Items[int]
    splits: int
    target: Bound

    @property
    def size(self) -> int:
        """The elements of all parts."""
        return self.splits * self.items.part_step


@kl.kernel
def add_transposed(
    parts: kl.In,
    c: kl.Out,
    room: kl.Size,
    channels: kl.Size,
    taps: kl.Size,
    splits: kl.Size,
    groups: kl.Size,
    part_step: kl.Size,
    span: kl.Size,
    shape: tuple[kl.FastDivmod, ...],
    after: After | None,
    *,
    wide: int,
    held: int,
    epilogue: Epilogue | None = None,
) -> None:
    """Add parts of (row, tap, channel) to (row, channel, tap): channels from x, a row from y.

    ``room``: the channels of a tap in the parts; those from ``channels`` on are left out. ``wide``:
    accesses of a tap in a cube; it has ``span`` taps, from z. ``groups`` of units share the parts,
    and shared memory has ``held`` accesses for all of them. ``shape``: for an epilogue, the
    channels and pixels of an image; rows and taps are one then.
    """
    first, row, unit = kl.cube_position(0) * (wide * WHOLE), kl.cube_position(1), kl.unit_index()
    low = kl.cube_position(2) * span
    here = kl.min(taps - low, span)
    # One more access lies between taps, so that those of a channel meet different banks.
    quads, pitch = here * wide, wide + 1
    sums = kl.shared(held * WHOLE, float32, align=ALIGN)
    share = -(-splits // groups)
    for item in kl.range(unit, quads * groups, _UNITS):
        group, quad = item // quads, item % quads
        tap, far = quad // wide, quad % wide * WHOLE
        at = (row * taps + low + tap) * room + first + far
        begin = group * share
        end = kl.min(begin + share, splits)
        total = kl.constant(0, float32, WHOLE)
        if first + far < room:
            for split in kl.range(begin, end, _AHEAD):
                # A mask would apply to each element and split the access.
                found = [
                    parts.load(
                        kl.assume_multiple(kl.min(split + i, end - 1) * part_step + at, WHOLE),
                        WHOLE,
                    )
                    for i in kl.range(_AHEAD)
                ]
                for i in kl.range(_AHEAD):
                    there = kl.splat(split + i < end, WHOLE)
                    total = total + kl.select(there, found[i], kl.constant(0, float32, WHOLE))
        sums.store(((group * here + tap) * pitch) * WHOLE + far, total)
    kl.barrier()
    to = (row * channels + first) * taps + low
    for e in kl.range(unit, kl.min(channels - first, wide * WHOLE) * here, _UNITS):
        channel, tap = e // here, e % here
        place = tap * (pitch * WHOLE) + channel
        total = sums[place]
        for group in kl.range(1, groups):
            total = total + sums[place + group * here * (pitch * WHOLE)]
        if epilogue is None or after is None:
            c[to + channel * taps + tap] = total.to(c.dtype)
        else:
            image, channel, pixel = kl.unravel(first + e, (0, *shape))
            Writer(epilogue, after, c, image).write(first + e, total, channel, pixel)


def ending(target: Bound, tail: Tail | None, count: int = 1) -> tuple[Bound, dict[str, object]]:
    """Return where a kernel writes, and its arguments for an epilogue.

    Sums of parts have none. ``count``: the pixels of an access, which divide those of a channel.
    """
    if tail is None or not isinstance(target.place, Output):
        return target, {"after": None}
    return replace(target, dtype=tail.expression.outputs[0]), tail.given(count)


def later(memory: Bound, elements: int) -> Bound:
    """Return memory from a later element on."""
    place = memory.place
    assert isinstance(place, Input | Output | Scratch)
    return Bound(replace(place, offset=place.offset + elements), memory.dtype)


def target_of(steps: Steps, dtype: DType, count: int) -> Bound:
    """Return where sums go: the result, or ``count`` elements of parts, if it is not 0."""
    if not count:
        return Bound(Output(0), dtype)
    return Bound(steps.memory(count * float32.itemsize), float32)


def parts_for(cubes: int, units: int, chunks: int, info: DeviceInfo) -> int:
    """Return the parts of each of ``chunks`` sums by cubes of some units.

    ``cubes``: those of a core at least; there are more where they have few units.
    """
    each = max(cubes, _BUSY // units) if units <= _SMALL else cubes
    return each * info.cores // greatest(chunks, 1)


def parts_of(steps: Steps, p: Correlation, items: int, most: int, each: int = 1) -> Parts:
    """Return how cubes share the items of a weight gradient, and where their parts go.

    ``most``: parts at most, for cubes enough; ``each``: items of a part at least. Sums in other
    types than float32 are not split, since parts have that type.
    """
    splits = 1
    if accumulator(p.a.dtype) is float32:
        splits = greatest(1, least(most, items // each))
    step = -(-p.size // WHOLE) * WHOLE
    target = target_of(steps, p.a.dtype, splits * step if splits > 1 else 0)
    return Parts(Items(items, greatest(-(-items // splits), 1), step), splits, target)


def launch_parts(steps: Steps, p: Correlation, parts: Parts, info: DeviceInfo) -> None:
    """Add the launch that adds the parts of :func:`parts_of`, if there are several."""
    step = parts.items.part_step
    sizes = 1, 1, p.size, step
    launch_sum(steps, parts.target, p.a.dtype, sizes, parts.splits, step, info)


def launch_sum(
    steps: Steps,
    parts: Bound,
    dtype: DType,
    sizes: tuple[int, int, int, int],
    splits: int,
    part_step: int,
    info: DeviceInfo,
    tail: Tail | None = None,
    image: tuple[int, int] = (1, 1),
) -> None:
    """Add the launch that adds parts, unless sums went to the result.

    ``sizes``: rows, taps, channels, and the room of a tap for channels. The room and ``part_step``,
    the stride of parts, are whole accesses. ``tail``: the epilogue of sums in the result's layout,
    with the channels and pixels of an ``image``.
    """
    if isinstance(parts.place, Output):
        return
    rows, taps, channels, room = sizes
    wanted = kl.min(-(-splits // _AHEAD), _UNITS // _LEAST)
    wide = _power(kl.min(max(_UNITS // (taps * wanted), _LEAST), -(-room // WHOLE)))
    groups = max(1, kl.min(wanted, _UNITS // (taps * wide)))
    most = min(_BYTES, info.shared_bytes) // ALIGN
    # A power of two that shared memory has room for.
    most = 1 << (most.bit_length() - 1)
    span = kl.min(taps, most // (groups * (wide + 1)))
    held = _power(max(_UNITS, groups * span * (wide + 1)))
    index = kl.index_dtype(splits * part_step, rows * taps * room)
    count = rows * taps * channels
    nbytes = count * (splits * float32.itemsize + dtype.itemsize)
    cubes = (-(-channels // (wide * WHOLE)), rows, -(-taps // span))
    target, following = ending(Bound(Output(0), dtype), tail)
    steps.add(
            add_transposed,
            Grid(cubes, (_UNITS, 1, 1), info.planes[0], index),
            Effort("conv parts", count * splits, nbytes),
            parts=parts.aligned(ALIGN), c=target, room=Multiple(room, WHOLE),
            channels=channels, taps=taps, splits=splits, groups=groups,
            part_step=Multiple(part_step, WHOLE), span=span, held=held, wide=wide,
            shape=() if tail is None else image, **following,
        )  # fmt: skip


def _power(n: int) -> int:
    """Return the least power of two that is not smaller."""
    return 1 << max(int(n) - 1, 0).bit_length()
