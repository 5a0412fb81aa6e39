"""Rules over one operation: operands, results, attributes, memory and regions.

Common rules follow from the row in :data:`calor_kernel.ir.ops.OPS`; further rules of one operation
are in ``SHAPES`` under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from calor.dtypes import bool_, uint64
from calor_kernel.ir.fold import convert
from calor_kernel.ir.nodes import Operation, Value
from calor_kernel.ir.ops import OPS
from calor_kernel.ir.types import Type
from calor_kernel.language.tiles import SUMS

Complaints = Iterator[str]
Found = tuple[Operation | None, str]
Check = Callable[[Operation], Complaints]

_CODES = {"bool": "b", "int": "i", "uint": "u", "float": "f"}
_SCOPES = frozenset(("unit", "plane", "warpgroup", "cube", "cluster", "device"))
_ORDERS = frozenset(("relaxed", "acquire", "release", "acq_rel", "seq_cst"))


def _row(operation: Operation) -> Complaints:
    """The operation exists, with its attributes, memory and regions."""
    row = OPS.get(operation.name)
    if row is None:
        yield "there is no such operation"
        return
    for name in operation.attributes:
        if name not in row.attributes:
            yield f"the attribute {name!r} is unknown; it takes {row.attributes}"
    if (operation.memory is not None) != row.memory:
        yield f"its memory is {operation.memory!r}"
    if len(operation.regions) != row.regions:
        yield f"it has {len(operation.regions)} regions"
    kind = operation.attributes.get("kind")
    if row.choices and kind not in row.choices.split():
        yield f"its kind {kind!r} is none of {row.choices}"
    if kind in ("and", "or", "xor") and operation.name != "plane_shuffle":
        yield from (f"{kind} does not take {r.type}" for r in operation.results if _floating(r))
    if operation.attributes.get("scope", "cube") not in _SCOPES:
        yield f"the scope {operation.attributes['scope']!r} is none of {sorted(_SCOPES)}"
    order = operation.attributes.get("order")
    if order and order not in _ORDERS:
        yield f"the order {order!r} is none of {sorted(_ORDERS)}"


def _floating(value: Value) -> bool:
    return value.type.dtype.kind == "float"


def _operands(operation: Operation) -> Complaints:
    """Operands have the number and kinds given by the row."""
    row, operands = OPS[operation.name], operation.operands
    if row.operands >= 0 and len(operands) != row.operands:
        yield f"it takes {row.operands} operands, not {len(operands)}"
        return
    for value in (*operands, *operation.results):
        if value.type.dtype.kind not in _CODES or value.type.width < 1:
            yield f"no value is of type {value.type}"
    if operands and _CODES.get(operands[0].type.dtype.kind, "?") not in row.kinds:
        yield f"it does not take {operands[0].type}"
    if row.alike and any(v.type != operands[0].type for v in operands):
        yield f"its operands are {_types(operation)}, and must be alike"


def _results(operation: Operation) -> Complaints:
    """Results have the types derived from the operands."""
    row = OPS[operation.name]
    if row.result == "none":
        if operation.results:
            yield "it has no result"
        return
    if row.regions:
        return
    if len(operation.results) != 1 and operation.name != "inline":
        yield f"it has one result, not {len(operation.results)}"
    elif row.result == "same" and operation.result.type != operation.operands[0].type:
        yield f"its result is {operation.result.type}, and {_types(operation)} goes in"
    elif row.result == "bool":
        wanted = Type(bool_, operation.operands[0].type.width)
        if operation.result.type != wanted:
            yield f"its result is {operation.result.type}, not {wanted}"


def _types(operation: Operation) -> str:
    return ", ".join(str(v.type) for v in operation.operands)


# Rules of single operations.
def _constant(operation: Operation) -> Complaints:
    number, result = operation.attributes.get("value"), operation.result.type
    lanes = number if isinstance(number, tuple) else (number,)
    if len(lanes) != result.width:
        yield f"{len(lanes)} numbers are no {result}"
    plain = {"bool": bool, "int": int, "uint": int}.get(result.dtype.kind, float)
    for lane in lanes:
        if type(lane) is not plain or (lane == lane and convert(lane, result.dtype) != lane):
            yield f"{lane!r} is no {result.dtype}"


def _select(operation: Operation) -> Complaints:
    condition, a, b = (v.type for v in operation.operands)
    if condition != Type(bool_, a.width) or a != b or operation.result.type != a:
        yield f"it chooses by {condition} between {a} and {b} and gives {operation.result.type}"


def _cast(operation: Operation) -> Complaints:
    if operation.operands[0].type.width != operation.result.type.width:
        yield f"it makes {operation.result.type} of {_types(operation)}"


def _bitcast(operation: Operation) -> Complaints:
    source, result = operation.operands[0].type, operation.result.type
    if source.nbytes != result.nbytes or "bool" in (source.dtype.kind, result.dtype.kind):
        yield f"{source} and {result} have not the same bits"


def _splat(operation: Operation) -> Complaints:
    source, result = operation.operands[0].type, operation.result.type
    if source.width != 1 or source.dtype is not result.dtype or result.width < 2:
        yield f"it makes {result} of {source}"


def _lane(operation: Operation) -> Complaints:
    vector = operation.operands[0].type
    lane = operation.attributes.get("lane")
    if not isinstance(lane, int) or not 0 <= lane < vector.width:
        yield f"{vector} has no lane {lane}"
    wanted = vector if operation.name == "insert" else vector.scalar
    if operation.result.type != wanted:
        yield f"its result is {operation.result.type}, not {wanted}"
    if operation.name == "insert" and operation.operands[1].type != vector.scalar:
        yield f"it puts {operation.operands[1].type} into {vector}"


def _shuffle(operation: Operation) -> Complaints:
    vector, result = operation.operands[0].type, operation.result.type
    lanes = operation.attributes.get("lanes", ())
    if result != vector.wide(len(lanes)) or not lanes:
        yield f"{len(lanes)} lanes of {vector} are no {result}"
    if any(not 0 <= lane < 2 * vector.width for lane in lanes):
        yield f"lanes {lanes} are not all of two {vector}"


def _pack(operation: Operation) -> Complaints:
    types = {v.type for v in operation.operands}
    wanted = {operation.result.type.scalar}
    if types != wanted or operation.result.type.width != len(operation.operands):
        yield f"{_types(operation)} are no {operation.result.type}"


def _vreduce(operation: Operation) -> Complaints:
    vector = operation.operands[0].type
    if operation.result.type != vector.scalar or vector.width == 1:
        yield f"it makes {operation.result.type} of {vector}"


def _dot(operation: Operation) -> Complaints:
    a, b, c = (v.type for v in operation.operands)
    groups = a.width % c.width == 0 and a.dtype.itemsize < c.dtype.itemsize
    if a.width != b.width or not groups or operation.result.type != c:
        yield f"{a} and {b} have no groups for {c}"


def _position(operation: Operation) -> Complaints:
    type, axis = operation.result.type, operation.attributes.get("axis")
    if type.width != 1 or type.dtype.kind not in ("int", "uint"):
        yield f"a position is an integer, not {type}"
    if "axis" in OPS[operation.name].attributes and axis not in (0, 1, 2):
        yield f"there is no axis {axis}"


def _load(operation: Operation) -> Complaints:
    index, *rest = (v.type for v in operation.operands)
    result = operation.result.type
    yield from _access(operation, index, result)
    if len(rest) != (2 if operation.attributes.get("masked") else 0):
        yield "with a mask it takes an index, a mask and the other value, else an index"
    elif rest and rest != [Type(bool_, result.width), result]:
        yield f"its mask is {rest[0]} and its other value {rest[1]}, for {result}"


def _store(operation: Operation) -> Complaints:
    index, *rest = (v.type for v in operation.operands)
    if len(rest) != (2 if operation.attributes.get("masked") else 1):
        yield "with a mask it takes an index, a value and the mask, else an index and a value"
        return
    yield from _access(operation, index, rest[0])
    yield from _writable(operation)
    if len(rest) == 2 and rest[1] != Type(bool_, rest[0].width):
        yield f"its mask is {rest[1]}, for {rest[0]}"


def _access(operation: Operation, index: Type, value: Type) -> Complaints:
    memory = operation.memory
    if memory is None:
        return
    if value.dtype is not memory.type.dtype:
        yield f"{memory!r} holds {memory.type}, not {value}"
    if index.width not in (1, value.width):
        yield f"an index of {index} does not reach {value}"
    align = operation.attributes.get("align", 0)
    if align < 0 or align & (align - 1):
        yield f"an alignment of {align} bytes is no power of two"


def _writable(operation: Operation) -> Complaints:
    if operation.memory is not None and not operation.memory.writable:
        yield f"{operation.memory!r} is declared as only read"


def _atomic(operation: Operation) -> Complaints:
    index, *values = (v.type for v in operation.operands)
    wanted = 2 if operation.attributes.get("kind") == "compare" else 1
    memory = operation.memory
    if index.width != 1 or len(values) != wanted:
        yield f"it takes an index and {wanted} values, not {_types(operation)}"
    elif memory is not None and any(t != memory.type for t in (*values, operation.result.type)):
        yield f"{memory!r} holds {memory.type}, not {_types(operation)}"
    yield from _writable(operation)


def _copied(operation: Operation, of: str = "global", to: str = "shared") -> Complaints:
    memory, source = operation.memory, operation.attributes.get("source")
    if memory is None or source is None or memory.type != source.type:
        yield f"it copies from {source!r} to {memory!r}"
    elif memory.space != to or source.space != of:
        yield f"it copies from {of} memory to {to} memory"


def _boxed(operation: Operation, count: int, indices: str) -> Complaints:
    made = operation.attributes.get("map")
    if made is None or len(operation.operands) != count + 3 * len(made.box):
        yield f"it takes {indices}, and a position, sizes and strides as its map has axes"


def _copy_tensor(operation: Operation) -> Complaints:
    source, barrier, made = (operation.attributes.get(n) for n in ("source", "barrier", "map"))
    yield from _boxed(operation, 2, "two indices")
    yield from _copied(operation)
    if source is not None and made is not None and made.name != source.name:
        yield f"its map is of {made.name}, and it copies from {source!r}"
    if barrier is None or barrier.space != "shared":
        yield f"its bytes count at {barrier!r}, which is no barrier"


def _store_tensor(operation: Operation) -> Complaints:
    yield from _boxed(operation, 1, "an index")
    yield from _copied(operation, "shared", "global")
    yield from _writable(operation)


def _load_matrix(operation: Operation) -> Complaints:
    memory, result = operation.memory, operation.result.type
    if memory is not None and (memory.space != "shared" or memory.type != result.scalar):
        yield f"it loads {result} from {memory!r} of {memory.type}"
    if result.width != 2 * operation.attributes.get("count", 0) or result.dtype.itemsize != 2:
        yield f"{operation.attributes.get('count')} blocks are no {result}"


def _mbarrier(operation: Operation) -> Complaints:
    memory = operation.memory
    if memory is not None and (memory.space != "shared" or memory.type != Type(uint64)):
        yield f"{memory!r} of {memory.type} holds no barriers; those are shared uint64"
    if operation.name == "mbarrier_arrive" and len(operation.operands) not in (1, 2):
        yield "it takes a barrier, and of which cube of the cluster"


def _tile_product(operation: Operation) -> Complaints:
    said, memory = operation.attributes, operation.memory
    source, right = said.get("source"), said.get("right")
    if memory is None or source is None or right is None:
        yield "it takes memory for the sums, source and right"
        return
    dtype = source.type.dtype
    if right.type != source.type or SUMS.get(dtype) is not memory.type.dtype:
        yield f"{memory!r} holds no sums of {source!r} and {right!r}"
    rows, columns = said.get("rows", 0), said.get("columns", 0)
    if rows < 1 or columns < 1 or rows * columns + rows + columns > 8:
        yield f"{rows}x{columns} tiles and their operands are not 3 to 8 registers"
    yield from _writable(operation)


def _mma_async(operation: Operation) -> Complaints:
    c, a, b = (v.type for v in operation.operands)
    shape, source = operation.attributes.get("shape"), operation.attributes.get("source")
    if shape is None or c != Type(shape.c_dtype, shape.c[1].size) or operation.result.type != c:
        yield f"it adds to {c} and gives {operation.result.type}"
    elif source is None and a != Type(shape.a_dtype, shape.a[1].size):
        yield f"its operand a is {a}"
    for memory in (operation.memory, source):
        if shape is not None and memory is not None and memory.type.dtype is not shape.a_dtype:
            yield f"{memory!r} holds no operand of {shape.name}"
    if b.width != 1 or b.dtype.kind != "int":
        yield f"its operand b is at {b}"


def _shuffle_units(operation: Operation) -> Complaints:
    value, lane = (v.type for v in operation.operands)
    if operation.result.type != value or lane.width != 1 or lane.dtype.kind not in ("int", "uint"):
        yield f"it makes {operation.result.type} of {_types(operation)}"


def _for(operation: Operation) -> Complaints:
    if len(operation.operands) < 3:
        yield "it takes start, stop and step"
        return
    start, stop, step = operation.operands[:3]
    if start.type.width != 1 or not start.type == stop.type == step.type:
        yield f"it counts from {start.type} to {stop.type} by {step.type}"
    if step.known == 0:
        yield "its step is 0"
    carried = [v.type for v in operation.operands[3:]]
    (body,) = operation.regions
    yield from _agree("arguments", [a.type for a in body.arguments], [start.type, *carried])
    yield from _agree("yields", [y.type for y in body.yields], carried)
    yield from _agree("results", [r.type for r in operation.results], carried)


def _if(operation: Operation) -> Complaints:
    if [v.type for v in operation.operands] != [Type(bool_)]:
        yield f"its condition is {_types(operation)}, not a bool"
    results = [r.type for r in operation.results]
    for region in operation.regions:
        yield from _agree("arguments", [a.type for a in region.arguments], [])
        yield from _agree("yields", [y.type for y in region.yields], results)


def _while(operation: Operation) -> Complaints:
    carried = [v.type for v in operation.operands]
    question, body = operation.regions
    for region in operation.regions:
        yield from _agree("arguments", [a.type for a in region.arguments], carried)
    yield from _agree("question", [y.type for y in question.yields], [Type(bool_)])
    yield from _agree("yields", [y.type for y in body.yields], carried)
    yield from _agree("results", [r.type for r in operation.results], carried)


def _agree(what: str, found: list[Type], wanted: list[Type]) -> Complaints:
    if found != wanted:
        yield f"its {what} are ({', '.join(map(str, found))}), not ({', '.join(map(str, wanted))})"


SHAPES: Final[Mapping[str, Check]] = MappingProxyType(
    {
        **{row.name: _position for row in OPS.values() if row.name.endswith("_position")},
        **{row.name: _mbarrier for row in OPS.values() if row.name.startswith("mbarrier_")},
        "constant": _constant,
        "select": _select,
        "cast": _cast,
        "bitcast": _bitcast,
        "splat": _splat,
        "extract": _lane,
        "insert": _lane,
        "shuffle": _shuffle,
        "pack": _pack,
        "vreduce": _vreduce,
        "dot": _dot,
        "cube_count": _position,
        "load": _load,
        "store": _store,
        "atomic": _atomic,
        "copy_async": _copied,
        "copy_tensor": _copy_tensor,
        "store_tensor": _store_tensor,
        "load_matrix": _load_matrix,
        "tile_product": _tile_product,
        "mma_async": _mma_async,
        "plane_shuffle": _shuffle_units,
        "for": _for,
        "if": _if,
        "while": _while,
    }
)

OPERATION_RULES: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "row": _row,
        "operands": _operands,
        "results": _results,
        "shapes": lambda o: SHAPES[o.name](o) if o.name in SHAPES else iter(()),
    }
)
