"""Cells: what a step of a recurrent scan computes for each of its features.

Requirements: a step has one product of matrices, whose weights stay. All else is elementwise, so a
feature of a sample needs of other features only what the product sums. Values with several times as
many columns as a carry are *blocks* beside each other, such as gates; parts and joins of whole
blocks move nothing. The ops of a step are an expression before the product and one behind it, with
the bits of the single ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from calor.config import HIGHEST
from calor.dtypes import DType
from calor.graph.graph import Graph, Node
from calor.precision import rounds
from calor_kernel.library.elementwise.operations import ROWS, Expression, Step

Kind = Literal["carry", "row", "held", "context", "constant"]
# The block of a value that all features share, of all samples or of each.
SHARED: Final = -1
SAMPLE: Final = -2
PRODUCT: Final = "dot_general"
REAL: Final = ("bool", "int", "uint", "float")


@dataclass(frozen=True, slots=True)
class Source:
    """A number that a feature's step reads.

    ``kind``: a carry, a block of a row of the step, of a vector that stays, or of a matrix of
    samples that stays, or a constant of some ``value``. ``number``: which carry, row or capture of
    the scan. ``block``: which block of features, or whether features share the number.
    """

    kind: Kind
    number: int
    block: int
    dtype: DType
    value: bool | int | float = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A step of a recurrent scan, for one feature of one sample.

    ``before`` computes of ``sources`` the ``factors`` of the product, a block each, and then what
    is kept for later. ``after`` computes of the kept numbers and of the product's ``sums``, a block
    each, the new carries, and then the blocks of the stacked rows. ``weight``: the number of the
    capture with the product's weights; ``turned``: whether the sums are their rows. ``dtype``: of
    the product. ``rounded``: whether factors of float32 may be rounded.
    """

    sources: tuple[Source, ...]
    before: Expression
    after: Expression
    factors: int
    sums: int
    carries: int
    weight: int
    turned: bool
    dtype: DType
    rounded: bool

    @property
    def factor(self) -> DType:
        """The dtype of the product's factors."""
        return self.before.outputs[0]

    @property
    def rows(self) -> int:
        """The blocks of all rows that a step reads."""
        return sum(source.kind == "row" for source in self.sources)

    @property
    def kept(self) -> int:
        """The numbers of a feature of a sample that stay."""
        return sum(source.kind in ("held", "context") for source in self.sources)

    @property
    def stacked(self) -> int:
        """The blocks of all stacked rows of a step."""
        return len(self.after.results) - self.carries


class Unfit(Exception):
    """A step is no cell; the message says why."""


def cell_of(body: Graph, carries: int, captures: int) -> Cell:
    """Return the step of a scan as a cell.

    Parameters
    ----------
    body : Graph
        The scan's body; its inputs are carries, rows and captures, its outputs carries and rows.
    carries, captures : int
        How many inputs are carries, and how many stay.

    Returns
    -------
    Cell
        The step.

    Raises
    ------
    Unfit
        If the step is none of a feature beside one product.
    """
    return _Search(body, carries, captures).cell()


def number_of(full: Node, dtype: DType) -> bool | int | float:
    """Return the number of a ``full`` of a dtype."""
    number = np.frombuffer(full.attributes["value"].bits, dtype.numpy)[0]
    return number.item() if dtype.kind != "float" else float(number)


@dataclass(frozen=True, slots=True)
class _Made:
    """A number that a step of an expression makes, or a sum of the product (without ``op``)."""

    op: str
    operands: tuple[int, ...]
    dtype: DType
    attributes: tuple[tuple[str, Any], ...] = ()
    block: int = 0


class _Search:
    """The numbers of a body by their places, found from the outputs on."""

    def __init__(self, body: Graph, carries: int, captures: int) -> None:
        self.body = body
        self.carries = carries
        self.held = len(body.inputs) - captures
        self.makers = {v: node for node in body.nodes for v in node.outputs}
        specs = [body.specs[v] for v in body.inputs[:carries]]
        if not specs or any(s.ndim != 2 or s.shape != specs[0].shape for s in specs):
            raise Unfit("its carries are not samples by features of one shape")
        self.shape = specs[0].shape
        self.items: list[Source | _Made] = []
        self.places: dict[Source | _Made, int] = {}
        self.late: set[int] = set()
        self.blocks: dict[int, tuple[int, ...]] = {}
        self.columns = self._columns()
        self.product = self._product()

    def _product(self) -> Node:
        stay = {*self.body.inputs[self.held :]}
        found = []
        for node in self.body.nodes:
            if stay.issuperset(node.inputs):
                stay.update(node.outputs)
            elif node.op.name == PRODUCT:
                found.append(node)
        if len(found) != 1:
            raise Unfit(f"its steps have {len(found)} products")
        (node,) = found
        left, _ = node.inputs
        plain = self.body.specs[left].ndim == 2 and node.attributes["batch"] == ((), ())
        if not plain or node.attributes["contract"][0] != (1,):
            raise Unfit("its product does not sum over features")
        return node

    def _weight(self) -> tuple[int, bool]:
        """Return the weights' number among the captures, and whether sums are their rows."""
        value, turned = self.product.inputs[1], self.product.attributes["contract"][1] == (1,)
        while value in self.makers and self.makers[value].op.name == "permute":
            axes = self.makers[value].attributes["axes"]
            value, turned = self.makers[value].inputs[0], turned != (axes == (1, 0))
        if value not in self.body.inputs[self.held :] or self.body.specs[value].ndim != 2:
            raise Unfit("the right factor of its product is no matrix that stays")
        return value - self.held, turned

    def cell(self) -> Cell:
        """Return the whole as a cell."""
        body, node = self.body, self.product
        left, _ = node.inputs
        weight, turned = self._weight()
        factors = self.of(left)
        if not self.late.isdisjoint(factors):
            raise Unfit("its product reads its own result")
        results = list[int]()
        for number, value in enumerate(body.outputs):
            blocks = self.of(value)
            wanted = 1 if number < self.carries else self._count(value)
            results += blocks * wanted if len(blocks) < wanted else blocks
        early = [n for n in range(len(self.items)) if n not in self.late]
        made_late = [n for n in sorted(self.late) if self._made(n).op]
        read = [k for n in made_late for k in self._made(n).operands]
        kept = [n for n in dict.fromkeys([*read, *results]) if n not in self.late]
        sources = [n for n in early if isinstance(self.items[n], Source)]
        steps = [n for n in early if not isinstance(self.items[n], Source)]
        sums = self.of(node.outputs[0])
        return Cell(
            tuple(self._source(n) for n in sources),
            self._expression(sources, steps, [*factors, *kept]),
            self._expression([*kept, *sums], made_late, results),
            len(factors),
            len(sums),
            self.carries,
            weight,
            turned,
            body.specs[node.outputs[0]].dtype,
            rounds(node.attributes.get("precision", HIGHEST)),
        )

    def _expression(
        self, operands: Sequence[int], steps: Sequence[int], results: Sequence[int]
    ) -> Expression:
        order = {n: k for k, n in enumerate((*operands, *steps))}
        made = tuple(
            Step(one.op, tuple(order[k] for k in one.operands), one.dtype, one.attributes)
            for one in map(self._made, steps)
        )
        dtypes = tuple(self.items[n].dtype for n in operands)
        return Expression(dtypes, made, tuple(order[n] for n in results))

    def _made(self, number: int) -> _Made:
        one = self.items[number]
        assert isinstance(one, _Made)
        return one

    def _source(self, number: int) -> Source:
        one = self.items[number]
        assert isinstance(one, Source)
        return one

    def _put(self, item: Source | _Made) -> int:
        """Return the number of an item, the same for equal ones."""
        if item.dtype.kind not in REAL:
            raise Unfit(f"a step computes with {item.dtype}")
        number = self.places.setdefault(item, len(self.items))
        if number == len(self.items):
            self.items.append(item)
            if isinstance(item, _Made):
                read = not item.op or not self.late.isdisjoint(item.operands)
                self.late.update([number] if read else [])
        return number

    def _count(self, value: int) -> int:
        """Return the blocks of a value of samples by features."""
        shape, (samples, features) = self.body.specs[value].shape, self.shape
        if len(shape) != 2 or shape[0] != samples or shape[1] % features or not shape[1]:
            raise Unfit(f"a step has a value of {self.body.specs[value]}")
        return int(shape[1] // features)

    def of(self, value: int) -> tuple[int, ...]:
        """Return the numbers of a value, one for each block; one if all its features share it."""
        found = self.blocks.get(value)
        if found is None:
            node = self.makers.get(value)
            found = self._given(value) if node is None else self._computed(node, value)
            self.blocks[value] = found
        return found

    def _given(self, value: int) -> tuple[int, ...]:
        known = self.body.specs[value]
        if value < self.carries:
            return (self._put(Source("carry", value, 0, known.dtype)),)
        shared = SHARED if known.size == 1 else SAMPLE if self._of_samples(value) else None
        if value < self.held:
            number = value - self.carries
            if shared is not None:
                return (self._put(Source("row", number, shared, known.dtype)),)
            count = self._count(value)
            return tuple(self._put(Source("row", number, b, known.dtype)) for b in range(count))
        number, features = value - self.held, self.shape[1]
        if value in self.body.host:
            raise Unfit("a step reads a number of the host")
        if shared is not None:
            return (self._put(Source("held", number, shared, known.dtype)),)
        kind: Kind = "context" if known.shape[:-1] == self.shape[:1] else "held"
        if known.shape[-1] % features or (kind == "held" and known.size != known.shape[-1]):
            raise Unfit(f"a step reads {known}, which is no vector of its features")
        count = known.shape[-1] // features
        return tuple(self._put(Source(kind, number, b, known.dtype)) for b in range(count))

    def _of_samples(self, value: int) -> bool:
        """Return whether a value has one number for each sample, and none for features."""
        (samples, features), shape = self.shape, self.body.specs[value].shape
        if value in self.columns:
            return True
        return shape in ((samples,), (samples, 1)) and shape[-1] % features != 0

    def _columns(self) -> set[int]:
        """Return the vectors that are made a column, whose numbers are of samples."""
        specs, vector, found = self.body.specs, self.shape[:1], set[int]()
        for node in reversed(self.body.nodes):
            (made, *_), name = node.outputs, node.op.name
            column = name == "reshape" and specs[made].shape == (*vector, 1)
            if column or (made in found and name in ROWS):
                found.update(v for v in node.inputs if specs[v].shape == vector)
        return found

    def _computed(self, node: Node, value: int) -> tuple[int, ...]:
        specs, name = self.body.specs, node.op.name
        known = specs[value]
        if node is self.product:
            count = self._count(value)
            return tuple(self._put(_Made("", (), known.dtype, block=b)) for b in range(count))
        if name == "full":
            kept = number_of(node, known.dtype)
            return (self._put(Source("constant", 0, SHARED, known.dtype, kept)),)
        if name in ("reshape", "expand"):
            return self._same_features(node, value)
        if name == "slice":
            return self._part(node, value)
        if name == "concat" and node.attributes["axis"] == known.ndim - 1 == 1:
            parts = [self._whole(v) for v in node.inputs]
            return tuple(n for part in parts for n in part)
        if name not in ROWS or len(node.outputs) > 1:
            raise Unfit(f"a step computes {name}")
        if any(specs[v].shape != known.shape and specs[v].size > 1 for v in node.inputs):
            raise Unfit(f"{name} of a step has operands of several shapes")
        operands = [self.of(v) for v in node.inputs]
        count = max(map(len, operands), default=1)
        attributes = tuple(sorted(node.attributes.items()))
        return tuple(
            self._put(
                _Made(
                    name,
                    tuple(ids[b] if len(ids) > 1 else ids[0] for ids in operands),
                    known.dtype,
                    attributes,
                )
            )
            for b in range(count)
        )

    def _whole(self, value: int) -> tuple[int, ...]:
        """Return the numbers of all blocks of a value, also where features share one."""
        count, ids = self._count(value), self.of(value)
        return ids * count if len(ids) < count else ids

    def _same_features(self, node: Node, value: int) -> tuple[int, ...]:
        """Return the numbers of a value that spreads another over samples, or over all."""
        (source,) = node.inputs
        given, known = self.body.specs[source], self.body.specs[value]
        ids = self.of(source)
        if given.size == 1:
            return ids
        if self._of_samples(source):
            # Features share it: (N,) as (N, 1), or that spread over features.
            spread = node.op.name == "expand" and given.ndim == known.ndim == 2
            if self._of_samples(value) or (spread and known.shape[0] == given.shape[0]):
                return ids
            raise Unfit(f"a step makes {known} of {given}")
        apart = [n for n in given.shape[:-1] if n != 1], [n for n in known.shape[:-1] if n != 1]
        alike = not apart[0] or apart[0] == apart[1]
        if not known.ndim or given.shape[-1] != known.shape[-1] or not alike:
            raise Unfit(f"a step makes {known} of {given}")
        return ids

    def _part(self, node: Node, value: int) -> tuple[int, ...]:
        """Return the numbers of whole blocks of a value."""
        (source,) = node.inputs
        ids, features = self._whole(source), self.shape[1]
        starts, stops = node.attributes["starts"], node.attributes["stops"]
        steps = node.attributes["steps"]
        rows = starts[0] == 0 and stops[0] == self.shape[0] and steps == (1, 1)
        if not rows or starts[1] % features or stops[1] % features:
            raise Unfit("a step reads a part of a block")
        return ids[starts[1] // features : stops[1] // features]
