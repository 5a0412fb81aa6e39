"""einsum against NumPy's."""

from typing import Any

import numpy as np
import pytest

import calor
from calor import einsum
from calor.errors import ArgumentError, DTypeError, ShapeError

CASES: list[tuple[str, list[tuple[int, ...]]]] = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ba,ca", [(2, 3), (4, 3)]),
    ("ij->ji", [(2, 3)]),
    ("ij", [(2, 3)]),
    ("ji", [(2, 3)]),
    ("ij->", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iii->i", [(3, 3, 3)]),
    ("iijj->ij", [(2, 2, 3, 3)]),
    ("iij->j", [(2, 2, 3)]),
    ("i,i->i", [(3,), (3,)]),
    ("i,i", [(3,), (3,)]),
    ("i,j->ij", [(3,), (2,)]),
    ("i,j->", [(3,), (2,)]),
    (",i->i", [(), (3,)]),
    ("->", [()]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bjk->ikb", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bij->b", [(2, 3, 4), (2, 3, 4)]),
    ("bij,ij->b", [(2, 3, 4), (3, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("...ij,...jk", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i...,i...->...", [(2, 3, 4), (2, 1, 4)]),
    ("...i->...", [(2, 3)]),
    ("...i->i...", [(2, 3, 4)]),
    ("i...j->j...", [(2, 3, 4)]),
    ("...", [(2, 3)]),
    ("...,...->...", [(2, 3), ()]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,jk,kl,lm", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("ij,ij,ij->j", [(2, 3), (2, 3), (2, 3)]),
    ("a,b,c->cab", [(2,), (3,), (4,)]),
    ("ijk,ilm,njm,nlk,abc->", [(2, 3, 4), (2, 2, 3), (4, 3, 3), (4, 2, 4), (1, 2, 3)]),
    ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("ii->i", [(0, 0)]),
    ("ij,jk->ik", [(2, 1), (3, 4)]),
    ("Ab, bC -> A C", [(2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES, ids=[f"{c} {s}" for c, s in CASES])
def test_value_and_gradient(equation: str, shapes: list[tuple[int, ...]]) -> None:
    make = np.random.default_rng(0)
    arrays = [make.normal(size=s) for s in shapes]
    expected = np.einsum(equation, *arrays)
    tensors = [calor.asarray(a, requires_grad=True) for a in arrays]
    made = einsum(equation, *tensors)
    assert made.shape == expected.shape
    np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    weights = make.normal(size=expected.shape)
    (made * calor.asarray(weights)).sum().backward()
    # The sum is linear in each operand: the gradient gives back the value along any direction.
    for tensor, array in zip(tensors, arrays, strict=True):
        step = make.normal(size=array.shape)
        moved = [step if a is array else a for a in arrays]
        slope = float((np.einsum(equation, *moved) * weights).sum())
        assert tensor.grad is not None
        assert float((tensor.grad.numpy() * step).sum()) == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize(
    ("dtypes", "result"),
    [
        (("float32", "float64"), "float64"),
        (("int32", "int8"), "int32"),
        (("float16", "int64"), "float16"),
        (("complex64", "float32"), "complex64"),
        (("bfloat16", "bfloat16"), "bfloat16"),
    ],
)
def test_operands_meet_in_their_common_dtype(dtypes: tuple[str, str], result: str) -> None:
    a, b = (calor.asarray([[1, 2], [3, 4]], dtype=t) for t in dtypes)
    made = einsum("ij,jk->ik", a, b)
    assert made.dtype.name == result
    assert made.tolist() == [[7, 10], [15, 22]]


def test_a_copy_is_no_alias() -> None:
    x = calor.asarray([1.0, 2.0])
    y = einsum("i->i", x)
    y += 1
    assert x.tolist() == [1.0, 2.0]


def test_products_are_taken_in_the_cheaper_order() -> None:
    def products(*shapes: tuple[int, int]) -> list[tuple[int, ...]]:
        given = [calor.zeros(s) for s in shapes]
        graph = calor.trace(lambda *t: einsum("ij,jk,kl->il", *t), *given)
        return [
            graph.specs[node.outputs[0]].shape
            for node in graph.nodes
            if node.op.name == "dot_general"
        ]

    assert products((100, 2), (2, 100), (100, 3))[0] == (2, 3)
    assert products((3, 100), (100, 2), (2, 100))[0] == (3, 2)


ERRORS: list[tuple[str, list[Any], type[Exception], str]] = [
    ("ij,jk->ik", [(2, 3)], ArgumentError, "names 2 operands, 1 were given"),
    ("i1->i", [(2, 3)], ArgumentError, "'i1' in 'i1->i' is not made of letters"),
    ("i->j->k", [(2,)], ArgumentError, "is not made of letters"),
    ("......", [(2,)], ArgumentError, "at most one '...'"),
    ("i.j", [(2, 2)], ArgumentError, "is not made of letters"),
    ("i->ii", [(2,)], ArgumentError, "the output of 'i->ii' .* each once"),
    ("i->j", [(2,)], ArgumentError, "the output of 'i->j' must name axes of the operands"),
    ("ijk", [(2, 3)], ShapeError, "'ijk' in 'ijk' names 3 axes of an operand that has 2"),
    ("i...jk", [(2, 3)], ShapeError, "'i...jk' in"),
    ("i", [(2, 3)], ShapeError, "names 1 axes of an operand that has 2"),
    ("ij,jk", [(2, 3), (4, 5)], ShapeError, r"axis 'j' .* has sizes 3 and 4 .*\(4, 5\)"),
    ("...i,...i", [(2, 3), (4, 3)], ShapeError, "has sizes 2 and 4"),
]


@pytest.mark.parametrize(("equation", "shapes", "error", "message"), ERRORS)
def test_errors(equation: str, shapes: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        einsum(equation, *(calor.zeros(s) for s in shapes))


def test_types_without_arithmetic_raise() -> None:
    x = calor.asarray([1.0, 2.0], dtype="float8_e5m2")
    with pytest.raises(DTypeError, match="cast|storage|dtype"):
        einsum("i,i", x, x)
