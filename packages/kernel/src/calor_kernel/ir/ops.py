"""The operations of a kernel: builder, passes, verifier, printers and lanes read the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Shape = Literal["same", "bool", "given", "none"]
Scope = Literal["", "plane", "cube", "warpgroup", "cluster"]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation.

    ``operands``: their number, −1 for any. ``result``: "same" as the first operand, "bool" with its
    width, "given" by the maker, or "none". ``kinds``: the dtype kinds of the first operand
    ("b" bool, "i" signed, "u" unsigned, "f" floating). ``alike``: the operands share one type.
    ``pure``: without effects, and dependent on its operands only, so it may be moved, shared and
    dropped. ``droppable``: it depends on more than its operands, and may be dropped if unused.
    ``scope``: the units that must reach it together. ``memory``: whether it accesses a memory.
    ``regions``: their number. ``attributes``: the names that it takes. ``choices``: the values of
    its attribute ``kind``.
    """

    name: str
    operands: int
    result: Shape = "same"
    kinds: str = "iuf"
    alike: bool = True
    pure: bool = True
    droppable: bool = False
    scope: Scope = ""
    memory: bool = False
    regions: int = 0
    attributes: tuple[str, ...] = ()
    choices: str = ""


def _pure(names: str, operands: int, attributes: str = "", **facts: Any) -> Iterator[Row]:
    """Yield rows of operations with the same facts that depend only on their operands."""
    for name in names.split():
        yield Row(name, operands, attributes=tuple(attributes.split()), **facts)


def _acts(names: str, operands: int, attributes: str = "", **facts: Any) -> Iterator[Row]:
    """Yield rows of operations with the same facts that read or change something else."""
    usual = {"result": "none", "kinds": "iu", "alike": False, "pure": False}
    yield from _pure(names, operands, attributes, **{**usual, **facts})


_ALL: Final = "biuf"
_REDUCED: Final = "add mul min max and or xor"
_ATOMIC: Final = "add min max and or xor exchange compare"
_ANY: Final[dict[str, Any]] = {"result": "given", "kinds": _ALL}
_PLANE: Final[dict[str, Any]] = {"scope": "plane", "droppable": True, "kinds": _ALL}
_MATRIX: Final[dict[str, Any]] = {**_PLANE, "result": "given", "kinds": "iuf"}
_WARPGROUP: Final[dict[str, Any]] = {"scope": "warpgroup", "kinds": "iuf"}
_ACCESS: Final = "align order scope nontemporal masked"
_TILES: Final = "source right rows columns ahead add parts"
_ASYNC: Final = "shape first fresh source a a_major b b_major"

_ROWS = (
    # A number, or a tuple of lanes.
    *_pure("constant", 0, "value", result="given"),
    # Arithmetic. Integers wrap around. The flags "contract", "reassoc" and "nsz" permit changes to
    # float operations. min and max of floats: NaN if one is NaN, and −0 below +0. sqrt is correctly
    # rounded, fma is a * b + c rounded once, rint rounds ties to even.
    *_pure("add sub mul", 2, "flags"),
    *_pure("div", 2, "flags", kinds="f"),
    *_pure("neg", 1, "flags"),
    *_pure("fma", 3, kinds="f"),
    *_pure("min max", 2),
    *_pure("abs", 1),
    *_pure("floor ceil trunc rint sqrt", 1, kinds="f"),
    *_pure("copysign", 2, kinds="f"),
    # quotient rounds toward zero; modulo is its remainder, with the sign of the dividend; mulhi is
    # the upper half of the product.
    *_pure("quotient modulo mulhi", 2, kinds="iu"),
    # Bits. Shifts are by less than the width, to the right arithmetic for signed types. clz and ctz
    # count leading and trailing zeros, and are the width for zero.
    *_pure("and or xor", 2, kinds="biu"),
    *_pure("not", 1, kinds="biu"),
    *_pure("shl shr", 2, kinds="iu"),
    *_pure("popcount clz ctz", 1, kinds="iu"),
    # Comparison and choice. With NaN every comparison is false but "ne". select: operand 1 where
    # operand 0, else 2.
    *_pure("eq ne", 2, result="bool", kinds=_ALL),
    *_pure("lt le gt ge", 2, result="bool"),
    *_pure("select", 3, result="given", kinds="b", alike=False),
    # Conversion. cast from float to int truncates, saturates and makes NaN 0; int to int keeps the
    # low bits; to float rounds to nearest even; to bool tells nonzero. bitcast may regroup lanes.
    *_pure("cast bitcast", 1, **_ANY),
    # Vectors. splat: a scalar in every lane; shuffle: lanes of both operands; pack: a vector of
    # scalars; vreduce: over the lanes, halves first; dot: operand 2 plus products of groups of
    # lanes of 0 and 1, in the wider type of 2.
    *_pure("splat", 1, **_ANY),
    *_pure("extract", 1, "lane", **_ANY),
    *_pure("insert", 2, "lane", alike=False, **_ANY),
    *_pure("shuffle", 2, "lanes", **_ANY),
    *_pure("pack", -1, **_ANY),
    *_pure("vreduce", 1, "kind flags", choices=_REDUCED, **_ANY),
    *_pure("dot", 3, result="given", alike=False),
    # Memory. Operands of load: index, and mask and other with a mask; of store: index, value, and
    # the mask. They access consecutive elements, or one each where the index is a vector.
    *_acts("load", -1, _ACCESS, result="given", memory=True, droppable=True),
    *_acts("store", -1, _ACCESS, memory=True),
    # The result is the old value. Operands: index, value, or index, expected, new for compare.
    *_acts("atomic", -1, "kind order scope", choices=_ATOMIC, result="given", memory=True),
    *_acts("prefetch", 1, "write locality", memory=True),
    # Makes memory the one of memories with the number of operand 0, which is equal in a cube.
    *_acts("select_memory", 1, "memories", memory=True),
    # Positions: of cubes in the launch and units in the cube; the unit's place in its plane, and
    # the plane's in its cube.
    *_pure("cube_position cube_count unit_position", 0, "axis", result="given"),
    *_pure("lane_position plane_position", 0, result="given"),
    # Collective operations. arrive counts at a named barrier without waiting. plane_shuffle: the
    # value of another lane: its index, an xor mask, or a distance up or down. plane_ballot: a bit
    # per lane.
    *_acts("barrier", 0, "scope name count", scope="cube"),
    *_acts("arrive", 0, "name count"),
    *_acts("fence", 0, "scope order"),
    # Waits for the launches before: what precedes it reads and writes no memory.
    *_acts("await_launches", 0),
    *_acts("plane_shuffle", 2, "kind", choices="index xor up down", result="given", **_PLANE),
    *_acts("plane_reduce", 1, "kind", choices=_REDUCED, result="same", **_PLANE),
    *_acts("plane_scan", 1, "kind exclusive", choices=_REDUCED, result="same", **_PLANE),
    *_acts("plane_ballot", 1, result="given", **{**_PLANE, "kinds": "b"}),
    # Matrices. mma: c + a @ b on fragments, each a vector of the lane's elements.
    *_acts("mma", 3, "shape fragments", **_MATRIX),
    # A block of rows times columns tiles of 16 by 16 sums, written to memory at operand 0 by rows:
    # the product of 64 bytes a row and step of source, from operand 1 on with the row stride of
    # operand 2, with steps of 16 lines of right, from operand 3 on with the line stride of operand
    # 4, in which the terms of one sum are adjacent in fours of bytes. Operand 5: the steps. Each of
    # them prefetches ``ahead`` lines of 64 bytes of right, from operand 6 on. ``add``: to the sums
    # in memory. ``parts``: of each operand, operands 7 and 8 apart, of which those are multiplied
    # whose numbers are less than parts in sum.
    *_acts("tile_product", 9, _TILES, memory=True),
    # Loads count blocks of 8 rows of 8 elements: lane 8 b + r gives the start of row r of block b,
    # and lane l gets 2 adjacent elements per block, of row (or column) l / 4.
    *_acts("load_matrix", 1, "count transposed", memory=True, **{**_MATRIX, "kinds": "iu"}),
    # Starts operand 0 + a @ b: a is a fragment, or is in source from operand 1 on, b is in memory
    # from operand 2 on. The result is only for mma_async and mma_result. fresh: operand 0 is 0.
    *_acts("mma_async", 3, _ASYNC, result="given", memory=True, **_WARPGROUP),
    # The result of mma_async, after a wait_async for its group.
    *_acts("mma_result", 1, result="same", **_WARPGROUP),
    # Copies elements from source at operand 1 to memory at operand 0, visible after a wait; zeros
    # where operand 2, an optional mask, is false. near: they are kept in the nearest cache.
    *_acts("copy_async", -1, "source elements group near", memory=True),
    # Starts copying a box to memory at operand 0; the barrier of operand 1 counts its bytes. The
    # other operands: its position, the tensor's sizes and strides. cubes: the copy goes to that
    # many cubes of the cluster, at the barrier of each.
    *_acts("copy_tensor", -1, "source barrier map cubes", memory=True),
    # Starts copying a box from source at operand 0 to memory; further operands as for copy_tensor.
    *_acts("store_tensor", -1, "source map group", memory=True),
    # The barrier at operand 0. init: it takes operand 1 arrivals a phase; expect: the phase ends
    # after operand 1 more bytes; wait: for the end of the phase with the parity of operand 1;
    # arrive: also at the cluster's cube of operand 1.
    *_acts("mbarrier_init mbarrier_expect mbarrier_wait", 2, alike=True, memory=True),
    *_acts("mbarrier_arrive", -1, alike=True, memory=True),
    # wait_async waits for all of a group but the latest, once the operands are computed.
    *_acts("commit_async", 0, "group"),
    *_acts("wait_async", -1, "group pending read", kinds="iuf"),
    # Control flow. Regions yield the carried values. role: concurrent work of units first to
    # first + count − 1 of the cube.
    *_acts("for", -1, "unroll", result="given", regions=1, droppable=True),
    *_acts("if", -1, result="given", kinds="b", regions=2, droppable=True),
    *_acts("while", -1, regions=2, droppable=True, **_ANY),
    *_acts("role", 0, "first count registers apart", regions=1),
    # Diagnostics, and the text of an intrinsic in the printer's language.
    *_acts("print", -1, "text", kinds=_ALL),
    *_acts("assert", 1, "text", kinds="b"),
    *_acts("inline", -1, "intrinsic", **_ANY),
)

OPS: Final[dict[str, Row]] = {row.name: row for row in _ROWS}
