"""Lowering of attention: the table of ways of its three ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from calor.dtypes import bool_
from calor.specs import Spec
from calor_kernel.contract.choices import spec_of
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.ways import Table, Way, ranked
from calor_kernel.contract.work import (
    Candidates,
    Input,
    Output,
    Refusal,
    Request,
    Scratch,
    View,
    Work,
)
from calor_kernel.library.attention.bias_gradient import BiasParts
from calor_kernel.library.attention.bias_gradient_mma_launch import (
    bias_gradient_by_mma,
    bias_mma_refusal,
)
from calor_kernel.library.attention.cpu_heads_launch import (
    forward_by_heads,
    gradients_by_heads,
    heads_gradient_refusal,
    heads_refusal,
)
from calor_kernel.library.attention.cpu_launch import (
    bias_gradient_by_tiles,
    forward_by_tiles,
    forward_tiles,
    gradient_tiles,
    gradients_by_tiles,
)
from calor_kernel.library.attention.cpu_tile_gradient import (
    gradient_tiles_refusal,
    gradients_by_tile_registers,
)
from calor_kernel.library.attention.cpu_tile_registers import (
    forward_by_tile_registers,
    tile_registers_refusal,
)
from calor_kernel.library.attention.cpu_tiles import Tiles
from calor_kernel.library.attention.mma_launch import forward_by_mma, gradients_by_mma, mma_refusal
from calor_kernel.library.attention.operand_copies import after_copies, with_copies
from calor_kernel.library.attention.operands import has_whole_rows, reads_in_place
from calor_kernel.library.attention.problem import TURNED, Attention, attention_of
from calor_kernel.library.attention.products import (
    forward_by_products,
    gradients_by_products,
    products_refusal,
)
from calor_kernel.library.attention.simt_launch import (
    bias_gradient_by_simt,
    forward_by_simt,
    gradients_by_simt,
)
from calor_kernel.library.attention.split_gradient_launch import (
    gradient_split_refusal,
    gradients_by_splits,
)
from calor_kernel.library.attention.split_keys_launch import forward_by_splits, split_refusal
from calor_kernel.library.copying import dense_copy
from calor_kernel.library.steps import redirected

# The tier of cubes that compute scores one by one.
_LAST: Final = 2
_SPLITS: Final = "split keys"
_REGISTERS: Final = "tile registers"
_HEADS: Final = "heads"
# The ways of gradients that compute delta themselves.
_OF_ROWS: Final = (_SPLITS, _HEADS)
_PRODUCTS: Final = "products"
_DENSE: Final = "its results are dense"


@dataclass(frozen=True, slots=True)
class Task:
    """A problem, the bias whose gradient is wanted, and register tiles for cubes of one unit.

    ``tiles`` is None if cubes have many units, or private memory does not hold the tiles.
    """

    problem: Attention
    tiles: Tiles | None
    bias: BiasParts | None = None


def _no_tiles(task: Task, request: Request) -> str | None:
    if request.info.max_units > 1:
        return "cubes have many units"
    if any(task.problem.turned):
        return _DENSE
    return None if task.tiles else "private memory holds no rows of so many features"


def _tiles_serve(task: Task, request: Request) -> str | None:
    if any(task.problem.turned):
        return _DENSE
    return "register tiles serve cubes of one unit" if task.tiles else None


def _by_tiles(make: Callable[..., Iterable[Work]]) -> Way[Task]:
    return Way(
        "register tiles",
        _no_tiles,
        lambda task, request: make(task.bias or task.problem, task.tiles, request),
    )


def _by_simt(make: Callable[..., Iterable[Work]]) -> Way[Task]:
    return Way(
        "simt",
        _tiles_serve,
        lambda task, request: make(task.bias or task.problem, request),
        tier=_LAST,
    )


def _by_mma(make: Callable[[Attention, Request], Iterable[Work]]) -> Way[Task]:
    return Way(
        "mma",
        lambda task, request: mma_refusal(task.problem, request),
        lambda task, request: make(task.problem, request),
    )


def _by_copies(table: Callable[[], Table[Task]], first: int = 0) -> Way[Task]:
    """Return the ways of matrix instructions after copies; ``first``: the query's number."""

    def refuses(task: Task, request: Request) -> str | None:
        asked = with_copies(task.problem, request)
        if asked is None:
            return "rows are dense and begin at whole accesses"
        return mma_refusal(attention_of(asked, first), asked)

    def works(task: Task, request: Request) -> Iterable[Work]:
        asked = with_copies(task.problem, request)
        assert asked is not None
        for work in ranked(table(), Task(attention_of(asked, first), None), asked):
            if work.group < _LAST:
                yield after_copies(task.problem, request, work)

    return Way("operand copies", refuses, works, spare=True)


def gradient_of_rows(problem: Attention, request: Request) -> Work | None:
    """Return the work of the gradients by a way that has all rows of a head, None without one.

    Such a way is of one launch, which computes delta itself. None also if another way is chosen.
    """
    if all(
        refuses(problem, request) for refuses in (heads_gradient_refusal, gradient_split_refusal)
    ):
        return None
    (work,) = ranked(GRADIENT, Task(problem, None), replace(request, candidates=False))[:1]
    return work if isinstance(work.way, Way) and work.way.name in _OF_ROWS else None


def reads_upstream(problem: Attention, request: Request) -> bool:
    """Return whether the gradients' first choice reads the upstream gradient as it lies."""
    view = request.inputs[0]
    if reads_in_place(view, request.info):
        return True
    return has_whole_rows(view) and heads_gradient_refusal(problem, request) is None


def _named(
    name: str,
    refusal: Callable[[Attention, Request], str | None],
    make: Callable[[Attention, Request], Iterable[Work]],
) -> Way[Task]:
    return Way(
        name,
        lambda task, request: refusal(task.problem, request),
        lambda task, request: make(task.problem, request),
    )


def _bias_refusal(task: Task, request: Request) -> str | None:
    assert task.bias is not None
    return bias_mma_refusal(task.bias, request)


def _bias_by_mma(task: Task, request: Request) -> Iterable[Work]:
    assert task.bias is not None
    return bias_gradient_by_mma(task.bias, request)


# The ways of each op, the most promising first.
FORWARD: Final[Table[Task]] = Table(
    "attention",
    _named(_HEADS, heads_refusal, forward_by_heads),
    _named(_REGISTERS, tile_registers_refusal, forward_by_tile_registers),
    _by_tiles(forward_by_tiles),
    _named(_SPLITS, split_refusal, forward_by_splits),
    _named(_PRODUCTS, products_refusal, forward_by_products),
    *(_by_mma(forward_by_mma), _by_copies(lambda: FORWARD), _by_simt(forward_by_simt)),
)
GRADIENT: Final[Table[Task]] = Table(
    "attention_gradient",
    _named(_HEADS, heads_gradient_refusal, gradients_by_heads),
    _named(_REGISTERS, gradient_tiles_refusal, gradients_by_tile_registers),
    _by_tiles(gradients_by_tiles),
    _named(_SPLITS, gradient_split_refusal, gradients_by_splits),
    _named(_PRODUCTS, products_refusal, gradients_by_products),
    *(_by_mma(gradients_by_mma), _by_copies(lambda: GRADIENT, 3), _by_simt(gradients_by_simt)),
)
BIAS_GRADIENT: Final = (
    _by_tiles(bias_gradient_by_tiles),
    Way("mma", _bias_refusal, _bias_by_mma),
    _by_simt(bias_gradient_by_simt),
)


def attention(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of attention, the likeliest first."""
    problem = attention_of(request)
    if not problem.rows:
        return [Work(())]
    refused = order_refusal(request)
    if refused is not None:
        return refused
    task = Task(problem, _tiles(forward_tiles, problem, request))
    return ranked(FORWARD, task, request) or Refusal(_DENSE)


def order_refusal(request: Request) -> Refusal | None:
    """Return why results cannot have the orders of axes that are wanted, if there are such."""
    if any(order not in (None, TURNED) for order in request.attributes.get("orders", ())):
        return Refusal("results are dense, or their rows come before their heads")
    return None


def gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradients of query, key and value, the likeliest first."""
    refused = order_refusal(request)
    if refused is not None:
        return refused
    view, problem = request.inputs[0], attention_of(request, 3)
    if not reads_upstream(problem, request):
        known = spec_of(view.shape, view.dtype)
        inner = replace(request, inputs=(View.dense(known), *request.inputs[1:]))
        found = gradient(inner)
        if isinstance(found, Refusal):
            return found
        dropped = found.dropped if isinstance(found, Candidates) else ()
        return Candidates.of((_copying(work, view, known, request) for work in found), dropped)
    task = Task(problem, _tiles(gradient_tiles, problem, request))
    return ranked(GRADIENT, task, request) or Refusal(_DENSE)


def _copying(work: Work, view: View, known: Spec, request: Request) -> Work:
    """Return a work of a dense first operand for one that is copied first."""
    room = Scratch(len(work.scratch))
    copies = [
        redirected(launch, {Output(0): room}) for launch in dense_copy(view, known, request.info)
    ]
    launches = [redirected(launch, {Input(0): room}) for launch in work.launches]
    scratch = (*work.scratch, view.size * int(view.dtype.itemsize))
    return replace(work, launches=(*copies, *launches), scratch=scratch)


def bias_gradient(request: Request) -> Sequence[Work]:
    """Return the works of the gradient of the bias, the likeliest first."""
    problem = attention_of(request, 3)
    (bias,) = (v for v in request.inputs[6:] if v.dtype is not bool_)
    if not bias.size:
        return [Work(())]
    parts = BiasParts(problem, bias.shape, bias.dtype)
    tiles = _tiles(gradient_tiles, problem, request)
    return ranked(BIAS_GRADIENT, Task(problem, tiles, parts), request)


def _tiles(
    make: Callable[[Attention, DeviceInfo], Tiles | None], problem: Attention, request: Request
) -> Tiles | None:
    return make(problem, request.info) if request.info.max_units == 1 else None
