"""Composites are kept whole in the graph, and the gradient of attention makes no scores."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import calor

KEPT: list[tuple[str, Any, tuple[int, ...]]] = [
    ("relu", calor.relu, (3, 4)),
    ("sigmoid", calor.sigmoid, (3, 4)),
    ("silu", calor.silu, (3, 4)),
    ("gelu", calor.gelu, (3, 4)),
    ("gelu_tanh", lambda x: calor.gelu(x, "tanh"), (3, 4)),
    ("softmax", calor.softmax, (3, 4)),
    ("log_softmax", calor.log_softmax, (3, 4)),
    ("standardize", lambda x: calor.layer_norm(x, 4), (3, 4)),
    ("standardize", lambda x: calor.group_norm(x, 2), (3, 4)),
    ("standardize", lambda x: calor.instance_norm(x), (3, 4, 2)),
    ("standardize", lambda x: calor.batch_norm(x, None, None, training=True).output, (3, 4)),
    ("rms_norm", lambda x: calor.rms_norm(x, 4), (3, 4)),
    ("attention", lambda x: calor.scaled_dot_product_attention(x, x, x), (3, 4)),
    ("conv", lambda x: calor.conv1d(x, calor.ones((2, 2, 1))), (1, 2, 3)),
    ("conv_input_gradient", lambda x: calor.conv_transpose1d(x, calor.ones((2, 2, 1))), (1, 2, 3)),
]


@pytest.mark.parametrize(("op", "function", "shape"), KEPT, ids=[r[0] for r in KEPT])
def test_kept_whole(op: str, function: Any, shape: tuple[int, ...]) -> None:
    graph = calor.trace(function, calor.ones(shape))
    names = [node.op.name for node in graph.nodes]
    assert names.count(op) == 1, graph.text()


def test_the_gradient_of_attention_makes_no_scores() -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return calor.scaled_dot_product_attention(q, k, v, causal=True).sum()

    operands = (calor.ones((2, 4, 5, 3)), calor.ones((2, 2, 7, 3)), calor.ones((2, 2, 7, 3)))
    graph = calor.trace(calor.grad(loss, argnums=(0, 1, 2)), *operands)
    assert "attention_gradient" in [node.op.name for node in graph.nodes]
    assert not [s for s in graph.specs if s.shape[-2:] in ((5, 7), (10, 7))], graph.text()


DOOR = """
import sys
sys.modules["calor_nn"] = None
import calor
try:
    import calor.nn
except calor.errors.PluginError as error:
    print(error)
"""


def test_the_door_says_what_to_install() -> None:
    made = subprocess.run(
        [sys.executable, "-c", DOOR], capture_output=True, text=True, check=True, env=os.environ
    )
    assert 'pip install "calor[nn]"' in made.stdout
