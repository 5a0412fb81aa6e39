"""Functions and layers give what PyTorch gave: outputs, gradients, statistics, parameter names.

PyTorch's numbers are in ``golden/torch.npz``, written by ``golden/make.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor import nn

from .golden.cases import FUNCTIONS, LAYERS, Function, Layer, numbers, weight

FILE = np.load(Path(__file__).parent / "golden" / "torch.npz")
NAMES = json.loads(FILE["names"].tobytes())


def given(arrays: Any) -> list[Any]:
    return [calor.asarray(a, requires_grad=a.dtype.kind == "f") for a in arrays]


def pull(outputs: list[Any]) -> None:
    parts = [calor.sum(t * calor.asarray(numbers(9, *t.shape))) for t in outputs]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    total.backward()


def same(got: Any, name: str) -> None:
    want = FILE[name]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6, err_msg=name)


@pytest.mark.parametrize(
    ("number", "row"),
    list(enumerate(FUNCTIONS)),
    ids=[f"{row.ours or row.torch}-{row.arguments}" for row in FUNCTIONS],
)
def test_function(number: int, row: Function) -> None:
    tensors = given(row.inputs)
    made = getattr(nn.functional, row.ours or row.torch)(*tensors, **row.calor_arguments())
    pull([made])
    same(made.numpy(), f"function{number}/0")
    for i, t in enumerate(tensors):
        if f"function{number}/grad{i}" in FILE:
            # Where PyTorch has a gradient of zeros, calor has none.
            same(
                np.zeros(t.shape) if t.grad is None else t.grad.numpy(), f"function{number}/grad{i}"
            )


@pytest.mark.parametrize(
    ("number", "row"),
    list(enumerate(LAYERS)),
    ids=[f"{row.torch}-{row.options}-{row.training}" for row in LAYERS],
)
def test_layer(number: int, row: Layer) -> None:
    prefix = f"layer{number}"
    module = getattr(nn, row.ours or row.torch)(*row.arguments, **row.options).to(calor.float64)
    assert set(module.state_dict()) == set(NAMES[prefix])
    state = {k: weight(k, v.shape) for k, v in module.state_dict().items()}
    assert nn.from_torch_state_dict(module, state)
    module.train(row.training)
    tensors = given(row.inputs)
    call = {
        k: calor.asarray(v) if isinstance(v, np.ndarray) else v for k, v in row.calls[1].items()
    }
    made = calor.tree.leaves(
        module(tensors[0], tuple(tensors[1:]), **call) if row.state else module(*tensors, **call)
    )
    pull(made)
    for i, t in enumerate(made):
        same(t.numpy(), f"{prefix}/{i}")
    for i, t in enumerate(tensors):
        if f"{prefix}/grad{i}" in FILE:
            same(t.grad.numpy(), f"{prefix}/grad{i}")
    for name, p in module.named_parameters():
        along = np.sum(p.grad.numpy() * weight(f"along {name}", p.shape))
        same(along, f"{prefix}/along/{name}")
    for name, b in module.named_buffers():
        same(b.numpy(), f"{prefix}/after/{name}")
