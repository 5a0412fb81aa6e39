"""Damaged models: each either runs or is refused by a typed error, with bounded memory and time.

Models of a few nodes are broken at random: bytes flipped or cut off, and fields of the parsed
message changed. ``CALOR_ONNX_FUZZ`` sets how many are tried; `nox -s onnx_fuzz` tries many.
"""

import os
import signal
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import calor_onnx
from calor.errors import CalorError
from calor_onnx.feeding import feed

EXAMPLES = int(os.environ.get("CALOR_ONNX_FUZZ", "150"))
# A broken model that computes longer than this hangs.
SECONDS = 20

TEXTS = [
    """f (float[N,3] x) => (float[N,2] y) <float[3,2] w = {1,2,3,4,5,6}, float[2] b = {1,2}> {
        p = MatMul (x, w)
        q = Add (p, b)
        r = Relu (q)
        y = Identity (r)
    }""",
    """f (float[1,2,5,5] x) => (float[1,3,K] y) <float[3,2,1,1] w = {1,2,3,4,5,6}> {
        c = Conv <kernel_shape = [1,1], strides = [1,1], pads = [0,0,0,0]> (x, w)
        n = Constant <value_ints = [1,3,-1]> ()
        m = MaxPool <kernel_shape = [2,2], strides = [1,1]> (c)
        y = Reshape (m, n)
    }""",
    """f (float[2] x, bool b) => (float[2] y) {
        y = If (b) <
            then_branch = t () => (float[2] u) { u = Add (x, x) },
            else_branch = e () => (float[2] v) { v = Neg (x) }>
    }""",
    """f (float[2] x) => (float[2] y, float[K,2] z) <int64 n = {3}, bool on = {1}> {
        y, z = Loop (n, on, x) <body = g (int64 i, bool c, float[2] k)
            => (bool d, float[2] l, float[2] s) { d = Identity (c) l = Add (k, k) s = Neg (l) }>
    }""",
    """f (float[N,4] x) => (float[M,K] y) <int64[2] s = {2,2}, int64[1] o = {1}, int64[1] a = {0}> {
        h = Shape (x)
        r = Slice (x, a, o, a)
        e = ConstantOfShape (s)
        t = Tile (e, s)
        u = Expand (t, s)
        v = Gather <axis = 1> (r, a)
        y = Pad (v, s)
    }""",
    """f (float[2,4] x) => (float[2,4] y) <float[4] g = {1,1,1,1}, int64[1] a = {-1}> {
        m = ReduceMean <axes = [-1]> (x)
        d = Sub (x, m)
        two = Constant <value_float = 2.0> ()
        p = Pow (d, two)
        v = ReduceMean <axes = [-1]> (p)
        e = Constant <value_float = 0.00001> ()
        w = Add (v, e)
        s = Sqrt (w)
        n = Div (d, s)
        t = Transpose <perm = [1,0]> (n)
        u = Transpose <perm = [1,0]> (t)
        y = Mul (u, g)
    }""",
    """f (int64 n) => (int64[K] y) <int64 a = {0}, int64 d = {1}> { y = Range (a, n, d) }""",
]


def seeds() -> list[onnx.ModelProto]:
    head = '<ir_version: 8, opset_import: ["" : 17, "mine" : 1]>'
    made = [onnx.parser.parse_model(f"{head} {text}") for text in TEXTS]
    made.append(
        onnx.parser.parse_model(
            head
            + """ f (float[2] x) => (float[2] y) { y = mine.Outer <by = 2.0> (x) }
            <domain: "mine", opset_import: ["" : 17, "mine" : 1]>
            Outer <by> (x) => (y) { f = Constant <value_float: float = @by> () t = Mul (x, f)
                y = mine.Inner (t) }
            <domain: "mine", opset_import: ["" : 17]>
            Inner (x) => (y) { y = Relu (x) }"""
        )
    )
    raw = numpy_helper.from_array(np.ones((64, 32), np.float32), "w")
    texts = helper.make_tensor("t", TensorProto.STRING, [2], [b"a", b"b"])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Constant", [], ["names"], value=texts),
        helper.make_node("Identity", ["names"], ["z"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.DOUBLE),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 64])]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.DOUBLE, [2, 32]),
        helper.make_tensor_value_info("z", TensorProto.STRING, [2]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [raw])
    made.append(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]))
    return made


SEEDS = seeds()
NUMBERS = [0, 1, -1, 2, 7, 16, 63, 255, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63)]


def attempt(source: Any) -> None:
    """Load and run a model; only errors of calor may come of it."""
    try:
        model = calor_onnx.load(source, device="numpy")
        if all(
            prod(n for n in i.shape or () if isinstance(n, int)) < 1 << 20 for i in model.inputs
        ):
            model.run(feed(model))
    except CalorError:
        pass


def holders(message: Message) -> Iterator[tuple[Message, Any]]:
    """Walk all fields that are set: (message, field)."""
    for field, value in message.ListFields():
        yield message, field
        if field.message_type is None:
            continue
        for inner in value if field.is_repeated else [value]:
            yield from holders(inner)


def changed(message: Message, field: Any, draw: Any) -> None:
    """Change one field: another number or text, an element less, one more, or none at all."""
    value = getattr(message, field.name)
    if field.is_repeated:
        place = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(["drop", "double", "clear", "set"]))
        if how == "drop":
            del value[place]
        elif how == "clear":
            message.ClearField(field.name)
        elif how == "double":
            value.extend([value[place]])
        elif field.message_type is None:
            value[place] = other(field, value[place], draw)
        return
    if field.message_type is not None or draw(st.booleans()):
        message.ClearField(field.name)
    else:
        setattr(message, field.name, other(field, value, draw))


def other(field: Any, value: Any, draw: Any) -> Any:
    """Return another value for a field that is no message."""
    if isinstance(value, bytes):
        place = draw(st.integers(0, len(value)))
        return draw(st.sampled_from([value[:place], value + b"\xff", b"\xff\xfe", b""]))
    if isinstance(value, str):
        return draw(st.sampled_from(["", "x", "y", "w", "value", "Loop", "Shape", "../x"]))
    if field.enum_type is not None:
        return draw(st.sampled_from([v.number for v in field.enum_type.values]))
    if isinstance(value, float):
        return draw(st.sampled_from([0.0, -1.0, float("nan"), float("inf"), 1e38]))
    number = draw(st.sampled_from(NUMBERS))
    return (
        number if field.cpp_type == field.CPPTYPE_INT64 else max(min(number, 2**31 - 1), -(2**31))
    )


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Let what hangs fail."""

    def stop(*_: Any) -> None:
        raise AssertionError(f"a model took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


QUIET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    # Making a failure smaller would run what hangs again and again.
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
    derandomize="CALOR_ONNX_FUZZ" not in os.environ,
)


@pytest.mark.filterwarnings("ignore")
@QUIET
@given(st.data())
def test_bytes_that_were_damaged(data: Any) -> None:
    whole = bytearray(data.draw(st.sampled_from(SEEDS)).SerializeToString(deterministic=True))
    for _ in range(data.draw(st.integers(0, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole))) :]
    signal.alarm(SECONDS)
    attempt(bytes(whole))


@pytest.mark.filterwarnings("ignore")
@QUIET
@given(st.binary(max_size=200))
def test_bytes_of_nothing(whole: bytes) -> None:
    signal.alarm(SECONDS)
    attempt(whole)


@pytest.mark.filterwarnings("ignore")
@QUIET
@given(st.data())
def test_fields_that_were_changed(data: Any) -> None:
    proto = onnx.ModelProto()
    proto.CopyFrom(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 3))):
        found = list(holders(proto))
        if found:
            changed(*data.draw(st.sampled_from(found)), data.draw)
    signal.alarm(SECONDS)
    attempt(proto)
