"""Copies with channels last, as matrix instructions read them.

Requirements: an access covers adjacent channels, so channels are padded to whole accesses with
zeros. Both sides of memory are accessed along their dense axis; shared memory transposes, unless
channels are dense on both sides.
"""

from __future__ import annotations

from dataclasses import replace

from calor.dtypes import DType, float32, uint32
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Multiple, Place, launch
from calor_kernel.contract.work import Input, Launch, Scratch
from calor_kernel.library.conv.volume_axis import Planes, PlanesOnDevice

_UNITS = 256
# Pixels of a tile. One more lies between channels, so that an access meets different banks.
_PLACES = 64
# Elements of shared memory from channel to channel, which meet different banks.
_PITCH = _PLACES + 1
# Pixels of an access where they are dense.
_RUN = 4
# Half of the last bit that TF32 keeps, and the mask of all bits that it keeps.
_HALF, _KEPT = 0x1000, 0xFFFFE000


@kl.kernel
def channels_last(
    x: kl.In,
    y: kl.Out,
    channels: kl.Size,
    room: kl.Size,
    places: kl.Size,
    across: kl.Size,
    outer: kl.Stride,
    channel: kl.Stride,
    down_step: kl.Stride,
    across_step: kl.Stride,
    blocks: kl.Size,
    taps: kl.Size,
    row: kl.Stride,
    inside: tuple[kl.Size, ...],
    planes: PlanesOnDevice | None,
    moves: kl.FastDivmod | None,
    *,
    deep: int,
    access: int,
    rounded: bool,
    rows: bool,
    run: int,
) -> None:
    """Copy a tile: pixels of one image and block of channels from x, ``deep`` channels from y.

    Pixels are lines of ``across``. ``room``: channels of a block of the copy, padded with zeros
    beyond ``channels``. ``rounded``: whether numbers are rounded to TF32, since the instructions
    truncate. ``rows``: whether pixels form rows, ``row`` apart, of ``taps`` each, and the copy has
    all blocks of all images of a row before the next row. ``inside``: the lines and the pixels of
    a line in x, if the copy has more, which are zeros. ``run``: adjacent pixels of one access.
    ``planes``: leads are planes of volumes, and channels of the copy are all ``moves`` taps along
    the volumes' first axis of each channel of x.
    """
    tiles = (places + (_PLACES - 1)) // _PLACES
    lead = kl.cube_position(0) // tiles
    skipped = lead % blocks * room
    first, begin = kl.cube_position(0) % tiles * _PLACES, kl.cube_position(1) * deep
    pitch = _PITCH
    tile = kl.shared(deep * pitch, x.dtype)
    unit = kl.unit_index()
    across_units = _PLACES // run
    near = unit % across_units * run
    place = first + near
    if planes is None:
        at, plane = lead // blocks * outer + skipped * channel, lead
    else:
        volume, plane = planes.count.divmod(lead)
        at = volume * outer
    if run > 1:
        at += place
    elif rows:
        tap = place % taps
        at += place // taps * row + tap // across * down_step + tap % across * across_step
    else:
        at += place // across * down_step + place % across * across_step
    for turn in kl.range(deep * across_units // _UNITS):
        c = unit // across_units + turn * (_UNITS // across_units)
        there = (place < places) & (skipped + begin + c < channels)
        if inside:
            there = there & (place // across < inside[0]) & (place % across < inside[1])
        far = (begin + c) * channel
        if planes is not None and moves is not None:
            of_x, tap = moves.divmod(begin + c)
            before, exists = planes.at(plane, tap)
            there, far = there & exists, of_x * channel + before
        # A mask would apply to each element and split the access.
        of = kl.assume_multiple(kl.select(there, at + far, 0), run)
        value = x.load(of, run)
        for e in kl.range(run):
            tile[c * pitch + near + e] = kl.select(there, value[e], kl.constant(0, x.dtype))
    kl.barrier()
    lines = deep // access
    for turn in kl.range(-(-_PLACES * lines // _UNITS)):
        piece = unit + turn * _UNITS
        p, c = piece // lines, piece % lines * access
        if (p < _PLACES) and (first + p < places) and (begin + c < room):
            found = [tile[(c + e) * pitch + p] for e in kl.range(access)]
            made = kl.pack([to_tf32(x) for x in found] if rounded else found)
            to = lead * places + first + p
            if rows:
                of, tap = (first + p) // taps, (first + p) % taps
                to = (of * (kl.cube_count(0) // tiles) + lead) * taps + tap
            y.store(to * room + begin + c, made)


@kl.kernel
def pad_channels(
    x: kl.In,
    y: kl.Out,
    count: kl.Size,
    channels: kl.Size,
    pieces: kl.FastDivmod,
    places: kl.FastDivmod,
    across: kl.FastDivmod,
    outer: kl.Stride,
    down_step: kl.Stride,
    across_step: kl.Stride,
    inside: tuple[kl.Size, ...],
    *,
    access: int,
    rounded: bool,
) -> None:
    """Copy an access of the dense channels of a pixel a unit, zeros beyond the last channel.

    ``count``: accesses of the copy. Divisors: the accesses of a pixel, the pixels of an image and
    of a line. ``inside``, ``rounded``: as for ``channels_last``.
    """
    piece = kl.absolute_position()
    if piece < count:
        pixel, number = pieces.divmod(piece)
        lead, place = places.divmod(pixel)
        row, column = across.divmod(place)
        at = lead * outer + row * down_step + column * across_step
        found = []
        for e in range(access):
            channel = number * access + e
            there = channel < channels
            if inside:
                there = there & (row < inside[0]) & (column < inside[1])
            value = kl.select(there, x[kl.select(there, at + channel, 0)], kl.constant(0, x.dtype))
            found.append(to_tf32(value) if rounded else value)
        y.store(piece * access, kl.pack(found))


def to_tf32(x: kl.Number) -> kl.Number:
    """Return a float32 rounded to TF32's 10 bits of mantissa, with ties away from zero."""
    bits = (kl.bitcast(x, uint32) + _HALF) & _KEPT
    return kl.select(x == x, kl.bitcast(bits, float32), x)


def last_launch(
    source: Place,
    target: Place,
    dtype: DType,
    sizes: tuple[int, int, tuple[int, int]],
    strides: tuple[int, int, tuple[int, int]],
    room: int,
    blocks: int,
    info: DeviceInfo,
    prepares: bool = False,
    rounded: bool = False,
    rows: tuple[int, int] = (1, 0),
    whole: tuple[int, int] = (1, 1),
    planes: tuple[Planes[int, int], int] | None = None,
) -> Launch:
    """Return the launch that copies (leads, channels, pixels) to (leads, blocks, pixels, room).

    ``rows``: the number of pixel rows of a lead and their stride; they are copied to (rows, leads,
    blocks, pixels, room). ``whole``: lines, and pixels of a line, are filled up with zeros to
    multiples of these. ``planes``: leads are these planes of volumes, and channels all taps of each
    channel, of which there are so many.
    """
    if strides[1] == 1 and planes is None and blocks == 1 and rows == (1, 0):
        made = _padded(source, target, dtype, sizes, strides, room, info, rounded, whole)
        return replace(made, prepares=prepares)
    access = 16 // dtype.itemsize
    leads, channels, given = sizes
    outer, channel, steps = strides
    down, across = (-(-n // by) * by for n, by in zip(given, whole, strict=True))
    dense = rows[1] == 0 and steps[1] == 1 and (down == 1 or steps[0] == across)
    begin = source.offset if isinstance(source, Input | Scratch) else 1
    numbers = [begin, outer, channel, down * across]
    axis, moves = planes or (None, 1)
    if axis is not None:
        numbers.append(axis.a)
    filled = (down, across) != given
    run = _RUN if dense and not filled and all(n % _RUN == 0 for n in numbers) else 1
    deep = 64 if room > 32 else 32 if room > 16 else 16
    while deep > 16 and info.shared_room(deep * _PITCH, dtype.itemsize) > info.shared_bytes:
        deep //= 2
    places = rows[0] * down * across
    spans = (leads * blocks * places * room, leads * abs(outer), channels * abs(channel))
    reach = down * abs(steps[0]) + across * abs(steps[1]) + rows[0] * abs(rows[1])
    reach += axis.size * abs(axis.a) if axis is not None else 0
    index = kl.index_dtype(sum(spans[1:]) + reach, spans[0])
    made = launch(
        channels_last,
        # Leads may outnumber the cubes that a launch has along its other axes.
        Grid(
            (-(-places // _PLACES) * leads * blocks, -(-room // deep), 1),
            (_UNITS, 1, 1),
            info.planes[0],
            index,
        ),
        Effort(
            "conv channels last",
            nbytes=leads * places * (channels + blocks * room) * dtype.itemsize,
        ),
        x=Bound(source, dtype, run * dtype.itemsize if run > 1 else 0),
        y=Bound(target, dtype, 16),
        channels=channels,
        room=Multiple(room, access),
        places=places,
        across=max(across, 1),
        outer=outer,
        channel=channel,
        down_step=steps[0],
        across_step=steps[1],
        blocks=blocks,
        taps=max(down * across, 1),
        row=rows[1],
        inside=given if filled else (),
        planes=axis,
        moves=None if axis is None else moves,
        deep=deep,
        access=access,
        rounded=rounded,
        rows=rows[1] != 0,
        run=run,
    )
    return replace(made, prepares=prepares)


def _padded(
    source: Place,
    target: Place,
    dtype: DType,
    sizes: tuple[int, int, tuple[int, int]],
    strides: tuple[int, int, tuple[int, int]],
    room: int,
    info: DeviceInfo,
    rounded: bool,
    whole: tuple[int, int],
) -> Launch:
    """Return the launch of :func:`last_launch` for dense channels, as it takes them."""
    access = 16 // dtype.itemsize
    (leads, channels, given), (outer, _, steps) = sizes, strides
    down, across = (-(-n // by) * by for n, by in zip(given, whole, strict=True))
    pieces = room // access
    count = leads * down * across * pieces
    reach = leads * abs(outer) + down * abs(steps[0]) + across * abs(steps[1]) + room
    index = kl.index_dtype(reach, count * access + _UNITS * access)
    return launch(
        pad_channels,
        Grid.line(-(-count // _UNITS), _UNITS, info.planes[0], index),
        Effort(
            "conv pad channels", nbytes=leads * down * across * (channels + room) * dtype.itemsize
        ),
        x=Bound(source, dtype),
        y=Bound(target, dtype, 16),
        count=count,
        channels=channels,
        pieces=pieces,
        places=max(down * across, 1),
        across=max(across, 1),
        outer=outer,
        down_step=steps[0],
        across_step=steps[1],
        inside=given if (down, across) != given else (),
        access=access,
        rounded=rounded,
    )
