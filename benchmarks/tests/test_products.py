"""Products beside torch's that are captured in a graph: what runs, how often, what is compared.

Torch is imitated, as there is no GPU here.
"""

import importlib
import sys
from typing import Any

import numpy as np
import pytest

from harness import runner
from imitated_torch import Torch
from suites import _gpu


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    # What the imitation made must not be met by another test.
    monkeypatch.setattr(_gpu, "_torch_tensors", _gpu._torch_tensors.__wrapped__)
    return made


@pytest.fixture
def suite(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> Any:
    # The suite sets it for all that comes after.
    monkeypatch.setenv("CALOR_KEEP", "0")
    made = importlib.import_module("suites.gpu_products")
    monkeypatch.setattr(made, "_one", made._one.__wrapped__)
    monkeypatch.setattr(made, "_MOST", 64)
    return made


@pytest.mark.parametrize(
    ("dtype", "rows", "call"),
    [
        ("float32", False, "matmul"),
        ("tf32", False, "matmul"),
        ("bfloat16", True, "matmul"),
        ("float8_e4m3fn", True, "_scaled_mm"),
        ("float8_e5m2", True, "_scaled_mm"),
        ("int8", True, "_int_mm"),
    ],
)
def test_products_are_captured_and_compared(
    torch: Torch, suite: Any, dtype: str, rows: bool, call: str
) -> None:
    case = suite.case("numpy", dtype, (8, 24, 16), rows)
    result = runner.run_suite("gpu_products", [case], "numpy", ["torch"], repeats=1)
    assert [result.failures, result.disagreements, result.not_run] == [[], [], []]
    (row,) = result.rows
    assert row.ratio is not None
    # Four operands of each side, in every pair, once for the graph.
    assert torch.captured == [call] * 16
    # One call is compared, one wakes the GPU, another is timed.
    assert torch.graph.replays == 3 * 64 // 16


def test_a_product_of_torch_that_is_wrong_is_not_timed(
    torch: Torch, suite: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = torch.product
    monkeypatch.setattr(torch, "product", lambda *given: right(*given) * 1.1)
    case = suite.case("numpy", "int8", (8, 24, 16), True)
    result = runner.run_suite("gpu_products", [case], "numpy", ["torch"], repeats=1)
    assert len(result.disagreements) == 1
    assert [row.peer for row in result.rows] == [None]


def test_operands_of_a_side_differ(suite: Any) -> None:
    given = [np.arange(6, dtype=np.float32).reshape(3, 2)] * 2
    import calor

    made = suite._operands("calor", [calor.asarray(a) for a in given], "float32", 2)
    assert [t.numpy()[:, 0].tolist() for t in made] == [[0, 2, 4], [2, 4, 0]] * 2


def test_samples_are_of_whole_graphs_of_a_busy_gpu(suite: Any) -> None:
    cases = suite.cases("numpy")
    assert {c.units % 4 for c in cases} == {0}
    names = [c.name for c in cases]
    assert len(set(names)) == len(names)
    assert {"float8_e4m3fn 4096 by rows", "int8 8192 by rows", "bfloat16 1024"} <= {*names}
