"""Weights that are computed on their way to the device share memory that does not stay."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import calor_onnx
from calor_onnx.constants import Constant
from calor_onnx.reading import read
from calor_onnx.scratch import MAPPED, Scratch

FLOAT = np.dtype(np.float32)
MANY = MAPPED // 4


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (MANY, MANY, True),
        (2 * MANY, MANY, True),
        (3 * MANY, MANY, False),
        (MANY, 2 * MANY, False),
        (MANY, 8, False),
    ],
)
def test_a_piece_serves_arrays_of_half_its_size_or_more(
    first: int, second: int, shared: bool
) -> None:
    scratch = Scratch()
    before = scratch.room((first,), FLOAT)
    after = scratch.room((second,), FLOAT)
    assert np.shares_memory(before, after) == shared
    after[...] = 1
    assert after.sum() == second


def test_a_constant_is_computed_where_it_is_told() -> None:
    scratch, given = Scratch(), np.arange(MANY, dtype=np.float32)
    seen = []

    def made(room):
        array = room((MANY,), FLOAT)
        seen.append(array)
        array[...] = given
        return array

    large = Constant(FLOAT, (MANY,), made)
    np.testing.assert_array_equal(large.array(scratch.room), given)
    np.testing.assert_array_equal(large.array(), given)
    assert np.shares_memory(seen[0], scratch.room((MANY,), FLOAT))
    assert not np.shares_memory(seen[0], seen[1])


def layers(sizes: list[int]) -> tuple[onnx.ModelProto, np.ndarray]:
    """Convolutions of one place with batch norm behind each, and what they give for ones."""
    random = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    want = np.ones(sizes[0], np.float64)
    for place, (old, new) in enumerate(pairwise(sizes)):
        arrays = {
            "w": random.standard_normal((new, old, 1, 1)) / old,
            "scale": random.uniform(0.5, 1, new),
            "shift": random.standard_normal(new),
            "mean": random.standard_normal(new),
            "variance": random.uniform(0.5, 1, new),
        }
        arrays = {k: v.astype(np.float32) for k, v in arrays.items()}
        names = [f"{k}{place}" for k in arrays]
        weights += [
            numpy_helper.from_array(a, n) for a, n in zip(arrays.values(), names, strict=True)
        ]
        nodes += [
            helper.make_node("Conv", [name, names[0]], [f"c{place}"], kernel_shape=[1, 1]),
            helper.make_node("BatchNormalization", [f"c{place}", *names[1:]], [f"y{place}"]),
        ]
        made = arrays["w"][:, :, 0, 0].astype(np.float64) @ want - arrays["mean"]
        want = made * arrays["scale"] / np.sqrt(arrays["variance"] + 1e-5) + arrays["shift"]
        name = f"y{place}"
    graph = helper.make_graph(
        nodes,
        "layers",
        [helper.make_tensor_value_info("x", 1, [1, sizes[0], 1, 1])],
        [helper.make_tensor_value_info(name, 1, [1, sizes[-1], 1, 1])],
        weights,
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8), want


def test_folded_weights_of_many_sizes_keep_their_numbers() -> None:
    proto, want = layers([64, 640, 640, 512, 640, 128, 70])
    model = calor_onnx.load(proto, device="numpy")
    assert {node.op for node in model.graph.nodes} == {"Conv"}
    found = model(np.ones((1, 64, 1, 1), np.float32)).numpy()
    np.testing.assert_allclose(found.reshape(-1), want, rtol=1e-4, atol=1e-5)


def test_what_is_kept_of_the_message_holds_no_weight() -> None:
    proto, _ = layers([64, 64, 64])
    kept = read(proto).proto
    assert [info.name for info in kept.graph.input] == ["x"]
    assert [info.name for info in kept.graph.output] == ["y1"]
    assert [*kept.__dict__] == ["graph"]
    assert {*kept.graph.__dict__} == {"input", "output"}
