"""The reader of messages and the table of schemas, compared with protobuf and the package onnx."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto, defs, helper

from calor_onnx import messages
from calor_onnx.graph import Node
from calor_onnx.messages import Damaged, Message, ModelProto
from calor_onnx.reading import read
from calor_onnx.schemas import _converted, newest_opset, schema_of
from calor_onnx.tensors import LARGE

from .test_fuzz import SEEDS

TYPED = [
    ("float_data", TensorProto.FLOAT, [1.5, -2.0, float("inf")]),
    ("double_data", TensorProto.DOUBLE, [1e300, -0.0]),
    ("int64_data", TensorProto.INT64, [-1, 2**63 - 1, -(2**63), 300]),
    ("uint64_data", TensorProto.UINT64, [2**64 - 1, 0]),
    ("int32_data", TensorProto.INT32, [-1, 2**31 - 1, -(2**31)]),
    ("int32_data", TensorProto.INT8, [-1, 127]),
    ("int32_data", TensorProto.FLOAT16, [0x3C00, 0xFC00]),
    ("int32_data", TensorProto.BFLOAT16, [0x3F80, 0xBF80, 1]),
    ("int32_data", TensorProto.BOOL, [1, 0, 1]),
    ("int32_data", TensorProto.FLOAT8E5M2, [0x3C, 0xBC]),
    ("int32_data", TensorProto.INT4, [0x21, 0xF3]),
    ("int32_data", TensorProto.UINT2, [0xE4]),
    ("int32_data", TensorProto.FLOAT6E2M3, [0x21, 0x3F, 0x05]),
    ("float_data", TensorProto.COMPLEX64, [1.0, 2.0, 3.0, -4.0]),
]


def compared(made: Message, wanted: Any) -> None:
    """Compare all fields of two messages."""
    for field in made._known.values():
        one, other = getattr(made, field.name), getattr(wanted, field.name)
        if field.inner is not None and field.several:
            assert len(one) == len(other), field.name
            for pair in zip(one, other, strict=True):
                compared(*pair)
        elif field.several:
            assert [*one] == [*other], field.name
        else:
            assert made.HasField(field.name) == wanted.HasField(field.name), field.name
            if field.inner is None:
                assert (bytes(one) if field.kind == "view" else one) == other, field.name
            elif made.HasField(field.name):
                compared(one, other)


def typed() -> onnx.ModelProto:
    """A model with a constant of each way to give elements without raw bytes."""
    tensors = []
    for number, (field, kind, numbers) in enumerate(TYPED):
        made = TensorProto(name=f"t{number}", data_type=kind)
        per = {TensorProto.INT4: 2, TensorProto.UINT2: 4, TensorProto.COMPLEX64: 0.5}.get(kind, 1)
        made.dims.append(int(len(numbers) * per))
        getattr(made, field).extend(numbers)
        tensors.append(made)
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N"]) for n in "xy"]
    graph = helper.make_graph(nodes, "typed", info[:1], info[1:], tensors)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize("proto", [*SEEDS, typed()], ids=lambda proto: proto.graph.name)
def test_messages_are_those_of_protobuf(proto: onnx.ModelProto) -> None:
    """Also of a model in two parts, whose fields are joined, and of one that is cut anywhere."""
    data = proto.SerializeToString()
    for given in (
        data,
        data + data[: len(data) // 2] if _whole(data[: len(data) // 2]) else data * 2,
    ):
        compared(ModelProto.parsed(given), onnx.ModelProto.FromString(given))
    for end in range(0, len(data), 1 + len(data) // 150):
        if _whole(data[:end]):
            compared(ModelProto.parsed(data[:end]), onnx.ModelProto.FromString(data[:end]))
        else:
            with pytest.raises(Damaged):
                ModelProto.parsed(data[:end])


def _whole(data: bytes) -> bool:
    try:
        onnx.ModelProto.FromString(data)
    except DecodeError:
        return False
    return True


def test_typed_elements_are_those_of_onnx() -> None:
    proto = typed()
    constants = read(proto.SerializeToString()).graph.constants
    for tensor in proto.graph.initializer:
        wanted = onnx.numpy_helper.to_array(tensor)
        found = constants[tensor.name].array()
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes(), tensor.name


def test_packed_numbers_beside_single_ones_are_joined() -> None:
    """Writers may give each number of a tensor a field of its own."""
    proto = TensorProto(dims=[1], data_type=TensorProto.INT64, int64_data=[7])
    single = b"\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    data = proto.SerializeToString() + single
    wanted = [*TensorProto.FromString(data).int64_data]
    assert [*messages.TensorProto.parsed(data).int64_data] == wanted == [7, -1]


@pytest.mark.parametrize("part", [7, 64, 1 << 20])
def test_long_lists_are_those_of_protobuf(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element has a field of its own; they are read many at once, whatever is between."""
    monkeypatch.setattr(messages, "_PART", part)
    rng = np.random.default_rng(part)
    ints = [int(n) for n in rng.integers(-(2**63), 2**63, 200) >> rng.integers(0, 64, 200)]
    texts = [bytes(rng.integers(0, 256, n, np.uint8)) for n in (0, 1, 127, 128, 300, 2, 2)]
    for order in ("ints floats strings", "strings floats ints", "floats ints type_protos"):
        proto = onnx.AttributeProto(name="a", ref_attr_name="r")
        data = proto.SerializeToString()
        for name in order.split():
            one = onnx.AttributeProto()
            if name == "type_protos":
                one.type_protos.add().denotation = "d" * 300
            else:
                values = {"ints": ints, "floats": [1.5, -2.0, 3e38], "strings": texts}[name]
                getattr(one, name).extend(values)
            data += one.SerializeToString()
        for given in (data, data * 2):
            wanted = onnx.AttributeProto.FromString(given)
            compared(messages.AttributeProto.parsed(given), wanted)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x0b", "wire type 3"),
        (b"\x08" + b"\xff" * 11, "more than ten bytes"),
        (b"\x02\x00", "cut short"),
        (b"\x3a\x05\x0a", "cut short"),
    ],
)
def test_damaged_fields_are_refused(data: bytes, told: str) -> None:
    with pytest.raises(Damaged, match=told):
        ModelProto.parsed(data)


def test_large_weights_stay_in_the_file(tmp_path: Path) -> None:
    """The file is not copied; a weight is mapped again when it is read."""
    path = tmp_path / "model.onnx"
    weight = np.arange(LARGE, dtype=np.float32)
    proto = typed()
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(proto, path)
    imported = read(path)
    raw = ModelProto.parsed(memoryview(path.read_bytes())).graph.initializer[-1].raw_data
    assert imported.weights._inside(raw).source == path
    np.testing.assert_array_equal(imported.graph.constants["w"].array(), weight)


def test_the_table_of_schemas_is_that_of_onnx() -> None:
    """If this fails, run `python tools/onnx_schemas.py`."""
    root = Path(__file__).parents[3]
    spec = importlib.util.spec_from_file_location("schemas", root / "tools" / "onnx_schemas.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.FILE.read_text("utf-8") == tool.table()


def test_each_schema_of_the_table_is_read_as_onnx_says() -> None:
    for schema in defs.get_all_schemas_with_history():
        node = Node(schema.name, schema.domain, schema.since_version, "", [], [], {})
        assert schema_of(node) == _converted(schema), schema.name
    assert schema_of(Node("Add", "", 0, "", [], [], {})) is None
    assert schema_of(Node("Add", "mine", 1, "", [], [], {})) is None
    newer = Node("Add", "", newest_opset() + 1, "", [], [], {})
    assert schema_of(newer) == _converted(defs.get_schema("Add"))
