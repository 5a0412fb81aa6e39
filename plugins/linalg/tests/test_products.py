"""What products record: one op, nothing broadcast, and no new plan for what was seen before."""

from typing import Any

import numpy as np
import pytest

import calor
from calor import linalg
from calor.ops.base import SIGNATURES
from calor.recording import trace as traces

SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], list[str]]] = [
    ((2, 3), (3, 4), ["dot_general"]),
    ((5, 2, 3), (5, 3, 4), ["dot_general"]),
    ((5, 2, 3), (3, 4), ["dot_general"]),
    ((7, 5, 2, 3), (3,), ["dot_general"]),
    ((3,), (5, 3, 4), ["dot_general"]),
    ((2, 3), (5, 3, 4), ["dot_general", "permute"]),
    ((7, 1, 2, 3), (5, 3, 4), ["reshape", "dot_general", "permute"]),
    ((4, 1, 2, 3), (1, 5, 3, 4), ["reshape", "reshape", "dot_general", "permute"]),
]


def names(function: Any, *tensors: Any) -> list[str]:
    """Return the ops that a function records."""
    return [node.op.name for node in calor.trace(function, *tensors).nodes]


@pytest.mark.parametrize(("left", "right", "ops"), SHAPES)
def test_matmul_is_one_op(left: Any, right: Any, ops: list[str]) -> None:
    assert names(calor.matmul, calor.ones(left), calor.ones(right)) == ops


@pytest.mark.parametrize(("left", "right", "_"), SHAPES)
def test_no_gradient_is_larger_than_its_operand(left: Any, right: Any, _: Any) -> None:
    """The gradient of a broadcast operand is summed by the product itself."""

    def pulled(a: Any, b: Any) -> Any:
        return calor.grad(lambda a, b: calor.sum(a @ b), argnums=(0, 1))(a, b)

    graph = calor.trace(pulled, calor.ones(left), calor.ones(right))
    product = np.matmul(np.ones(left), np.ones(right))
    limit = max(product.size, np.prod(left), np.prod(right))
    assert max(s.size for s in graph.specs) <= limit


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ("float32", "float64", "float64"),
        ("int8", "uint8", "int16"),
        ("int64", "float16", "float16"),
        ("bfloat16", "float16", "float32"),
        ("complex64", "float64", "complex128"),
        ("bool", "bool", "bool"),
        ("bool", "int8", "int8"),
    ],
)
def test_operands_promote(left: str, right: str, result: str) -> None:
    a, b = calor.ones((2, 2), dtype=left), calor.ones((2, 2), dtype=right)
    two = [[True, True]] * 2 if result == "bool" else [[2, 2]] * 2
    for product in (a @ b, calor.tensordot(a, b, axes=1), calor.einsum("ij,jk", a, b)):
        assert product.dtype.name == result
        assert product.tolist() == two
    assert calor.vecdot(a, b).dtype.name == result


def test_half_types_accumulate_in_float32() -> None:
    ones = calor.ones(4096, dtype="float16")
    assert (ones @ ones).item() == 4096
    assert calor.vecdot(ones, ones).item() == 4096


def test_host_arrays_and_operators() -> None:
    x = calor.asarray([[1.0, 2.0], [3.0, 4.0]])
    array = np.array([[0.0, 1.0], [1.0, 0.0]], np.float32)
    for product in (x @ array, calor.matmul(x, array)):
        assert product.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    for product in (array @ x, calor.matmul(array, x)):
        assert isinstance(product, calor.Tensor)
        assert product.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    y = x.copy()
    y @= array
    assert y.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(TypeError, match="@"):
        x @ 2  # type: ignore[operator]
    with pytest.raises(TypeError, match="@"):
        2 @ x  # type: ignore[operator]


def test_a_product_seen_before_makes_no_signature() -> None:
    x, y = calor.ones((3, 5, 7)), calor.ones((7, 9))
    calor.eval(x, y)
    functions: list[Any] = [
        calor.matmul,
        lambda a, b: calor.tensordot(a, b, axes=1),
        lambda a, b: calor.vecdot(a, b[:, 0]),
        lambda a, b: calor.einsum("bij,jk->kbi", a, b),
    ]
    for function in functions:
        function(x, y).numpy()
        before = len(SIGNATURES)
        function(x, y).numpy()
        assert len(SIGNATURES) <= before


def test_products_do_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    x = calor.ones((3, 3))
    monkeypatch.setattr(traces, "flush", lambda *_: pytest.fail("looked"))
    lazy: list[Any] = [
        x @ x,
        calor.einsum("ij,kj", x, x),
        linalg.solve(x, x),
        linalg.svd(x),
        linalg.matrix_norm(x),
        linalg.matrix_rank(x, rtol=0.5),
        linalg.expm(x),
        calor.fft.fft(x, norm="ortho"),
    ]
    monkeypatch.undo()
    assert len(calor.tree.leaves(lazy)) == 10
