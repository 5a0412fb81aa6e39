"""Operands copied to lines that begin at whole accesses, for instructions that need that.

Requirements: a copy costs two passes over the operand at the speed of memory, so it pays for large
products. The dense axis stays dense, unless the instruction reads the K axis alone. What fills a
line up is never read as an element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from calor_kernel import language as kl
from calor_kernel.contract.choices import exceeds, is_size
from calor_kernel.contract.launching import Bound, Effort, Grid, launch
from calor_kernel.contract.work import Launch, View
from calor_kernel.library.matmul.problem import Operand, Product
from calor_kernel.library.matmul.task import Task

N = TypeVar("N")
# Bytes of an access, units of a cube, elements of a unit, and the side of a transposed tile.
_ACCESS, _UNITS, _TURNS, _TILE = 16, 256, 2, 32
# Lines of a unit, and bytes of the words in which short elements are copied.
_DEEP, _WORD = 4, 4
# Matrices from which squares of them are transposed.
_FEW = 32
# Elements of a cube of one unit.
_GRAIN = 1 << 14


@dataclass(frozen=True, slots=True)
class LineCopy(Generic[N]):
    """``lines`` of ``length`` elements of each matrix, and where they are read and written.

    ``line``, ``element``: the strides in the source; ``pitch``: that of lines in the target.
    ``inner``: matrices along the inner of two axes, with strides in the source from ``base`` on.
    """

    lines: kl.SizeOf[N]
    length: kl.SizeOf[N]
    line: kl.StrideOf[N]
    element: kl.StrideOf[N]
    pitch: kl.SizeOf[N]
    inner: kl.SizeOf[N]
    outer_stride: kl.StrideOf[N]
    inner_stride: kl.StrideOf[N]
    base: kl.StrideOf[N]

    def start(self: LineCopy[kl.Number], matrix: kl.Number) -> kl.Number:
        """Return the position of a matrix in the source."""
        outer, inner = matrix // self.inner, matrix % self.inner
        return self.base + outer * self.outer_stride + inner * self.inner_stride


@kl.kernel
def copy_lines(
    source: kl.In,
    target: kl.Out,
    copy: LineCopy[kl.Number],
    *,
    across: int,
    down: int,
    turns: int,
    deep: int,
    width: int,
    alone: bool,
) -> None:
    """Copy lines: ``across`` units along them have ``turns`` vectors each of ``deep`` lines.

    ``down``: how many lines the units see at the same time. ``width``: the elements of a vector,
    which is whole and aligned. ``alone``: whether there is one matrix.
    """
    matrix = kl.cube_position(2)
    x, y = kl.unit_index() % across, kl.unit_index() // across
    read, lines = copy.base, y * 0
    if not alone:
        read, lines = copy.start(matrix), matrix * copy.lines
    first = kl.cube_position(1) * (down * deep) + y
    align = width * source.dtype.itemsize if width > 1 else 0
    found: list[tuple[kl.Number, kl.Number, kl.Mask]] = []
    # All vectors are on their way before one is written; those beyond the end repeat the last one.
    for d in range(deep):
        line = kl.min(first + d * down, copy.lines - 1)
        at, to = read + line * copy.line, (lines + line) * copy.pitch
        for turn in range(turns):
            i = ((kl.cube_position(0) * turns + turn) * across + x) * width
            inside: kl.Mask = (first + d * down < copy.lines) & (i < copy.length)
            place = kl.min(i, copy.length - width)
            value = source.load(at + place * copy.element, width, align=align)
            found.append((to + place, value, inside))
    for to, value, inside in found:
        if inside:
            target.store(to, value, align=align)


@kl.kernel
def copy_lines_turned(
    source: kl.In, target: kl.Out, copy: LineCopy[kl.Number], *, tile: int, down: int
) -> None:
    """Copy lines whose elements are adjacent across lines in the source, by square tiles."""
    staged = kl.shared(tile * (tile + 1), source.dtype)
    matrix = kl.cube_position(2)
    x, y = kl.unit_index() % tile, kl.unit_index() // tile
    first, start = kl.cube_position(1) * tile, kl.cube_position(0) * tile
    read = copy.start(matrix)
    for q in range(0, tile, down):
        line, i = first + x, start + y + q
        if (line < copy.lines) & (i < copy.length):
            staged[(y + q) * (tile + 1) + x] = source[read + line * copy.line + i * copy.element]
    kl.barrier()
    for q in range(0, tile, down):
        line, i = first + y + q, start + x
        if (line < copy.lines) & (i < copy.length):
            at = (matrix * copy.lines + line) * copy.pitch + i
            target[at] = staged[x * (tile + 1) + y + q]


@kl.kernel
def pad_rows(
    source: kl.In, target: kl.Out, copy: LineCopy[kl.Number], *, lanes: int, turns: int
) -> None:
    """Copy ``turns`` lines of a matrix and fill them up with zeros, on a cube of one unit."""
    matrix = kl.cube_position(2)
    start, length = copy.start(matrix), copy.length
    first = kl.cube_position(0) * turns
    whole = length // lanes * lanes
    for line in kl.loop_range(first, kl.min(first + turns, copy.lines)):
        read = start + line * copy.line
        written = (matrix * copy.lines + line) * copy.pitch
        for i in kl.loop_range(0, whole, lanes):
            target.store(written + i, source.load(read + i, lanes))
        for i in kl.loop_range(whole, copy.pitch, lanes):
            index = i + kl.constant(tuple(range(lanes)), copy.length.dtype)
            value = source.load(read + i, lanes, mask=index < length)
            target.store(written + i, value, mask=index < copy.pitch)


def in_groups(task: Task, number: int, group: int) -> Task:
    """Return the task with an operand, dense along K, copied to lines of whole groups of terms."""
    product, info = task.product, task.info
    operand, size = (product.b, product.n) if number else (product.a, product.m)
    pitch = -(-product.k // group) * group
    lead, matrices = _matrices(operand, product)
    place, task = task.room(matrices * size * pitch * operand.dtype.itemsize)
    copy = LineCopy(
        size, product.k, operand.free, 1, pitch, lead, *operand.batch, operand.offset
    )  # fmt: skip
    turns = max(_GRAIN // int(pitch), 1) if not is_size(pitch) else 1
    made = launch(
        pad_rows,
        Grid((-(-size // turns), 1, matrices)),
        Effort("matmul operand padding", 0, 2 * matrices * size * pitch * operand.dtype.itemsize),
        source=Bound(task.places[number], operand.dtype),
        target=Bound(place, operand.dtype),
        copy=copy,
        lanes=info.vector_bytes // int(operand.dtype.itemsize),
        turns=turns,
    )
    task = replace(task, before=(*task.before, replace(made, prepares=True)))
    return task.taking(number, place, _placed(operand, product, size * pitch, (pitch, 1)))


def _matrices(operand: Operand, product: Product) -> tuple[int, int]:
    """Return the matrices of an operand along the inner batch axis, and of both axes."""
    pairs = zip(product.batch, operand.batch, strict=True)
    outer, inner = (n if n > 1 and s != 0 else 1 for n, s in pairs)
    return inner, outer * inner


def _placed(operand: Operand, product: Product, matrix: int, strides: tuple[int, int]) -> Operand:
    """Return an operand whose matrices of some elements are adjacent, with its two strides."""
    inner, matrices = _matrices(operand, product)
    outer = inner * matrix if matrices > inner else 0
    return Operand((outer, matrix if inner > 1 else 0), *strides, 0, operand.dtype)


def padded(task: Task, *, along: bool) -> Task:
    """Return the task whose operands have lines of whole accesses.

    ``along``: whether operands must be dense along the K axis.
    """
    product = task.product
    for number, (operand, size) in enumerate(((product.a, product.m), (product.b, product.n))):
        if not ready(operand, product, along=along):
            task = _copied(task, number, operand, size, along)
    return task


def ready(operand: Operand, product: Product, *, along: bool) -> bool:
    """Return whether all lines of an operand begin at whole accesses."""
    count = _ACCESS // int(operand.dtype.itemsize)
    if operand.depth != 1 and (along or operand.free != 1):
        return False
    batch = [s for s, n in zip(operand.batch, product.batch, strict=True) if n > 1]
    pitch = operand.free if operand.depth == 1 else operand.depth
    # A copy engine takes no lines of one address, and none that go back.
    forward = pitch > 0 and all(s >= 0 for s in batch)
    return forward and not any(n % count for n in (pitch, operand.offset, *batch))


def _copied(task: Task, number: int, operand: Operand, size: int, along: bool) -> Task:
    product, info = task.product, task.info
    count = _ACCESS // int(operand.dtype.itemsize)
    deep = along or operand.depth == 1 or operand.free != 1
    lines, length = (size, product.k) if deep else (product.k, size)
    line, element = (operand.free, operand.depth) if deep else (operand.depth, operand.free)
    pitch = -(-length // count) * count
    lead, matrices = _matrices(operand, product)
    place, task = task.room(matrices * lines * pitch * operand.dtype.itemsize)
    copy = LineCopy(
        lines, length, line, element, pitch, lead, *operand.batch, operand.offset
    )  # fmt: skip
    nbytes = 2 * matrices * lines * length * operand.dtype.itemsize
    given: dict[str, Any] = {
        "source": Bound(task.places[number], operand.dtype),
        "target": Bound(place, operand.dtype),
        "copy": copy,
    }
    effort = Effort("matmul operand padding", 0, nbytes)
    if line == 1 and element != 1:
        cubes = (-(-length // _TILE), -(-lines // _TILE), matrices)
        grid = Grid(cubes, (_UNITS, 1, 1), info.planes[0])
        down = _UNITS // _TILE
        made = launch(copy_lines_turned, grid, effort, tile=_TILE, down=down, **given)
    else:
        made = _lines_launch(task, copy, effort, matrices, given)
    task = replace(task, before=(*task.before, replace(made, prepares=True)))
    strides = (pitch, 1) if deep else (1, pitch)
    return task.taking(number, place, _placed(operand, product, lines * pitch, strides))


def _lines_launch(
    task: Task, copy: LineCopy[int], effort: Effort, matrices: int, given: dict[str, Any]
) -> Launch:
    """Return the launch that copies lines as they are, in words of several elements if they are."""
    info, dtype = task.info, given["source"].dtype
    width = max(_WORD // dtype.itemsize, 1)
    places = (copy.length, copy.line, copy.base, copy.outer_stride, copy.inner_stride)
    if copy.element != 1 or any(n % width for n in places):
        width = 1
    vectors = copy.length // width
    across = _UNITS
    while across > _TILE and (across // 2) * _TURNS >= vectors:
        across //= 2
    down = _UNITS // across
    # Positions in 32 bits, since finding a line takes divisions.
    spans = (copy.line, copy.outer_stride, copy.inner_stride, copy.element)
    counts = (copy.lines, matrices, matrices, copy.length)
    reach = sum(abs(s) * n for s, n in zip(spans, counts, strict=True)) + copy.base
    index = kl.index_dtype(reach, matrices * copy.lines * copy.pitch)
    cubes = (-(-vectors // (across * _TURNS)), -(-copy.lines // (down * _DEEP)), matrices)
    grid = Grid(cubes, (_UNITS, 1, 1), info.planes[0], index)
    alone = not is_size(matrices) and matrices == 1
    more = {"turns": _TURNS, "deep": _DEEP, "width": width, "alone": alone}
    return launch(copy_lines, grid, effort, across=across, down=down, **more, **given)


def dense(task: Task) -> Task:
    """Return the task whose operands are dense along one axis, copied along K if they are not."""
    for number, operand in enumerate((task.product.a, task.product.b)):
        if 1 not in (operand.depth, operand.free):
            task = _densely(task, number)
    return task


def along_k(task: Task) -> Task:
    """Return the task whose left operand is copied to be dense along the K axis."""
    return _densely(task, 0)


def interleaved(operand: Operand, product: Product) -> bool:
    """Return whether neighbours in an operand's memory are elements of different matrices."""
    if 1 in (operand.depth, operand.free):
        return False
    pairs = zip(product.batch, operand.batch, strict=True)
    return any(step == 1 and exceeds(n, _FEW - 1) for n, step in pairs)


def apart(task: Task) -> Task:
    """Return the task whose interleaved matrices are copied one after another, as tiles read them.

    The left one is then dense along the K axis, the right one along its columns.
    """
    for number, operand in enumerate((task.product.a, task.product.b)):
        if interleaved(operand, task.product):
            task = _densely(task, number, along=not number)
    return task


def _densely(task: Task, number: int, along: bool = True) -> Task:
    """Return the task with a dense copy of an operand; ``along``: the K axis is the inner one."""
    product = task.product
    operand, size = (product.b, product.n) if number else (product.a, product.m)
    lines, length = (size, product.k) if along else (product.k, size)
    steps = (operand.free, operand.depth) if along else (operand.depth, operand.free)
    shape = (*product.batch, lines, length)
    view = View(shape, (*operand.batch, *steps), operand.dtype, operand.offset)
    matrix = lines * length
    strides = (length, 1) if along else (1, length)
    made = Operand((product.batch[1] * matrix, matrix), *strides, 0, operand.dtype)
    return task.copied(number, view, made)
