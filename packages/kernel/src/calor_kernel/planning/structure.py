"""The common structure of graphs, and the numbers in which they differ.

Requirements: both are read in about a microsecond per node, which bounds the cost of a known graph
at a new size. Graphs that differ in anything but numbers at the right places have different keys,
by type and bits of their attributes. Sizes that were always equal are one symbol, and a size that
always followed from others is derived from them, so few symbols remain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from marshal import dumps
from operator import attrgetter
from typing import Any, Final, NamedTuple

from calor.dtypes import DType
from calor.graph.attributes import SizedScalar, exact
from calor.graph.graph import Graph, Node
from calor.graph.host_call import HostCall
from calor.ops.base import Scalar
from calor.ops.sources import HostArray
from calor.specs import Spec

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
    "scan": ("length",),
}
# Types that marshal writes exactly, by type and bits; this format has no references.
_PLAIN: Final = frozenset((int, float, bool, tuple, type(None)))
_FORMAT: Final = 2

# Faster than equivalent loops.
_shape, _dtype = attrgetter("shape"), attrgetter("dtype")
_op, _inputs = attrgetter("op"), attrgetter("inputs")


class Structure(NamedTuple):
    """A graph's ``key``, shared with graphs of the same structure, and its varying parts.

    ``numbers``: its sizes in order. ``bits``: the bytes of its constants, which no plan reads; of
    a graph with symbolic sizes, constants may be such sizes.
    """

    key: tuple[Any, ...]
    numbers: tuple[int, ...]
    bits: tuple[bytes, ...]


def structure_of(graph: Graph) -> Structure | None:
    """Return the structure of a graph, with its numbers; None if the host takes part in it."""
    specs, nodes = graph.specs, graph.nodes
    shapes = list(map(_shape, specs))
    numbers = list(chain.from_iterable(shapes))
    bits: list[Any] = []
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
                elif kind is SizedScalar:
                    bits.append(value)
                elif kind is HostArray:
                    bits.append(value.data)
                    others.append(value.dtype)
                elif kind is Graph and node.op.name == "scan":
                    # Constants of a step are the same at all sizes.
                    body = structure_of(value)
                    if body is None:
                        return None
                    others += (body.key, body.bits)
                    numbers += body.numbers
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
        Node(node.op, node.inputs, _with_numbers(node, left, make), node.outputs)
        for node in graph.nodes
    ]
    return Graph(specs, graph.host, nodes, graph.outputs, len(graph.inputs))


def _with_numbers(node: Node, left: Iterator[Any], make: Callable[..., Spec]) -> Mapping[str, Any]:
    sized = SIZED.get(node.op.name, ())
    made: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if type(value) is Graph and node.op.name == "scan":
            made[name] = with_numbers(value, left, make)
        elif name not in sized:
            made[name] = value
        elif type(value) is tuple:
            made[name] = tuple(islice(left, len(value)))
        else:
            made[name] = next(left)
    return made
