"""Copies of any view to dense memory or to a region of it, as bits.

Requirements: only the size of the dtype matters; sizes and strides are run-time numbers, so one
kernel serves every shape of a rank; contiguous axes are merged, and a copy of any view runs near
the speed of memory: what is dense or repeated along an axis in vectors, what is transposed in
tiles, the rest by neighbouring units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from calor.dtypes import int64
from calor.specs import Spec
from calor_kernel import language as kl
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Effort, Grid, launch
from calor_kernel.contract.work import (
    Input,
    Launch,
    Refusal,
    Request,
    View,
    Work,
    lowering,
    row_major,
)
from calor_kernel.library.copying.interleaving import interleaves, interleaving_launch
from calor_kernel.library.copying.rows import rows_launch
from calor_kernel.library.copying.tiles import crosses, transposing_launch
from calor_kernel.library.copying.transfer import (
    TURNS,
    UNITS,
    DynamicPart,
    Transfer,
    aligned_lanes,
    as_bits,
    narrow,
)
from calor_kernel.library.copying.vectors import vectors_launch

__all__ = [
    "DynamicPart",
    "as_bits",
    "copy_dense",
    "dense_copy",
    "lower_copy",
    "narrow",
    "transfer_launches",
    "transposes",
]

# Elements of a cube of one unit, enough to hide the cost of its start.
_GRAIN: Final = 1 << 14


@kl.kernel
def copy_dense(
    source: kl.In,
    target: kl.Out,
    count: kl.Size,
    chunk: kl.Size,
    *,
    width: int,
    fill: bool,
    aligned: bool = False,
    nontemporal: bool = False,
) -> None:
    """Copy adjacent elements, or fill with one element; a cube has a ``chunk``.

    A chunk is whole vectors for all units. ``aligned``: both sides are aligned to a vector.
    ``nontemporal``: the copy bypasses the caches, and the target is aligned.
    """
    start = kl.cube_position() * chunk
    stop = kl.min(start + chunk, count)
    one = source[0] if fill else None
    first = start + kl.unit_position() * width
    many = kl.cube_size() > 1
    vector_bytes = width * source.dtype.itemsize
    align = vector_bytes if aligned else 0
    to = vector_bytes if aligned or nontemporal else 0
    for i in kl.loop_range(
        first, stop - (width - 1), kl.cube_size() * width, unroll=4 if many else 1
    ):
        vector = kl.splat(one, width) if fill else source.load(i, width, align=align)
        target.store(i, vector, align=to, nontemporal=nontemporal)
    for i in kl.loop_range(stop - stop % width + kl.unit_position(), stop, kl.cube_size()):
        target[i] = one if fill else source[i]


@lowering("copy", strided=True)
def lower_copy(request: Request) -> Sequence[Work]:
    """Copy a view of any rank."""
    (view,) = request.inputs
    strides = row_major(view.shape)
    made = transfer_launches(view, Input(0), strides, 0, request.info)
    return (Work(tuple(replace(one, copies=0) for one in made), in_place=((0, 0),)),)


def transfer_launches(
    view: View,
    source: Input,
    strides: Sequence[int],
    start: int,
    info: DeviceInfo,
    label: str = "",
    part: DynamicPart | None = None,
) -> list[Launch]:
    """Return the launches that copy a view to a strided region of the result.

    ``strides`` and ``start``: strides and first element of the region in the result, in elements.
    ``part``: the array of which one side is a part with starts in memory. ``label``: for profiles,
    by default the kernel's name.
    """
    if not view.size:
        return []
    over = Transfer.of(view, source, strides, start, info, part)
    if len(over.sizes) == 1 and over.read[0] in (0, 1) and over.written == (1,) and part is None:
        made = _dense(over, info, label)
    elif interleaves(over, info):
        made = interleaving_launch(over, info, label)
    elif crosses(over, info):
        made = transposing_launch(over, info, label)
    elif info.max_units > 1:
        made = vectors_launch(over, info, label, part)
    else:
        made = rows_launch(over, info, label, part)
    return [made]


def transposes(view: View, strides: Sequence[int], info: DeviceInfo) -> bool:
    """Return whether a copy of a view to a strided region is made in tiles."""
    return crosses(Transfer.of(view, Input(0), strides, 0, info), info)


def _dense(over: Transfer, info: DeviceInfo, label: str) -> Launch:
    (count,), size = over.sizes, over.dtype.itemsize
    units = min(info.max_units, UNITS)
    past = False
    if units > 1:
        # A unit has one access at a time; without known alignment it is of one element.
        numbers = [over.target.offset, *([] if over.read == (0,) else [over.source.offset])]
        width = aligned_lanes(over.dtype, numbers, info)
        chunk = units * width * TURNS
    else:
        width = max(info.vector_bytes // size, 1)
        chunk = width * max(_GRAIN // width, 1)
        cached = info.native.get("shared_cache", 0)
        whole = over.target.offset * size % info.vector_bytes == 0
        past = bool(cached) and whole and over.nbytes > cached
    return launch(
        copy_dense,
        Grid.line(-(-count // chunk), units, index=over.index(info) if units > 1 else int64),
        Effort(label or copy_dense.name, 0, over.nbytes),
        **over.places,
        count=count,
        chunk=chunk,
        width=width,
        fill=over.read == (0,),
        aligned=units > 1 and width > 1,
        nontemporal=past,
    )


def dense_copy(view: View, result: Spec, info: DeviceInfo) -> list[Launch]:
    """Return the launches that copy the first operand to the result, if they share no memory."""
    found = lower_copy(Request("copy", {}, (view,), (result,), info))
    assert not isinstance(found, Refusal)
    return list(found[0].launches)
