"""Does autocast cast products, keep what needs range, and leave gradients and threads alone?"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError
from calor.local import local

LOW = ("bfloat16", "float16")
PRODUCTS = {
    "matmul": lambda a, b: a @ b,
    "einsum": lambda a, b: calor.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: calor.tensordot(a, b, axes=1),
    "vecdot": lambda a, b: calor.vecdot(a, b.T, axis=-1),
}
WIDE: dict[str, Any] = {
    "exp": calor.exp,
    "log1p": lambda x: x.log1p(),
    "power": lambda x: x**3,
    "square": lambda x: x**2,
    "softmax": calor.softmax,
    "sum": lambda x: x.sum(),
    "cumulative_sum": lambda x: calor.cumulative_sum(x, axis=1),
    "rsqrt": calor.rsqrt,
}
KEPT: dict[str, Any] = {
    "add": lambda x: x + 1,
    "relu": calor.relu,
    "tanh": calor.tanh,
    "max": calor.max,
    "where": lambda x: calor.where(x > 0, x, 0),
}


def square(dtype: str = "float32") -> Any:
    return calor.asarray(np.array([[0.5, 2.0], [1.0, 0.25]]), dtype=dtype)


@pytest.mark.parametrize("low", LOW)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_run_in_the_low_type(name: str, low: str) -> None:
    with calor.autocast(low):
        for dtype in ("float32", *LOW):
            assert PRODUCTS[name](square(dtype), square()).dtype.name == low
        assert PRODUCTS[name](square("float64"), square("float64")).dtype.name == "float64"
    assert PRODUCTS[name](square(), square()).dtype.name == "float32"


@pytest.mark.parametrize("name", [*WIDE, *KEPT])
def test_what_needs_range_is_float32(name: str) -> None:
    function = (WIDE | KEPT)[name]
    x = square("bfloat16")
    assert function(x).dtype.name == "bfloat16"
    with calor.autocast():
        assert function(x).dtype.name == ("float32" if name in WIDE else "bfloat16")
        assert function(square()).dtype.name == "float32"


def test_an_explicit_dtype_is_kept() -> None:
    with calor.autocast():
        assert calor.matmul(square(), square(), dtype="float32").dtype.name == "float32"
        assert square("bfloat16").sum(dtype="bfloat16").dtype.name == "bfloat16"


def test_contexts_nest_and_decorate() -> None:
    @calor.autocast("float16")
    def product(x: Any) -> Any:
        return x @ x

    with calor.autocast("bfloat16"):
        assert product(square()).dtype.name == "float16"
        with calor.autocast(enabled=False):
            assert (square() @ square()).dtype.name == "float32"
        assert (square() @ square()).dtype.name == "bfloat16"
    with pytest.raises(ZeroDivisionError), calor.autocast():
        raise ZeroDivisionError
    assert local.autocast is None
    assert not local.autocasts


@pytest.mark.parametrize("given", ["float32", "cuda", int])
def test_other_types_are_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match="is no half type"):
        calor.autocast(given)


def test_gradients_have_the_types_of_what_they_belong_to() -> None:
    w = calor.asarray(np.eye(2), dtype="float32", requires_grad=True)
    with calor.autocast("bfloat16"):
        loss = (square() @ w).sum()
        loss.backward()
        inside = calor.grad(lambda w: (square() @ w).sum())(w.detach())
    assert w.grad.dtype.name == inside.dtype.name == "float32"
    np.testing.assert_array_equal(w.grad.numpy(), inside.numpy())
    # The products of the gradient are those of the forward pass: bfloat16 numbers are exact here.
    np.testing.assert_array_equal(w.grad.numpy(), [[1.5, 1.5], [2.25, 2.25]])


def test_a_jitted_function_is_traced_for_each_mode() -> None:
    step = calor.jit(lambda x: x @ x)
    seen = []
    for low in (None, "bfloat16", None, "float16", "bfloat16"):
        with calor.autocast(low or "bfloat16", enabled=low is not None):
            seen.append(step(square()).dtype.name)
    assert seen == ["float32", "bfloat16", "float32", "float16", "bfloat16"]
    assert step.trace_count == 3
    bound = calor.jit(lambda x, y: x @ y).bind(square())
    assert bound(square()).dtype.name == "float32"
    with calor.autocast():
        assert bound(square()).dtype.name == "bfloat16"
    assert bound(square()).dtype.name == "float32"


@pytest.mark.parametrize("jitted", [False, True])
def test_a_checkpoint_recomputes_in_the_mode_of_the_first_run(jitted: bool) -> None:
    kinds = []

    def block(x: Any, w: Any) -> Any:
        y = calor.tanh(x @ w)
        kinds.append(y.dtype.name)
        return y @ w

    def loss(w: Any) -> Any:
        with calor.autocast("float16"):
            made = calor.checkpoint(block)(square(), w)
        return made.sum()

    grad = calor.grad(loss)
    found = (calor.jit(grad) if jitted else grad)(square())
    assert found.dtype.name == "float32"
    assert set(kinds) == {"float16"}
    assert len(kinds) >= 2


def test_the_mode_is_a_threads_own() -> None:
    found = []
    context = calor.autocast()
    with context:
        thread = threading.Thread(target=lambda: found.append((square() @ square()).dtype.name))
        thread.start()
        thread.join()
    assert found == ["float32"]


def test_decompositions_and_control_flow_compute_as_they_are() -> None:
    x = square()
    plain = calor.scan(lambda c, r: (c @ r, calor.sum(c)), x, calor.stack([x, x]))[0]
    with calor.autocast():
        # A carry keeps its type, so a loop is what the function makes it.
        made = calor.fori_loop(0, 2, lambda i, c: (c @ x).astype("float32"), x)
        lengths = calor.erfcx(x) if hasattr(calor, "erfcx") else calor.logit(x / 4)
    assert made.dtype.name == lengths.dtype.name == "float32"
    np.testing.assert_allclose(made.numpy(), plain.numpy(), rtol=0.02)


def test_a_weight_is_cast_once_in_a_graph() -> None:
    with calor.autocast():
        graph = calor.trace(lambda x, w: (x @ w) @ w, square(), square())
    assert [node.op.name for node in graph.nodes].count("cast") == 2


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_parameter_is_cast_once_in_a_context(device: str) -> None:
    with calor.device(device):
        w, x = square().requires_grad_(), square()
        with calor.autocast():
            first, second = x @ w, x @ w
            (kept,) = local.casts.values()
            with calor.autocast("float16"):
                assert (x @ w).dtype.name == "float16"
            assert (x @ w).dtype.name == "bfloat16"
            for y in (first, second * 2):
                y.sum().backward()
            with calor.no_grad():
                assert not (x @ w).requires_grad
            assert (x @ w).requires_grad
        assert len(kept)
        assert not local.casts
        np.testing.assert_array_equal(w.grad.numpy(), 3 * x.numpy().sum(0)[:, None] + [0.0, 0.0])


@pytest.mark.parametrize("device", ["numpy", "cpu"])
def test_a_changed_parameter_is_cast_again(device: str) -> None:
    changes: list[Any] = [
        lambda w: w.__iadd__(1),
        lambda w: w.__setitem__(0, 3.0),
        calor.jit(lambda w: w.__isub__(0.5)),
        calor.jit(lambda w: w.__isub__(0.5)),
    ]
    with calor.device(device):
        w, x = square().requires_grad_(), square()
        with calor.autocast():
            for change in changes:
                calor.eval(x @ w)
                with calor.no_grad():
                    change(w)
                np.testing.assert_array_equal(
                    (x @ w).astype("float32").numpy(), x.numpy() @ w.detach().numpy()
                )


@pytest.mark.parametrize("read_before", [False, True])
def test_a_checkpoint_keeps_the_gradient_of_a_parameter_that_was_cast_before(
    read_before: bool,
) -> None:
    w, x = square().requires_grad_(), square()
    again = calor.checkpoint(lambda t: (t @ w).sum())
    for _ in range(2):
        with calor.autocast():
            if read_before:
                calor.eval(x @ w)
            again(x).backward()
        np.testing.assert_array_equal(w.grad.numpy(), x.numpy().sum(0)[:, None] + [0.0, 0.0])
        w.grad = None


@pytest.mark.parametrize("compiled", [False, True])
def test_readers_of_a_cast_parameter_add_up_in_its_own_type(compiled: bool) -> None:
    w = calor.ones((1, 1), requires_grad=True)
    rows = calor.asarray([[256.0], [1.0], [1.0]])

    def loss(rows: Any, w: Any) -> Any:
        # In bfloat16 256 + 1 is 256.
        return sum((calor.sum(rows[n : n + 1] @ w) for n in range(3)), calor.zeros(()))

    run = calor.autocast()(loss)
    (calor.jit(run) if compiled else run)(rows, w).backward()
    assert w.grad.item() == 258.0
    assert calor.grad(calor.jit(run) if compiled else run, 1)(rows, w).item() == 258.0
