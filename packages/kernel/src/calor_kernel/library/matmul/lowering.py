"""Lowering of matrix products: from ``dot_general`` to the ways of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from calor.dtypes import DType, complex64, complex128, float32, float64, int64
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.work import (
    Argument,
    Build,
    Candidates,
    Dropped,
    Input,
    Launch,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
    lowering,
)
from calor_kernel.ir.types import Buffer, Scalar
from calor_kernel.language.kernel import KernelFunction
from calor_kernel.library.matmul.blueprints import (
    Dots,
    Packed,
    Streams,
    dots,
    packed,
    streams,
)
from calor_kernel.library.matmul.complex_products import expand_complex
from calor_kernel.library.matmul.cpu_variants import Variant, few_row_variants, tile_variants
from calor_kernel.library.matmul.float8 import lower_float8
from calor_kernel.library.matmul.gemv import dot_rows, scaled_rows
from calor_kernel.library.matmul.gpu_ways import ways
from calor_kernel.library.matmul.packed import packed_matmul
from calor_kernel.library.matmul.packing import pack, pack_transposed
from calor_kernel.library.matmul.problem import Operand, Product, copied, product_of
from calor_kernel.library.redirection import copy_to_scratch

_SIZE = Scalar(int64, nonnegative=True)
_STRIDE = Scalar(int64)
# Rows of the K axis that a cube packs, with and without transposition.
_PACK_ROWS = 256
_PACK_STREAMS = 16
# Cubes of this many units compute tiles together.
_UNITS = 64
_PARTS = {complex64: float32, complex128: float64}


@lowering("dot_general", strided=True)
def lower_dot_general(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of a product, the likeliest first."""
    if request.inputs[0].dtype.kind == "storage":
        return lower_float8(request, lower_dot_general)
    before: list[Launch] = []
    scratch: list[int] = []
    places: list[Argument] = [Input(0), Input(1)]
    product, views = product_of(request)
    for number, view in enumerate(views):
        if view is not None:
            before += _prepared(view, places[number], len(scratch), request.info)
            places[number] = Scratch(len(scratch))
            scratch.append(view.size * view.dtype.itemsize)
            request = copied(request, number, view)
    if product is None:
        product, _ = product_of(request)
    assert product is not None
    if product.m * product.n * product.batches == 0:
        return [Work(())]
    if product.dtype.kind == "complex":
        product = _as_real(product, places, before, scratch, request.info)
    wanted = request.candidates
    if request.info.max_units >= _UNITS:
        able, dropped = ways(product, places, request.info, wanted, len(scratch))
        works = (
            Work(
                (*before, *way.before, way.launch, *way.after),
                (*scratch, *way.scratch),
                variant=way.name,
                group=way.group,
            )
            for way in able
        )
        return Candidates.of(works, dropped)
    made: list[Variant | Dropped] = []
    few = dots(product, request.info)
    if few is not None:
        made.append(Variant("dots", 0, few))
    rows = streams(product, request.info)
    # Tiles read weights that are packed once faster, except for a single row or two.
    if rows is not None and (1 not in request.kept or product.m <= 2):
        made.append(Variant("streams", 0, rows))
    blueprint = packed(product, request.info)
    if 1 in request.kept:
        blueprint = replace(blueprint, pack_b=True)
    made.append(Variant("tiles", 0, blueprint))
    if wanted:
        made += few_row_variants(product, request.info)
        made += tile_variants(product, blueprint, request.info)
    works = (_work(product, v, places, before, scratch) for v in made if isinstance(v, Variant))
    return Candidates.of(works, (v for v in made if isinstance(v, Dropped)))


def _work(
    product: Product,
    variant: Variant,
    places: Sequence[Argument],
    before: Sequence[Launch],
    scratch: Sequence[int],
) -> Work:
    blueprint = variant.blueprint
    if isinstance(blueprint, Packed):
        made = _packed(product, blueprint, places, before, scratch)
        return replace(made, variant=variant.name, group=variant.group)
    way = dots_launch if isinstance(blueprint, Dots) else _streams
    launches = (*before, way(product, blueprint, places))  # type: ignore[arg-type]
    return Work(launches, tuple(scratch), variant=variant.name, group=variant.group)


def _prepared(view: View, source: Argument, scratch: int, info: DeviceInfo) -> list[Launch]:
    launches = copy_to_scratch(view, source, scratch, info)
    return [replace(launch, prepares=True) for launch in launches]


def _as_real(
    product: Product,
    places: list[Argument],
    before: list[Launch],
    scratch: list[int],
    info: DeviceInfo,
) -> Product:
    """Return a complex product as a real one; A is contiguous along K, or copied."""
    a, b = product.a, product.b
    part = _PARTS[product.dtype]
    if a.depth != 1 and product.k > 1:
        shape = (*product.batch, product.m, product.k)
        view = View(shape, (*a.batch, a.free, a.depth), a.dtype, a.offset)
        before += _prepared(view, places[0], len(scratch), info)
        places[0] = Scratch(len(scratch))
        scratch.append(view.size * a.dtype.itemsize)
        outer = product.m * product.k
        a = Operand((product.batch[1] * outer, outer), product.k, 1, 0, a.dtype)
    count = product.batches * product.k * product.n
    numbers = (
        count,
        product.n,
        product.k,
        b.depth,
        b.free,
        product.batch[1],
        *b.batch,
        b.offset,
    )
    target = Scratch(len(scratch))
    turns = 256
    read, written = Buffer(part, writable=False), Buffer(part)
    signature: tuple[Buffer | Scalar, ...] = (read, written, *_declared(numbers))
    build = Build(expand_complex, signature, (("turns", turns),))
    if count:
        before.append(
            Launch(
                build,
                (-(-count // turns), 1, 1),
                (places[1], target, *numbers),
                0,
                24 * count,
                "matmul complex",
                prepares=True,
            )
        )
    places[1] = target
    scratch.append(4 * count * part.itemsize)
    whole = 4 * product.k * product.n
    left = Operand((2 * a.batch[0], 2 * a.batch[1]), 2 * a.free, 1, 2 * a.offset, part)
    right = Operand((whole * product.batch[1], whole), 1, 2 * product.n, 0, part)
    return Product(product.batch, product.m, 2 * product.n, 2 * product.k, left, right, part)


def dots_launch(product: Product, blueprint: Dots, places: Sequence[Argument]) -> Launch:
    """Return the launch of a product whose operands are dense along the K axis."""
    a, b = product.a, product.b
    numbers = (
        product.m,
        product.n,
        product.k,
        a.free,
        b.free,
        product.batch[1],
        *a.batch,
        a.offset,
        *b.batch,
        b.offset,
        blueprint.block,
    )
    build = Build(
        dot_rows,
        (_read(a), _read(b), Buffer(product.dtype), *_declared(numbers)),
        _keywords(blueprint),
    )
    cubes = (-(-product.n // blueprint.block), -(-product.m // blueprint.rows), product.batches)
    label = f"matmul dots {blueprint.rows}x{blueprint.columns}"
    arguments = (*places, Output(0), *numbers)
    return Launch(build, cubes, arguments, product.flops, product.nbytes, label)


def _streams(product: Product, blueprint: Streams, places: Sequence[Argument]) -> Launch:
    a, b = product.a, product.b
    numbers = (
        product.m,
        product.n,
        product.k,
        a.free,
        a.depth,
        b.depth,
        product.batch[1],
        *a.batch,
        a.offset,
        *b.batch,
        b.offset,
        blueprint.block,
    )
    build = Build(
        scaled_rows,
        (_read(a), _read(b), Buffer(product.dtype), *_declared(numbers)),
        _keywords(blueprint),
    )
    cubes = (-(-product.n // blueprint.block), -(-product.m // blueprint.rows), product.batches)
    arguments = (*places, Output(0), *numbers)
    return Launch(build, cubes, arguments, product.flops, product.nbytes, "matmul streams")


def _packed(
    product: Product,
    blueprint: Packed,
    places: Sequence[Argument],
    before: Sequence[Launch],
    scratch: Sequence[int],
) -> Work:
    launches, sizes = list(before), list(scratch)
    p, group, width = blueprint, blueprint.group, blueprint.width
    groups = -(-product.k // group)
    a, b = product.a, product.b
    a_place, b_place = places
    element = a.dtype if group > 1 else p.accumulate
    if p.pack_a:
        launches.append(
            pack_operand(
                product.m,
                product.k,
                product.batch,
                a,
                p.rows,
                p.rows,
                group,
                element,
                a_place,
                Scratch(len(sizes)),
            )
        )
        panels = -(-product.m // p.rows)
        a_place = Scratch(len(sizes))
        sizes.append(product.batches * panels * p.rows * groups * group * element.itemsize)
        whole = panels * p.rows * groups * group
        a_numbers = (groups * group, product.batch[1], whole * product.batch[1], whole, 0)
        a_depth = p.rows * group
    else:
        a_numbers = (a.free, product.batch[1], *a.batch, a.offset)
        a_depth = group
    if p.pack_b:
        launches.append(
            pack_operand(
                product.n,
                product.k,
                product.batch,
                b,
                width,
                p.lanes,
                group,
                element,
                b_place,
                Scratch(len(sizes)),
            )
        )
        panels = -(-product.n // width)
        b_place = Scratch(len(sizes))
        sizes.append(product.batches * panels * width * groups * group * element.itemsize)
        whole = panels * width * groups * group
        row = width * group
        b_numbers = (groups * row, row, whole * product.batch[1], whole, 0)
    else:
        b_numbers = (width, b.depth, *b.batch, b.offset)
    # The whole K axis is one pass if it is not much longer than one.
    depth = p.depth if p.depth < groups else 1 << 40
    blocks = (p.block_rows, p.block_panels, depth)
    numbers = (product.m, product.n, groups, *a_numbers, *b_numbers, *blocks)
    build = Build(
        packed_matmul,
        (
            Buffer(element, writable=False) if p.pack_a else _read(a),
            Buffer(element, writable=False) if p.pack_b else _read(b),
            Buffer(product.dtype),
            *_declared(numbers),
        ),
        tuple(
            sorted(
                {
                    "rows": p.rows,
                    "vectors": p.vectors,
                    "lanes": p.lanes,
                    "group": group,
                    "accumulate": p.accumulate,
                    "a_depth": a_depth,
                    "a_panels": p.pack_a,
                    "packed": p.pack_b,
                    "ragged": not p.pack_b and product.n % width != 0,
                    "unroll": p.unroll,
                }.items()
            )
        ),
    )
    panels = -(-product.n // width)
    cubes = (
        -(-panels // p.block_panels),
        -(-product.m // p.block_rows),
        product.batches,
    )
    launches.append(
        Launch(
            build,
            cubes,
            (a_place, b_place, Output(0), *numbers),
            product.flops,
            product.nbytes,
            f"matmul {p.rows}x{width}",
        )
    )
    return Work(tuple(launches), tuple(sizes))


def pack_operand(
    n: int,
    k: int,
    batch: tuple[int, int],
    operand: Operand,
    width: int,
    lanes: int,
    group: int,
    element: DType,
    source: Argument,
    target: Argument,
) -> Launch:
    """Return the launch that packs ``k`` by ``n`` elements to panels of ``width`` columns.

    The operand's free axis has ``n`` elements, and its K axis ``k``.
    """
    square = operand.depth == 1 and operand.free != 1 and group == 1 and lanes & (lanes - 1) == 0
    function: KernelFunction = pack_transposed if square else pack
    rows = _PACK_ROWS if square else _PACK_STREAMS
    order = "columns" if operand.free == 1 else "any"
    numbers = (n, k, operand.depth, operand.free, batch[1], *operand.batch, operand.offset)
    keywords: dict[str, Any] = {
        "width": width,
        "lanes": lanes,
        "group": group,
        "order": order,
        "rows": rows,
    }
    build = Build(
        function,
        (Buffer(operand.dtype, writable=False), Buffer(element), *_declared(numbers)),
        tuple(sorted(keywords.items())),
    )
    groups = -(-k // group)
    panels = -(-n // width)
    across = panels if square else 1
    cubes = (across, greatest(1, -(-groups // rows)), batch[0] * batch[1])
    nbytes: int = n * k * batch[0] * batch[1] * (operand.dtype.itemsize + element.itemsize)
    arguments = (source, target, *numbers)
    return Launch(build, cubes, arguments, 0, nbytes, "matmul pack", prepares=True)


def _read(operand: Operand) -> Buffer:
    return Buffer(operand.dtype, writable=False)


def _declared(numbers: Sequence[int]) -> tuple[Scalar, ...]:
    return tuple(_SIZE if n >= 0 else _STRIDE for n in numbers)


def _keywords(blueprint: Dots | Streams) -> tuple[tuple[str, Any], ...]:
    names = sorted(f.name for f in fields(blueprint) if f.name != "block")
    return tuple((name, getattr(blueprint, name)) for name in names)
