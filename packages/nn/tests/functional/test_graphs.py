"""Composites are kept whole in the graph, and the gradient of attention makes no scores."""

from __future__ import annotations

from typing import Any

import pytest

import calor
from calor.nn import functional as f

KEPT: list[tuple[str, Any, tuple[int, ...]]] = [
    ("standardize", lambda x: f.layer_norm(x, 4), (3, 4)),
    ("standardize", lambda x: f.group_norm(x, 2), (3, 4)),
    ("standardize", lambda x: f.instance_norm(x), (3, 4, 2)),
    ("standardize", lambda x: f.batch_norm(x, None, None, training=True).output, (3, 4)),
    ("rms_norm", lambda x: f.rms_norm(x, 4), (3, 4)),
    ("attention", lambda x: f.scaled_dot_product_attention(x, x, x), (3, 4)),
    ("conv", lambda x: f.conv1d(x, calor.ones((2, 2, 1))), (1, 2, 3)),
    ("conv_input_gradient", lambda x: f.conv_transpose1d(x, calor.ones((2, 2, 1))), (1, 2, 3)),
]


@pytest.mark.parametrize(("op", "function", "shape"), KEPT, ids=[r[0] for r in KEPT])
def test_kept_whole(op: str, function: Any, shape: tuple[int, ...]) -> None:
    graph = calor.trace(function, calor.ones(shape))
    names = [node.op.name for node in graph.nodes]
    assert names.count(op) == 1, graph.text()


def test_the_gradient_of_attention_makes_no_scores() -> None:
    def loss(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, causal=True).sum()

    operands = (calor.ones((2, 4, 5, 3)), calor.ones((2, 2, 7, 3)), calor.ones((2, 2, 7, 3)))
    graph = calor.trace(calor.grad(loss, argnums=(0, 1, 2)), *operands)
    assert "attention_gradient" in [node.op.name for node in graph.nodes]
    assert not [s for s in graph.specs if s.shape[-2:] in ((5, 7), (10, 7))], graph.text()


@pytest.mark.parametrize("pool", [f.adaptive_avg_pool2d, f.avg_pool2d, f.lp_pool2d])
def test_windows_of_whole_images_are_reductions(pool: Any) -> None:
    """So they are fused as such, and their gradients are broadcasts."""

    def loss(x: Any, size: int) -> Any:
        given = {f.adaptive_avg_pool2d: (1,), f.avg_pool2d: (size,), f.lp_pool2d: (2.0, size)}
        return pool(x, *given[pool]).sum()

    def names(size: int) -> set[str]:
        graph = calor.trace(calor.grad(lambda x: loss(x, size)), calor.ones((1, 2, 6, 6)))
        return {node.op.name for node in graph.nodes}

    assert not {"window_reduce", "window_gradient"} & names(6)
    assert pool is f.adaptive_avg_pool2d or {"window_reduce", "window_gradient"} & names(3)


def test_a_step_of_ctc_is_a_chain() -> None:
    """Classes are picked before the steps, and shifted states are parts of a carry."""
    lengths = calor.asarray([[5, 5], [2, 2]])
    targets = calor.asarray([[1, 2], [2, 1]])
    graph = calor.trace(lambda x: f.ctc_loss(x, targets, *lengths), calor.zeros((5, 2, 3)))
    (scan,) = [node for node in graph.nodes if node.op.name == "scan"]
    names = [node.op.name for node in scan.attributes["body"].nodes]
    assert not {"pad", "take_along"} & {*names}, graph.text()
