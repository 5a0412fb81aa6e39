"""The grammar of kernels: each rule has a kernel that breaks it alone."""

from collections.abc import Callable
from typing import Any

import pytest

from calor.dtypes import bool_, complex64, float32, int32, int64
from calor_interpreter.verify import verify
from calor_kernel.errors import VerificationError
from calor_kernel.ir.nodes import Block, Kernel, Memory, Operation, Parameter, Value
from calor_kernel.ir.passes import clone
from calor_kernel.ir.text import kernel_text
from calor_kernel.ir.types import Buffer, Scalar, Type

from .kernels import CASES

F, N, B = Type(float32), Type(int64), Type(bool_)
F4 = F.wide(4)


class Made:
    """A kernel to spoil: buffers ``x`` and ``r`` (only read), a number ``n``, a value per type."""

    def __init__(self) -> None:
        self.x = Memory("x", "global", F)
        self.r = Memory("r", "global", F, writable=False)
        self.s = Memory("s", "shared", F, 64)
        self.n = Value(N, "n")
        self.values = {F: self.op("load", self.n, type=F, memory=self.x).result}
        self.body = Block()
        self.body.operations = [
            Operation("load", (self.n,), (self.values[F],), {}, (), self.x),
        ]
        for type, name in ((F4, "splat"), (B, "gt")):
            first = self.values[F]
            operands = (first,) if name == "splat" else (first, first)
            self.values[type] = self.put(name, *operands, type=type).result

    def op(
        self,
        name: str,
        /,
        *operands: Value,
        type: Type | None = None,
        memory: Memory | None = None,
        regions: tuple[Block, ...] = (),
        results: tuple[Value, ...] = (),
        **attributes: Any,
    ) -> Operation:
        if type is not None:
            results = (Value(type),)
        return Operation(name, operands, results, attributes, regions, memory, ("here.py", 7))

    def put(self, name: str, /, *operands: Value, **said: Any) -> Operation:
        made = self.op(name, *operands, **said)
        self.body.operations.append(made)
        return made

    def constant(self, number: Any, type: Type = N) -> Value:
        made = Operation("constant", (), (Value(type, known=number),), {"value": number})
        self.body.operations.append(made)
        return made.result

    def kernel(self, **said: Any) -> Kernel:
        parameters = (
            Parameter("x", Buffer(float32), memory=self.x),
            Parameter("r", Buffer(float32, writable=False), memory=self.r),
            Parameter("n", Scalar(int64), value=self.n),
        )
        given: dict[str, Any] = {"memories": (self.s,), "cube": (8, 1, 1), "plane": 4, **said}
        return Kernel("k", parameters, self.body, **given)


Spoil = Callable[[Made], Any]


def region(*yields: Value, arguments: tuple[Value, ...] = ()) -> Block:
    return Block(arguments, [], yields)


def loop(m: Made, **said: Any) -> Operation:
    """A good loop that carries a float; keywords replace what it has."""
    zero, one = m.constant(0), m.constant(1)
    i, carried = Value(N), Value(F)
    given: dict[str, Any] = {
        "operands": (zero, m.n, one, m.values[F]),
        "arguments": (i, carried),
        "yields": (carried,),
        "type": F,
        **said,
    }
    body = region(*given["yields"], arguments=given["arguments"])
    return m.put("for", *given["operands"], type=given["type"], regions=(body,))


def under(m: Made, condition: Value, *made: Operation) -> None:
    """Operations under a condition."""
    m.put("if", condition, regions=(Block((), list(made)), Block()))


def position(m: Made, name: str, **said: Any) -> Value:
    return m.put(name, type=N, **said).result


def is_zero(m: Made, value: Value) -> Value:
    return m.put("eq", value, m.constant(0), type=B).result


# What spoils a kernel, the rule that it breaks, and a part of the message.
BROKEN: dict[str, tuple[Spoil, str, str]] = {
    "unknown": (lambda m: m.put("frobnicate"), "row", "no such operation"),
    "attribute": (
        lambda m: m.put("barrier", colour=3),
        "row",
        "the attribute 'colour' is unknown",
    ),
    "memory of arithmetic": (
        lambda m: m.put("neg", m.n, type=N, memory=m.x),
        "row",
        "its memory is <global x>",
    ),
    "load of nothing": (lambda m: m.put("load", m.n, type=F), "row", "its memory is None"),
    "regions": (lambda m: m.put("if", m.values[B]), "row", "it has 0 regions"),
    "kind": (
        lambda m: m.put("vreduce", m.values[F4], type=F, kind="median"),
        "row",
        "its kind 'median' is none of add",
    ),
    "kind of floats": (
        lambda m: m.put("vreduce", m.values[F4], type=F, kind="xor"),
        "row",
        "xor does not take float32",
    ),
    "scope": (lambda m: m.put("barrier", scope="room"), "row", "the scope 'room' is none of"),
    "order": (
        lambda m: m.put("load", m.n, type=F, memory=m.x, order="late"),
        "row",
        "the order 'late' is none of",
    ),
    "count": (lambda m: m.put("add", m.n, type=N), "operands", "takes 2 operands, not 1"),
    "kinds": (
        lambda m: m.put("div", m.n, m.n, type=N),
        "operands",
        "it does not take int64",
    ),
    "alike": (
        lambda m: m.put("add", m.n, m.values[F], type=N),
        "operands",
        "int64, float32, and must be alike",
    ),
    "complex": (
        lambda m: m.put("splat", m.n, type=Type(complex64, 2)),
        "operands",
        "no value is of type complex64x2",
    ),
    "result of none": (
        lambda m: m.put("barrier", type=N),
        "results",
        "it has no result",
    ),
    "two results": (
        lambda m: m.put("neg", m.n, results=(Value(N), Value(N))),
        "results",
        "one result, not 2",
    ),
    "same": (lambda m: m.put("neg", m.n, type=F), "results", "its result is float32, and int64"),
    "bool": (
        lambda m: m.put("lt", m.values[F4], m.values[F4], type=B),
        "results",
        "its result is bool, not boolx4",
    ),
    "number": (lambda m: m.constant(1.5), "shapes", "1.5 is no int64"),
    "large number": (lambda m: m.constant(2**40, Type(int32)), "shapes", "is no int32"),
    "numbers": (lambda m: m.constant((1, 2), N.wide(3)), "shapes", "2 numbers are no int64x3"),
    "select": (
        lambda m: m.put("select", m.values[B], m.values[F4], m.values[F4], type=F4),
        "shapes",
        "it chooses by bool between float32x4",
    ),
    "cast": (
        lambda m: m.put("cast", m.values[F4], type=N),
        "shapes",
        "it makes int64 of float32x4",
    ),
    "bitcast": (
        lambda m: m.put("bitcast", m.values[F4], type=N),
        "shapes",
        "have not the same bits",
    ),
    "splat": (lambda m: m.put("splat", m.n, type=F4), "shapes", "it makes float32x4 of int64"),
    "extract": (
        lambda m: m.put("extract", m.values[F4], type=F, lane=4),
        "shapes",
        "float32x4 has no lane 4",
    ),
    "insert": (
        lambda m: m.put("insert", m.values[F4], m.n, type=F4, lane=0),
        "shapes",
        "it puts int64 into float32x4",
    ),
    "shuffle": (
        lambda m: m.put("shuffle", m.values[F4], m.values[F4], type=F.wide(2), lanes=(0, 8)),
        "shapes",
        "are not all of two float32x4",
    ),
    "pack": (
        lambda m: m.put("pack", m.values[F], m.values[F], type=F4),
        "shapes",
        "float32, float32 are no float32x4",
    ),
    "vreduce": (
        lambda m: m.put("vreduce", m.values[F], type=F, kind="add"),
        "shapes",
        "it makes float32 of float32",
    ),
    "dot": (
        lambda m: m.put("dot", m.values[F4], m.values[F4], m.values[F], type=F),
        "shapes",
        "have no groups for float32",
    ),
    "axis": (lambda m: m.put("cube_position", type=N, axis=3), "shapes", "there is no axis 3"),
    "position": (
        lambda m: m.put("lane_position", type=F),
        "shapes",
        "a position is an integer, not float32",
    ),
    "type of a load": (
        lambda m: m.put("load", m.n, type=N, memory=m.x),
        "shapes",
        "<global x> holds float32, not int64",
    ),
    "index of a load": (
        lambda m: m.put("load", m.put("splat", m.n, type=N.wide(3)).result, type=F4, memory=m.x),
        "shapes",
        "an index of int64x3 does not reach float32x4",
    ),
    "alignment": (
        lambda m: m.put("load", m.n, type=F4, memory=m.x, align=12),
        "shapes",
        "12 bytes is no power of two",
    ),
    "mask of a load": (
        lambda m: m.put("load", m.n, m.values[B], m.values[F4], type=F4, memory=m.x, masked=True),
        "shapes",
        "its mask is bool and its other value float32x4",
    ),
    "mask not said": (
        lambda m: m.put("load", m.n, m.values[B], m.values[F], type=F, memory=m.x),
        "shapes",
        "with a mask it takes",
    ),
    "store": (lambda m: m.put("store", m.n, memory=m.x), "shapes", "an index and a value"),
    "mask of a store": (
        lambda m: m.put("store", m.n, m.values[F4], m.values[B], memory=m.x, masked=True),
        "shapes",
        "its mask is bool, for float32x4",
    ),
    "only read": (
        lambda m: m.put("store", m.n, m.values[F], memory=m.r),
        "shapes",
        "<global r> is declared as only read",
    ),
    "atomic": (
        lambda m: m.put("atomic", m.n, m.n, type=F, memory=m.x, kind="add"),
        "shapes",
        "<global x> holds float32, not int64, int64",
    ),
    "compare": (
        lambda m: m.put("atomic", m.n, m.values[F], type=F, memory=m.x, kind="compare"),
        "shapes",
        "an index and 2 values",
    ),
    "copy": (
        lambda m: m.put("copy_async", m.n, m.n, memory=m.x, source=m.r, elements=4),
        "shapes",
        "from global memory to shared memory",
    ),
    "unit shuffle": (
        lambda m: m.put("plane_shuffle", m.values[F], m.values[F], type=F, kind="xor"),
        "shapes",
        "it makes float32 of float32, float32",
    ),
    "bounds": (lambda m: loop(m, operands=(m.n, m.n)), "shapes", "it takes start, stop and step"),
    "types of bounds": (
        lambda m: loop(m, operands=(m.n, m.constant(3, Type(int32)), m.n, m.values[F])),
        "shapes",
        "it counts from int64 to int32 by int64",
    ),
    "step": (
        lambda m: loop(m, operands=(m.n, m.n, m.constant(0), m.values[F])),
        "shapes",
        "its step is 0",
    ),
    "arguments": (
        lambda m: loop(m, arguments=(Value(N),), yields=(m.values[F],)),
        "shapes",
        "its arguments are (int64), not (int64, float32)",
    ),
    "yields": (lambda m: loop(m, yields=()), "shapes", "its yields are (), not (float32)"),
    "results": (lambda m: loop(m, type=N), "shapes", "its results are (int64), not (float32)"),
    "condition": (
        lambda m: m.put("if", m.values[B], m.values[B], regions=(Block(), Block())),
        "shapes",
        "its condition is bool, bool, not a bool",
    ),
    "branches": (
        lambda m: m.put("if", m.values[B], type=F, regions=(region(m.values[F]), region(m.n))),
        "shapes",
        "its yields are (int64), not (float32)",
    ),
    "question": (
        lambda m: m.put("while", regions=(region(m.n), Block())),
        "shapes",
        "its question are (int64), not (bool)",
    ),
    "from nowhere": (
        lambda m: m.put("neg", Value(N, "lost"), type=N),
        "definitions",
        "operand 0, <lost: int64>, has no value here",
    ),
    "before": (
        lambda m: m.body.operations.insert(0, m.op("neg", m.values[F], type=F)),
        "definitions",
        "has no value here",
    ),
    "out of a region": (
        lambda m: m.put(
            "neg",
            loop(m).regions[0].arguments[0],
            type=N,
        ),
        "definitions",
        "has no value here",
    ),
    "yield from nowhere": (
        lambda m: loop(m, yields=(Value(F, "lost"),)),
        "definitions",
        "a region yields <lost: float32>",
    ),
    "twice": (
        lambda m: m.put("neg", m.n, results=(m.n,)),
        "definitions",
        "<n: int64> is made twice",
    ),
    "another's memory": (
        lambda m: m.put("load", m.n, type=F, memory=Memory("z", "global", F)),
        "memories",
        "<global z> belongs to another kernel",
    ),
    "another's source": (
        lambda m: m.put(
            "copy_async", m.n, m.n, memory=m.s, source=Memory("z", "global", F), elements=4
        ),
        "memories",
        "<global z> belongs to another kernel",
    ),
    "barrier of some units": (
        lambda m: under(m, is_zero(m, position(m, "unit_position", axis=0)), m.op("barrier")),
        "together",
        "a condition that differs between the units of a cube; move it out",
    ),
    "barrier of some planes": (
        lambda m: under(m, is_zero(m, position(m, "plane_position")), m.op("barrier")),
        "together",
        "differs between the units of a cube",
    ),
    "plane of some lanes": (
        lambda m: under(
            m,
            is_zero(m, position(m, "lane_position")),
            m.op("plane_reduce", m.values[F], type=F, kind="add"),
        ),
        "together",
        "differs between the units of a plane",
    ),
    "a load before other launches end": (
        lambda m: m.put("await_launches"),
        "awaited",
        "it comes before the launches that may write the memory are awaited",
    ),
    "waiting of some units": (
        lambda m: under(m, is_zero(m, m.n), m.op("await_launches")),
        "awaited",
        "some units may never wait; move it out",
    ),
}


def read_early(m: Made) -> None:
    early = m.op("load", m.n, type=F, memory=m.r)
    m.body.operations[:0] = [early, m.op("await_launches")]


# The same where all units of the scope decide alike.
GOOD: dict[str, Spoil] = {
    "nothing": lambda m: None,
    "loop": loop,
    "a load of memory that is only read before other launches end": read_early,
    "barrier of a cube": lambda m: under(
        m, is_zero(m, position(m, "cube_position", axis=0)), m.op("barrier", scope="cube")
    ),
    "barrier under an argument": lambda m: under(m, is_zero(m, m.n), m.op("barrier")),
    "barrier of a plane": lambda m: under(
        m, is_zero(m, position(m, "plane_position")), m.op("barrier", scope="plane")
    ),
    "named barrier": lambda m: under(
        m, is_zero(m, position(m, "plane_position")), m.op("barrier", name=1, count=4)
    ),
    "fence": lambda m: under(m, is_zero(m, position(m, "unit_position", axis=0)), m.op("fence")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    spoil, rule, message = BROKEN[name]
    made = Made()
    verify(made.kernel())
    spoil(made)
    with pytest.raises(VerificationError) as error:
        verify(made.kernel())
    assert f"breaks the rule {rule!r}" in str(error.value)
    assert message in str(error.value)
    assert "kernel k" in str(error.value)


@pytest.mark.parametrize("name", GOOD)
def test_good_kernels_pass(name: str) -> None:
    made = Made()
    GOOD[name](made)
    kernel = made.kernel()
    assert verify(kernel) is kernel


def test_the_line_is_named() -> None:
    made = Made()
    made.put("neg", made.n, type=F)
    with pytest.raises(VerificationError, match=r"^here.py:7: neg in kernel k breaks the rule"):
        verify(made.kernel())


FRAMES = [
    ({"cube": (0, 1, 1)}, r"a cube of \(0, 1, 1\) units"),
    ({"plane": 0}, "in planes of 0"),
    ({"memories": (Memory("g", "global", F, 3),)}, "memory 'g' of a kernel's own is global"),
    ({"memories": (Memory("g", "shared", F),)}, "is shared, None"),
    ({"memories": (Memory("x", "shared", F, 3),)}, "the name 'x' stands for two things"),
    ({"parameters": (Parameter("p", Scalar(int64)),)}, "is a number or a buffer, one of them"),
    (
        {"parameters": (Parameter("p", Scalar(int64), value=Value(F)),)},
        "parameter 'p', int64, is float32",
    ),
    ({"body": Block(yields=(Value(F),))}, "the body takes and yields nothing"),
]


@pytest.mark.parametrize(("spoiled", "message"), FRAMES)
def test_frames_of_kernels(spoiled: dict[str, Any], message: str) -> None:
    kernel = Made().kernel()
    for name, value in spoiled.items():
        setattr(kernel, name, value)
    with pytest.raises(VerificationError, match=message):
        verify(kernel)


@pytest.mark.parametrize("name", CASES)
def test_built_kernels_and_clones_obey(name: str) -> None:
    kernel = verify(CASES[name].build())
    text = kernel_text(kernel)
    copy = verify(clone(kernel))
    assert kernel_text(kernel) == text
    assert kernel_text(clone(copy)) == kernel_text(copy)
    values = {v for o in kernel.body.walk() for v in o.results}
    assert values.isdisjoint(v for o in copy.body.walk() for v in o.results)
