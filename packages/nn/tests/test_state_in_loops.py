"""Layers that draw or keep statistics, in loops and recomputed: as the same steps in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor import nn


class Block(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.dropout = nn.Dropout(0.4)

    def forward(self, x: Any) -> Any:
        return self.dropout(self.norm(self.linear(x)))


def in_python(block: Block, x: Any) -> Any:
    total = calor.zeros(x.shape[1:])
    for i in range(x.shape[0]):
        total = total * 0.5 + block(x[i])
    return (total * total).sum()


def in_scan(block: Block, x: Any) -> Any:
    total, _ = calor.scan(lambda c, v: (c * 0.5 + block(v), None), calor.zeros(x.shape[1:]), x)
    return (total * total).sum()


def recomputed(block: Block, x: Any) -> Any:
    total = calor.zeros(x.shape[1:])
    for i in range(x.shape[0]):
        total = total * 0.5 + calor.checkpoint(block)(x[i])
    return (total * total).sum()


def in_cond(block: Block, x: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        return c * 0.5 + calor.cond(i >= 0, block, lambda v: v, x[i])

    total = calor.fori_loop(0, x.shape[0], step, calor.zeros(x.shape[1:]))
    return (total * total).sum()


@pytest.mark.parametrize("loop", [in_scan, in_cond, recomputed])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "jit"])
def test_training(loop: Any, compiled: bool) -> None:
    made = []
    for function in (in_python, calor.jit(loop) if compiled else loop):
        calor.random.seed(0)
        block, x = Block(), calor.random.normal((4, 5, 3))
        losses = []
        for _ in range(2):
            loss = function(block, x)
            loss.backward()
            losses.append(loss.item())
        state = {name: t.tolist() for name, t in block.state_dict().items()}
        drawn = calor.random.default_generator.state[1].tolist()
        made.append((losses, state, drawn, [p.grad.numpy() for p in block.parameters()]))
    assert made[0][:3] == made[1][:3]
    assert made[0][1]["norm.num_batches_tracked"] == 8
    for got, wanted in zip(made[1][3], made[0][3], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
