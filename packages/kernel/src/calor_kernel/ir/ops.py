"""The operations of a kernel, one row each, for printers, the verifier and lanes.

Requirements: all consumers read the same row. "pure": an operation may be moved, shared and
dropped. "scope": the units that must reach it together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Shape = Literal["same", "bool", "given", "none"]
Scope = Literal["", "plane", "cube", "warpgroup", "cluster"]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation.

    ``operands``: their number, −1 for any. ``result``: "same" as the first operand, "bool" with its
    width, "given" by the maker, or "none". ``kinds``: the dtype kinds of the first operand
    ("b" bool, "i" signed, "u" unsigned, "f" floating). ``alike``: the operands share one type.
    ``pure``: without effects, and dependent on its operands only. ``scope``: the units that must
    reach it together. ``attributes``: the names that it takes.
    """

    name: str
    operands: int
    result: Shape = "same"
    kinds: str = "iuf"
    alike: bool = True
    pure: bool = True
    scope: Scope = ""
    attributes: tuple[str, ...] = ()
    meaning: str = ""


_FLAGS = ("flags",)  # any of "contract", "reassoc", "nsz": permitted changes to a float operation

_ROWS = (
    Row("constant", 0, "given", attributes=("value",), meaning="a number, or a tuple of lanes"),
    # Arithmetic. Integers wrap around.
    Row("add", 2, attributes=_FLAGS),
    Row("sub", 2, attributes=_FLAGS),
    Row("mul", 2, attributes=_FLAGS),
    Row("div", 2, kinds="f", attributes=_FLAGS),
    Row("neg", 1, attributes=_FLAGS),
    Row("fma", 3, kinds="f", meaning="a * b + c, rounded once"),
    Row("quotient", 2, kinds="iu", meaning="division that rounds toward zero"),
    Row("modulo", 2, kinds="iu", meaning="remainder of quotient, with the sign of the dividend"),
    Row("mulhi", 2, kinds="iu", meaning="the upper half of the product"),
    Row("min", 2, meaning="of floats: NaN if one is NaN, and −0 below +0"),
    Row("max", 2, meaning="of floats: NaN if one is NaN, and −0 below +0"),
    Row("abs", 1),
    Row("floor", 1, kinds="f"),
    Row("ceil", 1, kinds="f"),
    Row("trunc", 1, kinds="f"),
    Row("rint", 1, kinds="f", meaning="to the nearest integer, ties to even"),
    Row("sqrt", 1, kinds="f", meaning="correctly rounded"),
    Row("copysign", 2, kinds="f"),
    # Bits.
    Row("and", 2, kinds="biu"),
    Row("or", 2, kinds="biu"),
    Row("xor", 2, kinds="biu"),
    Row("not", 1, kinds="biu"),
    Row("shl", 2, kinds="iu", meaning="by less than the width of the type"),
    Row("shr", 2, kinds="iu", meaning="arithmetic for signed types, by less than the width"),
    Row("popcount", 1, kinds="iu"),
    Row("clz", 1, kinds="iu", meaning="leading zeros; the width for zero"),
    Row("ctz", 1, kinds="iu", meaning="trailing zeros; the width for zero"),
    # Comparison and choice. With NaN every comparison is false but "ne".
    Row("eq", 2, "bool", "biuf"),
    Row("ne", 2, "bool", "biuf"),
    Row("lt", 2, "bool"),
    Row("le", 2, "bool"),
    Row("gt", 2, "bool"),
    Row("ge", 2, "bool"),
    Row("select", 3, "given", "b", alike=False, meaning="operand 1 where operand 0, else 2"),
    # Conversion.
    Row(
        "cast",
        1,
        "given",
        "biuf",
        meaning="float to int truncates, saturates and makes NaN 0; int to int keeps the low bits; "
        "to float rounds to nearest even; to bool tells nonzero",
    ),
    Row("bitcast", 1, "given", "biuf", meaning="the same bits; lanes may regroup"),
    # Vectors.
    Row("splat", 1, "given", "biuf", meaning="a scalar in every lane"),
    Row("extract", 1, "given", "biuf", attributes=("lane",)),
    Row("insert", 2, "given", "biuf", alike=False, attributes=("lane",)),
    Row("shuffle", 2, "given", "biuf", attributes=("lanes",), meaning="lanes of both operands"),
    Row("pack", -1, "given", "biuf", meaning="a vector of scalars"),
    Row(
        "vreduce",
        1,
        "given",
        "biuf",
        attributes=("kind", "flags"),
        meaning="add, mul, min, max, and, or, xor over the lanes, halves first",
    ),
    Row(
        "dot",
        3,
        "given",
        "iuf",
        alike=False,
        meaning="operand 2 plus products of groups of lanes of 0 and 1, in the wider type of 2",
    ),
    # Memory. Operands of load: index, and mask and other with a mask; of store: index, value.
    Row(
        "load",
        -1,
        "given",
        "iu",
        alike=False,
        pure=False,
        attributes=("align", "order", "scope", "nontemporal", "masked"),
        meaning="a vector of consecutive elements, or a gather where the index is a vector",
    ),
    Row(
        "store",
        -1,
        "none",
        "iu",
        alike=False,
        pure=False,
        attributes=("align", "order", "scope", "nontemporal", "masked"),
    ),
    Row(
        "atomic",
        -1,
        "given",
        "iu",
        alike=False,
        pure=False,
        attributes=("kind", "order", "scope"),
        meaning="add min max and or xor exchange (index, value) or compare (index, expected, new); "
        "the result is the old value",
    ),
    Row("prefetch", 1, "none", "iu", pure=False, attributes=("write", "locality")),
    # Positions.
    Row("cube_position", 0, "given", attributes=("axis",)),
    Row("cube_count", 0, "given", attributes=("axis",)),
    Row("unit_position", 0, "given", attributes=("axis",)),
    Row("lane_position", 0, "given", meaning="the unit's place in its plane"),
    Row("plane_position", 0, "given", meaning="the plane's place in its cube"),
    # Collective operations.
    Row("barrier", 0, "none", pure=False, scope="cube", attributes=("scope", "name", "count")),
    Row(
        "arrive",
        0,
        "none",
        pure=False,
        attributes=("name", "count"),
        meaning="counts at a named barrier without waiting",
    ),
    Row("fence", 0, "none", pure=False, attributes=("scope", "order")),
    Row(
        "plane_shuffle",
        2,
        "given",
        "biuf",
        alike=False,
        pure=False,
        scope="plane",
        attributes=("kind",),
        meaning="the value of another lane: its index, an xor mask, or a distance up or down",
    ),
    Row("plane_reduce", 1, "same", "biuf", pure=False, scope="plane", attributes=("kind",)),
    Row(
        "plane_scan",
        1,
        "same",
        "biuf",
        pure=False,
        scope="plane",
        attributes=("kind", "exclusive"),
    ),
    Row("plane_ballot", 1, "given", "b", pure=False, scope="plane", meaning="a bit per lane"),
    # Matrices and asynchronous copies.
    Row(
        "mma",
        3,
        "given",
        "iuf",
        alike=False,
        pure=False,
        scope="plane",
        attributes=("shape", "fragments"),
        meaning="c + a @ b on fragments, each a vector of the lane's elements",
    ),
    Row(
        "load_matrix",
        1,
        "given",
        "iu",
        pure=False,
        scope="plane",
        attributes=("count", "transposed"),
        meaning="loads count blocks of 8 rows of 8 elements; lane 8 b + r gives the start of row r "
        "of block b, and lane l gets 2 adjacent elements per block, of row (or column) l / 4",
    ),
    Row(
        "mma_async",
        3,
        "given",
        "iuf",
        alike=False,
        pure=False,
        scope="warpgroup",
        attributes=("shape", "first", "fresh", "source", "a", "a_major", "b", "b_major"),
        meaning="starts operand 0 + a @ b: a is a fragment, or is in source from operand 1 on, b "
        "is in memory from operand 2 on; the result is only for mma_async and mma_result; fresh: "
        "operand 0 is 0",
    ),
    Row(
        "mma_result",
        1,
        "same",
        pure=False,
        scope="warpgroup",
        meaning="the result of mma_async, after a wait_async for its group",
    ),
    Row(
        "copy_async",
        -1,
        "none",
        "iu",
        alike=False,
        pure=False,
        attributes=("source", "elements", "group"),
        meaning="copies elements from source at operand 1 to memory at operand 0, visible after a "
        "wait; zeros where operand 2, an optional mask, is false",
    ),
    Row(
        "copy_tensor",
        -1,
        "none",
        "iu",
        alike=False,
        pure=False,
        attributes=("source", "barrier", "map", "cubes"),
        meaning="starts copying a box to memory at operand 0; the barrier of operand 1 counts its "
        "bytes; further operands are its position, and the tensor's sizes and strides; with "
        "cubes, the copy goes to that many cubes of the cluster, at the barrier of each",
    ),
    Row(
        "store_tensor",
        -1,
        "none",
        "iu",
        alike=False,
        pure=False,
        attributes=("source", "map", "group"),
        meaning="starts copying a box from source at operand 0 to memory; further operands are the "
        "position, and the tensor's sizes and strides; done after a wait_async for its group",
    ),
    Row(
        "mbarrier_init",
        2,
        "none",
        "iu",
        pure=False,
        meaning="makes the barrier at operand 0 one of operand 1 arrivals a phase",
    ),
    Row(
        "mbarrier_expect",
        2,
        "none",
        "iu",
        pure=False,
        meaning="the barrier's phase ends not before operand 1 more bytes have come",
    ),
    Row(
        "mbarrier_arrive",
        -1,
        "none",
        "iu",
        pure=False,
        meaning="counts an arrival, at the barrier of the cluster's cube of operand 1 if said",
    ),
    Row(
        "mbarrier_wait",
        2,
        "none",
        "iu",
        pure=False,
        meaning="waits for the end of the phase with the parity of operand 1",
    ),
    Row("commit_async", 0, "none", pure=False, attributes=("group",)),
    Row(
        "wait_async",
        -1,
        "none",
        alike=False,
        pure=False,
        attributes=("group", "pending", "read"),
        meaning="waits for all of a group but the latest, once the operands are computed",
    ),
    # Control flow. Regions yield the carried values.
    Row("for", -1, "given", "iu", alike=False, pure=False, attributes=("unroll",)),
    Row("if", -1, "given", "b", alike=False, pure=False),
    Row("while", -1, "given", "biuf", alike=False, pure=False),
    Row(
        "role",
        0,
        "none",
        pure=False,
        attributes=("first", "count", "registers", "apart"),
        meaning="concurrent work of units first to first + count − 1 of the cube",
    ),
    # Diagnostics.
    Row("print", -1, "none", "biuf", alike=False, pure=False, attributes=("text",)),
    Row("assert", 1, "none", "b", pure=False, attributes=("text",)),
    Row(
        "inline",
        -1,
        "given",
        "biuf",
        alike=False,
        pure=False,
        attributes=("intrinsic",),
        meaning="the text of an intrinsic in the printer's language",
    ),
)

OPS: Final[dict[str, Row]] = {row.name: row for row in _ROWS}
