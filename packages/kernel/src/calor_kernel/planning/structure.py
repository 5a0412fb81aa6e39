"""The common structure of graphs, and the numbers in which they differ.

Requirements: both are read in about a microsecond per node, which bounds the cost of a known graph
at a new size. Graphs that differ in anything but numbers at the right places have different keys,
by type and bits of their attributes. Sizes that were always equal are one symbol, and a size that
always followed from others is derived from them, so few symbols remain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations_with_replacement, islice
from marshal import dumps
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from calor.dtypes import DType
from calor.graph.attributes import exact
from calor.graph.graph import Graph, Node
from calor.graph.host_call import HostCall
from calor.ops.base import Scalar
from calor.ops.sources import HostArray
from calor.specs import Spec
from calor_kernel.contract.sizes import Trace

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]
# The attributes that are sizes or positions, as integers or tuples of integers.
SIZED: Final[Mapping[str, tuple[str, ...]]] = {
    "reshape": ("shape",),
    "expand": ("shape",),
    "full": ("shape",),
    "iota": ("length",),
    "slice": ("starts", "stops", "steps"),
    "pad": ("low", "high"),
    "dynamic_slice": ("sizes",),
    "conv_input_gradient": ("input_shape",),
    "conv_weight_gradient": ("weight_shape",),
    "random_bits": ("shape",),
    "fft": ("length",),
}
# Types that marshal writes exactly, by type and bits; this format has no references.
_PLAIN: Final = frozenset((int, float, bool, tuple, type(None)))
_FORMAT: Final = 2

# Faster than equivalent loops.
_shape, _dtype = attrgetter("shape"), attrgetter("dtype")
_op, _inputs = attrgetter("op"), attrgetter("inputs")


class Structure(NamedTuple):
    """A graph's ``key``, shared with graphs of the same structure, and its varying parts.

    ``numbers``: its sizes in order. ``bits``: the bytes of its constants, which no plan reads.
    """

    key: tuple[Any, ...]
    numbers: tuple[int, ...]
    bits: tuple[bytes, ...]


def structure_of(graph: Graph) -> Structure | None:
    """Return the structure of a graph, with its numbers; None if the host takes part in it."""
    specs, nodes = graph.specs, graph.nodes
    shapes = list(map(_shape, specs))
    numbers = list(chain.from_iterable(shapes))
    bits: list[bytes] = []
    plain: list[Any] = []
    others: list[Any] = []
    for node in nodes:
        attributes = node.attributes
        if attributes:
            others.append(tuple(attributes))
            sized = SIZED.get(node.op.name, ())
            for name, value in attributes.items():
                kind = type(value)
                if name in sized:
                    if kind is tuple:
                        numbers += value
                    else:
                        numbers.append(value)
                elif kind in _PLAIN:
                    plain.append(value)
                elif kind is DType or kind is str:
                    others.append(value)
                elif kind is Scalar:
                    bits.append(value.bits)
                elif kind is HostArray:
                    bits.append(value.data)
                    others.append(value.dtype)
                elif kind is Graph or kind is HostCall:
                    return None
                else:
                    others.append(exact(value))
    key = (
        tuple(map(len, shapes)),
        tuple(map(_dtype, specs[: len(graph.inputs)])),
        tuple(map(_op, nodes)),
        tuple(map(_inputs, nodes)),
        tuple(others),
        _exact(plain),
        graph.host,
        graph.outputs,
    )
    return Structure(key, tuple(numbers), tuple(bits))


def _exact(plain: list[Any]) -> Any:
    """Return a key that is equal for numbers, and tuples of them, of equal types and bits."""
    try:
        return dumps(plain, _FORMAT)
    except ValueError:
        return tuple(map(exact, plain))


def with_numbers(graph: Graph, numbers: Iterable[Any], make: Callable[..., Spec] = Spec) -> Graph:
    """Return the graph with other numbers in place of its own, possibly symbolic.

    ``make`` makes specs; by default these are not interned.
    """
    left = iter(numbers)
    specs = [make(tuple(islice(left, s.ndim)), s.dtype, s.weak) for s in graph.specs]
    nodes = [
        Node(node.op, node.inputs, _with_numbers(node, left), node.outputs) for node in graph.nodes
    ]
    return Graph(specs, graph.host, nodes, graph.outputs, len(graph.inputs))


def _with_numbers(node: Node, left: Iterator[Any]) -> Mapping[str, Any]:
    sized = SIZED.get(node.op.name, ())
    made: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if name not in sized:
            made[name] = value
        elif type(value) is tuple:
            made[name] = tuple(islice(left, len(value)))
        else:
            made[name] = next(left)
    return made


def getter(places: Sequence[int]) -> Getter:
    """Return a function that takes the items at given indices, always as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    if places:
        (place,) = places
        return lambda items: (items[place],)
    return lambda items: ()


class Match:
    """The varying sizes of a structure, grouped by equality.

    ``symbols``: for each independent size, one index of it.
    """

    def __init__(self, seen: Sequence[tuple[int, ...]], varying: Collection[int]) -> None:
        numbers = seen[-1]
        groups: dict[tuple[int, ...], int] = {}
        self.group: dict[int, int] = {}
        for place in sorted(varying):
            values = tuple(one[place] for one in seen)
            self.group[place] = groups.setdefault(values, len(groups))
        self.values = list(groups)
        firsts = [next(p for p, g in self.group.items() if g == k) for k in range(len(groups))]
        fixed = [p for p in range(len(numbers)) if p not in self.group]
        others = [p for p in self.group if p not in firsts]
        self._firsts = getter(firsts)
        self._fixed, self._fixed_values = getter(fixed), getter(fixed)(numbers)
        self._others = getter(others)
        self._their_groups = getter([self.group[p] for p in others])

    def symbols(self, numbers: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the varying sizes, None if others vary too."""
        found = self._firsts(numbers)
        if self._fixed(numbers) != self._fixed_values:
            return None
        return found if self._others(numbers) == self._their_groups(found) else None

    def sizes(self, trace: Trace, numbers: Sequence[int]) -> list[Any]:
        """Return a graph's numbers, with symbolic sizes for the varying ones.

        A size that was always a multiple, a product or a neighbour of others is derived from them,
        with a guard.
        """
        order = sorted(range(len(self.values)), key=lambda k: self.values[k])
        made: dict[int, Any] = {}
        for k in order:
            symbol = trace.symbols[k]
            made[k] = related = _related(self.values[k], [(self.values[j], made[j]) for j in made])
            if related is None:
                made[k] = symbol
            else:
                trace.guard(f"{symbol.text}=={related.text}", symbol + related)
        return [made[self.group[p]] if p in self.group else n for p, n in enumerate(numbers)]


def _related(values: tuple[int, ...], known: Sequence[tuple[tuple[int, ...], Any]]) -> Any:
    """Return a size in terms of others, from their past values; None if nothing fits."""
    pairs = combinations_with_replacement(known, 2)
    products = [(tuple(map(int.__mul__, a, b)), x * y) for (a, x), (b, y) in pairs]
    for others, size in (*known, *products):
        if all(o and v % o == 0 for v, o in zip(values, others, strict=True)):
            factors = {v // o for v, o in zip(values, others, strict=True)}
            if len(factors) == 1:
                return size * factors.pop()
    for others, size in known:
        differences = {v - o for v, o in zip(values, others, strict=True)}
        if len(differences) == 1:
            return size + differences.pop()
    return None
