"""The file form of graphs: a JSON header, then the bytes of their constants.

Requirements: versioned, so that a newer file says what to do; verified on loading, because a file
may come from anywhere: whatever is wrong with it, a GraphError says so, and nothing in it is run,
imported or allocated beyond its own size. HTTP, ahead-of-time compilation and bug reports use it.

Layout: eight bytes ``CALORGRF``, the header's length (little-endian, eight bytes), the header in
UTF-8, the constants one after another. The header holds tables of ops (with the release that
introduced each), specs, constants and graphs; a graph refers only to those before it, and the last
one is the file's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, GraphError
from calor.graph.attributes import HostArray, Scalar
from calor.graph.graph import Graph, Node
from calor.graph.host_call import HostCall
from calor.graph.op import Op, find
from calor.graph.verify import DEPTH_LIMIT, NODE_LIMIT, spec_complaints, verify
from calor.specs import Spec, spec

MAGIC: Final = b"CALORGRF"
FORMAT: Final = 1
HEADER_LIMIT: Final = 1 << 28
GRAPH_LIMIT: Final = 1 << 16


def save(graph: Graph) -> bytes:
    """Return the file form of a graph; GraphError when the graph breaks the grammar.

    >>> import calor
    >>> from calor.graph.file import load, save
    >>> graph = calor.trace(calor.tanh, calor.ones(2))
    >>> load(save(graph)) == graph
    True
    """
    verify(graph)
    writer = _Writer()
    writer.graph(graph)
    header = json.dumps(
        {
            "format": FORMAT,
            "ops": [[op.name, op.since] for op in writer.ops],
            "specs": [[s.dtype.name, list(s.shape), s.weak] for s in writer.specs],
            "constants": [[c.dtype, list(c.shape), len(c.data)] for c in writer.constants],
            "graphs": writer.graphs,
        },
        separators=(",", ":"),
        allow_nan=False,
    ).encode()
    data = b"".join(c.data for c in writer.constants)
    return MAGIC + len(header).to_bytes(8, "little") + header + data


class _Writer:
    """The tables of a file; each method returns the place of a thing in its table."""

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.specs: list[Spec] = []
        self.constants: list[HostArray] = []
        self.graphs: list[Any] = []
        self._places: dict[tuple[str, Any], int] = {}

    def graph(self, graph: Graph) -> int:
        found = self._places.get(("graph", id(graph)))
        if found is not None:
            return found
        nodes = [
            [
                self._place("op", node.op, self.ops),
                list(node.inputs),
                {name: self._value(value) for name, value in node.attributes.items()},
                [self._spec(graph.specs[o]) for o in node.outputs],
            ]
            for node in graph.nodes
        ]
        self.graphs.append(
            {
                "inputs": [self._spec(s) for s in graph.input_specs],
                "host": sorted(graph.host),
                "nodes": nodes,
                "outputs": list(graph.outputs),
            }
        )
        self._places["graph", id(graph)] = len(self.graphs) - 1
        return len(self.graphs) - 1

    def _spec(self, known: Spec) -> int:
        return self._place("spec", known, self.specs)

    def _place(self, kind: str, thing: Any, table: list[Any]) -> int:
        place = self._places.get((kind, thing))
        if place is None:
            place = self._places[kind, thing] = len(table)
            table.append(thing)
        return place

    def _value(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, tuple):
            return [self._value(item) for item in value]
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, Scalar):
            return {"scalar": [value.dtype, value.bits.hex()]}
        if isinstance(value, Spec):
            return {"spec": self._spec(value)}
        if isinstance(value, HostCall):
            raise GraphError(
                f"the graph has a callback of {value.name}, a function of this process, which no "
                f"file holds; leave it out of what is saved"
            )
        if isinstance(value, HostArray):
            return {"array": self._place("array", value, self.constants)}
        assert isinstance(value, Graph), "verify let an attribute through"
        return {"graph": self.graph(value)}


def load(data: bytes) -> Graph:
    """Return the graph of a file, verified.

    Raises GraphError for whatever is wrong with the file, and for one that needs a newer calor or
    a package that is not imported, with what to do.
    """
    try:
        header, rest = _header(data)
        graph = _Reader(header, rest).graphs[-1]
    except GraphError:
        raise
    except RecursionError:
        raise GraphError("the graph file is nested too deep") from None
    except Exception as error:
        raise GraphError(f"the graph file is damaged: {type(error).__name__}: {error}") from error
    verify(graph)
    return graph


def _header(data: bytes) -> tuple[dict[str, Any], memoryview]:
    if data[:8] != MAGIC:
        raise GraphError("this is not a graph file: it does not begin with CALORGRF")
    length = int.from_bytes(data[8:16], "little")
    if length > min(HEADER_LIMIT, len(data) - 16):
        raise GraphError(f"the graph file is cut off or damaged: a header of {length} bytes")
    header = json.loads(bytes(data[16 : 16 + length]), parse_constant=_no_constant)
    found = header["format"]
    if type(found) is not int or found < 1:
        raise GraphError(f"the graph file has the unknown format {found!r}")
    if found > FORMAT:
        raise GraphError(
            f"the graph file has format {found}, this calor reads up to {FORMAT}: "
            f"pip install --upgrade calor"
        )
    return header, memoryview(data)[16 + length :]


def _no_constant(text: str) -> Any:
    raise GraphError(f"the header holds {text}, which is no JSON")


class _Reader:
    """The tables of a file, read in an order in which each refers only to those before it."""

    def __init__(self, header: Mapping[str, Any], data: memoryview) -> None:
        self.ops = [_find(name, since) for name, since in header["ops"]]
        self.specs = [_spec(*item) for item in header["specs"]]
        self.constants: list[HostArray] = []
        start = 0
        for dtype, shape, nbytes in header["constants"]:
            known = _spec(dtype, shape, False)
            if type(nbytes) is not int or nbytes != known.nbytes or start + nbytes > len(data):
                raise GraphError(f"constant {known} has {nbytes!r} bytes, or is cut off")
            self.constants.append(
                HostArray(known.dtype.name, known.shape, bytes(data[start : start + nbytes]))
            )
            start += nbytes
        if start != len(data):
            raise GraphError(f"{len(data) - start} bytes follow the last constant")
        if not 1 <= len(header["graphs"]) <= GRAPH_LIMIT:
            raise GraphError(f"the file holds {len(header['graphs'])} graphs")
        self.graphs: list[Graph] = []
        for item in header["graphs"]:
            self.graphs.append(self._graph(item))

    def _graph(self, item: Mapping[str, Any]) -> Graph:
        if len(item["nodes"]) > NODE_LIMIT:
            raise GraphError(f"{len(item['nodes'])} nodes are more than {NODE_LIMIT}")
        specs = [_at(self.specs, i) for i in item["inputs"]]
        count = len(specs)
        nodes = []
        for row, inputs, attributes, outputs in item["nodes"]:
            first = len(specs)
            specs += [_at(self.specs, i) for i in outputs]
            values = {name: self._value(value, 0) for name, value in attributes.items()}
            numbers = tuple(range(first, len(specs)))
            nodes.append(Node(_at(self.ops, row), _numbers(inputs), values, numbers))
        return Graph(specs, _numbers(item["host"]), nodes, _numbers(item["outputs"]), count)

    def _value(self, value: Any, depth: int) -> Any:
        if depth > DEPTH_LIMIT:
            raise GraphError(f"an attribute is nested more than {DEPTH_LIMIT} deep")
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, list):
            return tuple(self._value(item, depth + 1) for item in value)
        if not isinstance(value, dict) or len(value) != 1:
            raise GraphError(f"an attribute is {value!r}, which the format does not have")
        ((kind, content),) = value.items()
        if kind == "float":
            return float.fromhex(content)
        if kind == "dtype":
            return as_dtype(str(content))
        if kind == "scalar":
            dtype, bits = content
            return Scalar(as_dtype(str(dtype)).name, bytes.fromhex(bits))
        tables: dict[str, list[Any]] = {
            "spec": self.specs,
            "array": self.constants,
            "graph": self.graphs,
        }
        if kind not in tables:
            raise GraphError(f"an attribute is of kind {kind!r}, which the format does not have")
        return _at(tables[kind], content)


def _find(name: str, since: str) -> Op:
    try:
        return find(name)
    except ArgumentError:
        package, dot, _ = str(name).partition(".")
    remedy = (
        f"import the package that adds the ops of {package!r}, and load the file again"
        if dot
        else f"it came with calor {since}: pip install --upgrade calor"
    )
    raise GraphError(f"the graph file uses op {name!r}, which this calor does not have; {remedy}")


def _spec(dtype: Any, shape: Any, weak: Any) -> Spec:
    sizes = _numbers(shape)
    if type(weak) is not bool:
        raise GraphError(f"a spec's weakness is {weak!r}")
    # Checked before anything is made of it: the sizes may be absurd.
    made = Spec(sizes, as_dtype(str(dtype)), weak)
    for complaint in spec_complaints(made):
        raise GraphError(f"sizes: {complaint}")
    return spec(sizes, made.dtype, weak)


def _numbers(items: Any) -> tuple[int, ...]:
    if not isinstance(items, list) or any(type(n) is not int for n in items):
        raise GraphError(f"{items!r} is no list of whole numbers")
    return tuple(items)


def _at(table: list[Any], place: Any) -> Any:
    if type(place) is not int or not 0 <= place < len(table):
        raise GraphError(f"entry {place!r} of a table of {len(table)} does not exist")
    return table[place]
