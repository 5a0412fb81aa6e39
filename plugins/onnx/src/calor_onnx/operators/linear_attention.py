"""Linear attention: a state of keys and values that each step decays, corrects and reads."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor_onnx.call import Call
from calor_onnx.computing import like, wide
from calor_onnx.errors import ModelError
from calor_onnx.operators.attention import heads_last
from calor_onnx.registry import operator
from calor_onnx.windows import positive


@operator("LinearAttention", since=27)
def linear_attention(
    call: Call, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None, *,
    q_num_heads: int, kv_num_heads: int, scale: float = 0.0, update_rule: str = "gated_delta",
    chunk_size: int = 64,
) -> Any:  # fmt: skip
    """Outputs (N, T, H · V) and the last state (N, K, E, V), by a scan over the steps."""
    gated, delta = update_rule.startswith("gated"), update_rule.endswith("delta")
    if update_rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ModelError(f"LinearAttention: update_rule is {update_rule!r}, which ONNX lacks")
    if (gated and decay is None) or (delta and beta is None):
        raise ModelError(f"LinearAttention: {update_rule} needs decay or beta")
    n, heads = q.shape[0], positive(q_num_heads, "q_num_heads")
    groups = positive(kv_num_heads, "kv_num_heads")
    width = q.shape[2] // heads
    rate = scale or 1 / math.sqrt(width)
    steps = {
        "q": _steps(q, heads) * rate,
        "k": _steps(k, groups),
        "v": _steps(v, groups),
    }
    if gated:
        steps["g"] = calor.exp(_steps(decay, groups))
    if delta:
        found = _steps(beta, beta.shape[2])
        steps["b"] = calor.broadcast_to(found, (found.shape[0], n, groups, 1))
    state = (
        calor.zeros((n, groups, width, v.shape[2] // groups), dtype=steps["q"].dtype,
                    device=call.device)
        if past is None
        else wide(past)
    )  # fmt: skip

    def step(state: Any, row: Any) -> tuple[Any, Any]:
        if gated:
            state = state * calor.expand_dims(row["g"], -1)
        value = row["v"]
        key = calor.expand_dims(row["k"], -1)
        if delta:
            value = (value - calor.sum(state * key, axis=2)) * row["b"]
        state = state + key * calor.expand_dims(value, 2)
        query = calor.reshape(row["q"], (n, groups, heads // groups, width))
        return state, calor.reshape(calor.matmul(query, state), (n, heads, 1, -1))

    last, outputs = calor.scan(step, state, steps)
    made = calor.permute_dims(calor.squeeze(outputs, axis=3), (1, 2, 0, 3))
    return like(heads_last(made), q), like(last, q if past is None else past)


def _steps(x: Any, heads: int) -> Any:
    """Return x (N, T, H · E) as (T, N, H, E), half types as float32."""
    return calor.permute_dims(calor.reshape(wide(x), (*x.shape[:2], heads, -1)), (1, 0, 2, 3))
