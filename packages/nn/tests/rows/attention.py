"""Rows of the attention that users call, over the rows of the op."""

from __future__ import annotations

from typing import Any

import numpy as np

from calor.dtypes import bool_
from calor_conformance.rows.domains import chosen, normal
from calor_conformance.rows.language import WIDE_FLOATS, Array, Case, case, ulp
from calor_conformance.rows.tables.attention import attention
from calor_nn import functional

# The second query may look nowhere.
HIDDEN = chosen(np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0]])[None, None], bool_)
NEAR = ulp(64, scale=lambda *_, **__: 8.0)


def _function(q: Any, k: Any, v: Any, *, causal: bool) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, causal=causal)


def _masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    return functional.scaled_dot_product_attention(q, k, v, mask=mask, scale=0.5)


def _weights(q: Any, k: Any, *, causal: bool) -> Any:
    return functional.attention_weights(q, k, causal=causal)


def _weights_oracle(q: Array, k: Array, *, causal: bool) -> Array:
    unit = np.broadcast_to(np.eye(k.shape[1]), (q.shape[0], 1, k.shape[1], k.shape[1]))
    return attention(q[:, None], k[:, None], unit, causal=causal, scale=0.5)[0][:, 0]


def _heads() -> Any:
    return normal(2, 2, 3, 4), normal(2, 2, 5, 4), normal(2, 2, 5, 2)


CASES: list[Case] = [
    case(_masked, *_heads(), HIDDEN, oracle=lambda *x: attention(*x, scale=0.5)[0],
         dtypes=WIDE_FLOATS, tol=NEAR, name="a hidden row"),
    *(
        case(_function, normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 2), causal=causal,
             oracle=lambda q, k, v, *, causal: attention(
                 q[:, None], k[:, None], v[:, None], causal=causal, scale=0.5)[0][:, 0],
             dtypes=WIDE_FLOATS, tol=NEAR, name=f"scaled_dot_product_attention {causal}")
        for causal in (False, True)
    ),
    case(_weights, normal(2, 3, 4), normal(2, 5, 4), causal=True, oracle=_weights_oracle,
         dtypes=WIDE_FLOATS, tol=NEAR, name="attention_weights"),
]  # fmt: skip
