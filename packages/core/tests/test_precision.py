"""The precision of float32 products: what was said when they were recorded holds."""

import os
import subprocess
import sys

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor.backends.numpy_backend import NumpyBackend
from calor.errors import ArgumentError
from calor.local import local
from calor.transforms.evaluate import trace


def precisions(function, *arguments):
    """Return the precision of each product of a function's graph."""
    graph = trace(function, *arguments)
    nodes = [n for n in graph.nodes if n.op.name == "dot_general"]
    return [n.attributes.get("precision", "highest") for n in nodes]


X = np.arange(4, dtype=np.float32).reshape(2, 2)


def high(function):
    def call(*arguments):
        with calor.matmul_precision("high"):
            return function(*arguments)

    return call


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x @ x, ["highest"]),
        (high(lambda x: x @ x), ["high"]),
        (high(lambda x: calor.einsum("ij,kj->ik", x, x)), ["high"]),
        (high(lambda x: calor.tensordot(x, x, axes=1)), ["high"]),
        (high(lambda x: x.astype("float16") @ x.astype("float16")), ["highest"]),
        (high(lambda x: x.astype("int32") @ x.astype("int32")), ["highest"]),
        (lambda x: calor.grad(high(lambda x: (x @ x).sum()))(x), ["high"] * 2),
    ],
)
def test_what_was_said_when_recorded_is_of_the_product(function, expected):
    found = precisions(function, calor.asarray(X))
    assert found[-len(expected) :] == expected


def test_contexts_are_inside_each_other():
    assert local.precision == "highest"
    with calor.matmul_precision("tf32"):
        assert local.precision == "high"
        with calor.matmul_precision("highest"):
            assert local.precision == "highest"
        assert local.precision == "high"
    assert local.precision == "highest"


def test_a_jitted_function_is_traced_for_each():
    @calor.jit
    def product(x):
        return x @ x

    x = calor.asarray(X)
    bound = product.bind(x)
    for _ in range(3):
        assert product(x).tolist() == bound().tolist() == (X @ X).tolist()
        with calor.matmul_precision("high"):
            assert product(x).tolist() == bound().tolist() == (X @ X).tolist()
    assert product.trace_count == 2
    assert "matmul_precision was highest and is high" in product.explain()


def test_another_name_is_an_error():
    with pytest.raises(ArgumentError, match="'medium' is none of highest, direct, high, tf32"):
        calor.matmul_precision("medium")


@pytest.mark.parametrize(("text", "expected"), [("tf32", "high"), ("", "highest")])
def test_a_variable_sets_it_for_the_process(text, expected):
    code = "from calor.recording.trace import local; print(local.precision)"
    environment = {**os.environ, "CALOR_MATMUL_PRECISION": text}
    made = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == expected


def test_functions_of_a_table_are_not_told():
    told = []

    class Table(NumpyBackend):
        def table(self, index):
            def dot_general(x, y, *, contract, batch, dtype):
                told.append((contract, batch))
                return np.tensordot(x, y, axes=contract)

            return {**super().table(index), "dot_general": dot_general}

    x = calor.asarray(X, device=device_of(Table(), 0))
    assert high(lambda x: x @ x)(x).tolist() == (X @ X).tolist()
    assert told
