"""Sums of updates along an axis, for cubes that own lines of the result in shared memory.

Requirements: half types are summed in float32 and rounded once, without a wide copy of the result:
a cube keeps some lines as float32 in its shared memory, adds their updates there, and writes each
element once. Neighbouring units access neighbouring elements of all operands.
"""

from __future__ import annotations

from math import prod
from typing import Final

from calor.dtypes import float32
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, launch, operand
from calor_kernel.contract.work import Launch, Output, Request
from calor_kernel.library.indexing.checked_index import Failures, checked, quick_unravel
from calor_kernel.library.indexing.cooperative import AlongAxis, is_small
from calor_kernel.library.indexing.gather import STATUS

# Elements of a cube: so many that its units have work, and at most.
_WANTED: Final = 1 << 12
_MOST: Final = 3 << 12
_WIDTH: Final = 4
_UNITS: Final = 256
# Updates and elements that one cube handles as fast as the launches of any other way.
_SMALL: Final = 1 << 13


@kl.kernel
def add_to_lines(
    source: kl.In,
    indices: kl.In,
    updates: kl.In,
    target: kl.Out,
    status: Failures,
    lines: kl.Size,
    share: kl.Size,
    over: AlongAxis[kl.Number],
    *,
    room: int,
    width: int,
    small: bool,
) -> None:
    """Write ``share`` lines of the source with their updates added, from x · share on.

    A line is (size, inner) elements. ``room``: elements of shared memory, at least those of lines.
    ``width``: elements of a load or store of the source and the target.
    """
    size, picks, inner = over.size, over.picks, over.inner
    sums = kl.shared(room, float32, align=width * float32.itemsize)
    first = kl.cube_position() * share
    count = kl.min(share, lines - first)
    begin, elements = first * size * inner, count * size * inner
    unit, step = kl.unit_position(), kl.cube_size()
    align = width * source.dtype.itemsize
    for i in kl.loop_range(unit * width, elements, step * width):
        vector = source.load(begin + i, width, align=align).to(sums.dtype)
        sums.store(i, vector, align=width * sums.dtype.itemsize)
    kl.barrier()
    at = first * picks * inner
    for n in kl.loop_range(unit, count * picks * inner, step, unroll=4):
        line, _, i = quick_unravel(n, (1, picks, inner), small)
        position = checked(indices[at + n], size, status, 1)
        new = updates[at + n].to(sums.dtype)
        sums.atomic("add", (line * size + position) * inner + i, new)
    kl.barrier()
    for i in kl.loop_range(unit * width, elements, step * width):
        total = sums.load(i, width, align=width * sums.dtype.itemsize)
        target.store(begin + i, total.to(target.dtype), align=align)


def fits(request: Request) -> bool:
    """Return whether lines of a scatter along an axis fit cubes, and cubes are many enough."""
    x, indices, _ = request.inputs
    axis, info = request.attributes["axis"], request.info
    able = info.max_units > 1 and all(map(info.has, ("atomics", "float_atomics", "barrier")))
    if not able or request.deterministic or request.attributes["update"] != "add":
        return False
    if x.dtype.kind != "float" or x.dtype.itemsize != 2:
        return False
    lines, elements = prod(x.shape[:axis]), prod(x.shape[axis:])
    if elements > _room(elements, info):
        return False
    # Lines that are hardly updated would be read and written for nothing.
    sparse = 64 * indices.shape[axis] < x.shape[axis]
    few = 2 * lines < info.cores and x.size + indices.size > _SMALL
    return not sparse and not few


def lines_launch(request: Request) -> Launch:
    """Return the launch of a scatter along an axis that fits."""
    x, indices, updates = request.inputs
    (result,) = request.outputs
    axis, info = request.attributes["axis"], request.info
    lines, elements = prod(x.shape[:axis]), prod(x.shape[axis:])
    room = _room(elements, info)
    share = least(greatest(1, room // elements), greatest(1, lines // (4 * info.cores)))
    vectors = elements % _WIDTH == 0 and x.offset % _WIDTH == 0
    width = _WIDTH if vectors and info.vector_bytes >= 16 else 1
    moved = indices.size * (indices.dtype.itemsize + updates.dtype.itemsize)
    return launch(
        add_to_lines,
        Grid.line(-(-lines // share), min(_UNITS, info.max_units)),
        Effort("scatter lines", indices.size, moved + 2 * x.size * x.dtype.itemsize),
        source=operand(0, x),
        indices=operand(1, indices),
        updates=operand(2, updates),
        target=Bound(Output(), result.dtype),
        status=STATUS,
        lines=lines,
        share=share,
        over=AlongAxis(indices.shape[axis], x.shape[axis], prod(x.shape[axis + 1 :])),
        room=room,
        width=width,
        small=is_small(indices.size),
    )


def _room(elements: int, info: DeviceInfo) -> int:
    """Return the elements of a cube's shared memory: of a line, or of several short ones."""
    most = info.shared_bytes // int(float32.itemsize)
    return min(most, _MOST if elements > _WANTED else _WANTED)
