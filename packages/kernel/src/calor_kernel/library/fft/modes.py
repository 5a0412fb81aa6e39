"""Transforms as products with a matrix of turns: of few modes, or of short lengths.

Requirements: along the last axis the product is a real one, of the numbers of an operand's elements
by those of the result's, and products do the work. Along another axis vectors run along the axes
inside, and a unit has some bins of each. The matrix holds the factor and the weights of the bins,
and is computed once. Of a bin that is its own mirror image the imaginary part is neither read nor
computed: a weight of zero would make NaN of what is not finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, Generic, TypedDict, TypeVar, cast

from calor.dtypes import DType, bool_, complex64, complex128, float32, float64
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest, spec_of
from calor_kernel.contract.launching import Bound, Effort, Grid, Typed, launch
from calor_kernel.contract.work import Argument, Input, Output, Refusal, Request, View, Work
from calor_kernel.library.copying.transfer import index_of
from calor_kernel.library.elementwise.operations import Expression, Step
from calor_kernel.library.fft.kernels import along, turn_of
from calor_kernel.library.fft.step_layout import (
    Read,
    RowLayout,
    Rows,
    Storage,
    Vectors,
    Written,
    own_mirror_image,
)
from calor_kernel.library.matmul.product_chain import PRODUCT_CHAIN
from calor_kernel.library.steps import Steps

# Bins of a unit, and the vectors of a cube of one.
_BINS: Final = 4
_SHARE: Final = 16
_PARTS: Final = {complex64: float32, complex128: float64}


class ModesAttributes(TypedDict):
    """A transform along an ``axis`` whose operand has the elements ``given`` of ``length``.

    The result has the bins ``kept``, or elements of real space; ``real``: their real parts alone.
    """

    kind: str
    axis: int
    length: int
    given: tuple[int, int]
    kept: tuple[int, int]
    real: bool
    scale: complex


@dataclass(frozen=True, slots=True)
class MatrixForm:
    """What a build knows of a matrix of turns.

    ``reads`` and ``writes``: whether elements of the operand, and of the result, are pairs.
    ``inverse``: whether angles are positive. ``halved``: whether bins stand for their mirror
    images too; ``lone``: whether some of the result, which are their own, have no imaginary part.
    ``bins``: for the form of columns the result's elements of a block, else 0.
    """

    reads: bool
    writes: bool
    inverse: bool
    halved: bool
    lone: bool = False
    bins: int = 0


N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Modes(Generic[N]):
    """A transform's ``length``, its elements ``given`` from ``low`` on, and bins from ``first``."""

    length: kl.SizeOf[N]
    given: kl.SizeOf[N]
    kept: kl.SizeOf[N]
    low: kl.SizeOf[N]
    first: kl.SizeOf[N]


@kl.kernel
def mode_matrix(
    table: kl.Out, over: Modes[kl.Number], scale: kl.Element, *, form: MatrixForm
) -> None:
    """Write the turns of each element and bin, as the blocks of a real matrix or as pairs.

    Where bins are ``lone``, a row behind those of a matrix has 0 for what is not computed, else 1.
    """
    at = kl.absolute_position()
    if at < over.given * over.kept:
        j, k = at // over.kept, at % over.kept
        n, element = over.length, over.low + j
        real, imaginary = turn_of(element * (over.first + k) % n, n, table.dtype)
        factor = kl.splat(scale, 1)
        if form.halved:
            lone = own_mirror_image(element, n)
            factor = kl.select(lone, factor, 2 * factor)
        real, imaginary = real * factor, imaginary * (-factor if form.inverse else factor)
        if form.bins > 0:
            table[2 * at] = real
            table[2 * at + 1] = imaginary
        elif form.writes:
            columns = 2 * over.kept
            to = (2 * j if form.reads else j) * columns + 2 * k
            table[to] = real
            table[to + 1] = imaginary
            if form.lone:  # noqa: SIM102
                # Of these questions one is the build's, the other a unit's.
                if j == 0:
                    behind = over.given * columns + 2 * k
                    none, some = kl.constant(0, table.dtype), kl.constant(1, table.dtype)
                    table[behind] = some
                    table[behind + 1] = kl.select(own_mirror_image(over.first + k, n), none, some)
            if form.reads:
                table[to + columns] = -imaginary
                table[to + columns + 1] = real
        else:
            to = (2 * j if form.reads else j) * over.kept + k
            table[to] = real
            if form.reads:
                table[to + over.kept] = -imaginary


@kl.kernel
def mode_columns(
    source: Read[kl.Pointer],
    target: Written[kl.Pointer],
    table: kl.In,
    over: Rows[kl.Number],
    kept: kl.Size,
    low: kl.Size,
    length: kl.Size,
    *,
    vectors: Vectors,
    form: MatrixForm,
) -> None:
    """Compute bins of a vector of transforms that lie beside each other, from all elements.

    Bins, of the operand or of the result, are those from ``low`` on of transforms of ``length``.
    """
    inner, width, bins, dtype = over.inner, vectors.width, form.bins, table.dtype
    loads = RowLayout(source, Storage("pairs" if form.reads else "real"), over.n, inner)
    stores = RowLayout(target, Storage("pairs" if form.writes else "real"), kept, inner)
    blocks, lines = (kept + bins - 1) // bins, (inner + width - 1) // width
    start = kl.absolute_position() * vectors.share
    for u in kl.range(start, kl.min(start + vectors.share, over.rows * blocks * lines)):
        t, rest = u % lines * width, u // lines
        first, row = rest % blocks * bins, rest // blocks
        inside = along(t, width) < inner
        base = loads.row(row)
        sums = kl.registers((bins, 2), dtype, width)
        for j in kl.loop_range(over.n):
            real, imaginary = loads.load(base, j * inner + t, width, inside)
            if form.halved:
                lone = kl.splat(own_mirror_image(low + j, length), width)
                imaginary = kl.select(lone, 0.0, imaginary)
            at = 2 * (j * (blocks * bins) + first)
            for b in range(bins):
                c, s = table[at + 2 * b], table[at + 2 * b + 1]
                sums[b, 0] = kl.fma(real, kl.splat(c, width), sums[b, 0])
                if form.reads:
                    sums[b, 0] = kl.fma(imaginary, kl.splat(-s, width), sums[b, 0])
                if form.writes:
                    sums[b, 1] = kl.fma(real, kl.splat(s, width), sums[b, 1])
                if form.reads and form.writes:
                    sums[b, 1] = kl.fma(imaginary, kl.splat(c, width), sums[b, 1])
        base = stores.row(row)
        for b in range(bins):
            mask = inside & (first + b < kept)
            value = sums[b, 0], sums[b, 1]
            if form.lone:
                own = kl.splat(own_mirror_image(low + (first + b), length), width)
                value = value[0], kl.select(own, 0.0, value[1])
            stores.store(base, (first + b) * inner + t, value, width, mask)


def lower_modes(request: Request) -> Sequence[Work] | Refusal:
    """Lower a transform whose attributes are those of :class:`ModesAttributes`."""
    said = cast(ModesAttributes, request.attributes)
    (x,), (result,) = request.inputs, request.outputs
    part = result.dtype if not result.dtype.is_complex else _PARTS[result.dtype]
    if part not in request.info.dtypes:
        return Refusal(f"the device does not compute in {part}")
    form = MatrixForm(
        x.dtype.is_complex,
        result.dtype.is_complex,
        said["kind"] in ("inverse", "c2r"),
        said["kind"] == "c2r",
        said["kind"] == "r2c" and result.dtype.is_complex and _has_lone(said),
    )
    axis = said["axis"]
    inner = prod(x.shape[axis + 1 :])
    rows = prod(x.shape[:axis])
    plan = _Modes(request, said, form, part)
    # A transform of the first bin alone has no product.
    if inner == 1 and plan.numbers()[1] > plan.numbers()[0]:
        plan.product(rows)
    else:
        plan.columns(rows, inner)
    return [plan.work()]


def _has_lone(said: ModesAttributes) -> bool:
    """Return whether some of the result's bins are their own mirror images."""
    first, behind = said["kept"]
    return first == 0 or 2 * (behind - 1) == said["length"]


class _Modes(Steps):
    """The launches of one transform."""

    def __init__(
        self, request: Request, said: ModesAttributes, form: MatrixForm, part: DType
    ) -> None:
        super().__init__()
        self.request, self.said, self.form, self.part = request, said, form, part
        self.given = said["given"][1] - said["given"][0]
        self.kept = said["kept"][1] - said["kept"][0]

    def matrix(self, form: MatrixForm, before: int, after: int) -> Bound:
        """Return the matrix, which one launch computes for all calls."""
        info, said = self.request.info, self.said
        table = self.room((before + form.lone) * after, self.part)
        kept = -(-self.kept // form.bins) * form.bins if form.bins else self.kept
        count, units = self.given * kept, min(info.max_units, 128)
        made = launch(
            mode_matrix,
            Grid.line(-(-count // units), units),
            Effort("fft modes matrix", 0, before * after * self.part.itemsize),
            table=table,
            over=Modes(said["length"], self.given, kept, said["given"][0], said["kept"][0]),
            scale=Typed(complex(said["scale"]).real, self.part),
            form=form,
        )
        self.launches.append(replace(made, prepares=True))
        return table

    def numbers(self) -> tuple[int, int]:
        """Return the first and the last of an operand's numbers of a transform in its product.

        The first bin of a halved transform is beside it, and the last one may be real.
        """
        low, high = self.said["given"]
        first, last = 0, self.given * (1 + self.form.reads)
        if self.form.halved:
            first = 2 if low == 0 else 0
            last -= 1 if 2 * (high - 1) == self.said["length"] else 0
        return first, last

    def product(self, rows: int) -> None:
        """Add a real product along the last axis."""
        request, form = self.request, self.form
        (x,), part = request.inputs, self.part
        before, after = self.given * (1 + form.reads), self.kept * (1 + form.writes)
        table = self.matrix(form, before, after)
        first, last = self.numbers()
        base = x.offset * (1 + form.reads)
        source = View((rows, last - first), (before, 1), part, base + first)
        matrix = View((last - first, after), (after, 1), part, first * after)
        operands: list[tuple[View, Argument]] = [(source, Input(0)), (matrix, table.place)]
        said: dict[str, Any] = {"contract": ((1,), (0,)), "batch": ((), ()), "dtype": part}
        result = spec_of((rows, after), part)
        if first:
            said |= {"product": result, "expression": _beside(part), "operands": ((2, ()), (3, ()))}
            operands += [
                (View((rows, after), (before, 0), part, base), Input(0)),
                (View((rows, after), (0, 1), part), table.place),
            ]
        if form.lone:
            said |= {"product": result, "expression": _masked(part), "operands": ((2, ()),)}
            operands += [(View((rows, after), (0, 1), part, before * after), table.place)]
        op = PRODUCT_CHAIN if "expression" in said else "dot_general"
        self.include(request, op, said, operands, [(result, Output(0))])

    def columns(self, rows: int, inner: int) -> None:
        """Add a launch with vectors along the axes inside."""
        info, form, part = self.request.info, self.form, self.part
        (x,) = self.request.inputs
        units = min(info.max_units, 128)
        width = 1 if units > 1 else max(1, info.vector_bytes // part.itemsize)
        share = 1 if units > 1 else _SHARE
        blocks = -(-self.kept // _BINS)
        # Bins beyond the last have turns too.
        form = replace(form, bins=_BINS)
        table = self.matrix(form, self.given, 2 * blocks * _BINS)
        vectors = rows * blocks * -(-inner // width)
        flops = 2 * rows * inner * self.given * self.kept * (1 + form.reads) * (1 + form.writes)
        nbytes = (
            rows
            * inner
            * part.itemsize
            * (self.given * (1 + form.reads) + self.kept * (1 + form.writes))
        )
        reach = 2 * rows * inner * greatest(self.given, self.kept)
        source = Bound(Input(0, x.offset * (1 + form.reads)), part)
        target = Bound(Output(0), part)
        self.add(
            mode_columns,
            Grid.line(-(-vectors // (units * share)), units, index=index_of([reach], info)),
            Effort("fft modes", flops, nbytes),
            source=Read(source, source),
            target=Written(target, target),
            table=table,
            over=Rows(rows, self.given, inner),
            kept=self.kept,
            low=self.said["kept" if form.lone else "given"][0],
            length=self.said["length"],
            vectors=Vectors(width, share),
            form=form,
        )


def _beside(part: DType) -> Expression:
    """Return a product plus the first bin, which is an operand, by its turns."""
    return Expression((part,) * 3, (Step("mul", (1, 2), part), Step("add", (0, 3), part)), (4,))


def _masked(part: DType) -> Expression:
    """Return a product where an operand is not 0, else that."""
    return Expression(
        (part,) * 2, (Step("cast", (1,), bool_), Step("where", (2, 0, 1), part)), (3,)
    )
