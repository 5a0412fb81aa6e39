"""Attention: decoding, causal, packed projections, grouped heads, masks."""

from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import BATCHES, calor_nn, one, sizes, torch_nn

# fmt: off
_HEADS = {(1, 1): 1, (3, 3): 1, (4, 4): 1, (6, 6): 1, (8, 8): 3, (12, 12): 6, (16, 16): 3,
          (20, 20): 1, (25, 25): 1, (32, 32): 1, (32, 8): 3, (9, 3): 1, (14, 2): 1, (28, 4): 1}
_WIDTHS = {16: .5, 24: 1, 32: 2, 40: 1, 48: 1, 50: .5, 64: 9, 72: 1, 80: 1, 96: 1, 100: .5, 112: .5,
           128: 5, 160: .5, 256: 1}
_TOKENS = {7: 1, 16: 1, 50: 1, 64: 1, 77: 1, 128: 3, 197: 2, 256: 3, 257: 1, 333: 1, 512: 3, 577: 1,
           1000: 1, 1024: 3, 1500: 1, 2048: 2, 4096: 1}
# fmt: on


def _draw(random: Random) -> Parameters:
    form = one(random, {"self": 4, "causal": 4, "decode": 3, "packed": 3, "cross": 1, "masked": 1})
    tokens = one(random, _TOKENS)
    heads = one(random, _HEADS)
    if form == "packed":
        heads = (heads[0], heads[0])
    return {
        "form": form,
        "batch": one(random, BATCHES),
        "heads": heads,
        "queries": 1 if form == "decode" else one(random, _TOKENS) if form == "cross" else tokens,
        "keys": tokens,
        "width": one(random, _WIDTHS),
        "layout": one(random, {"heads": 2, "tokens": 3}),
    }


def _attention(p: Parameters) -> Work:
    """Return attention of (batch, heads, tokens, features), or of views of token-major tensors."""
    form, batch, (heads, groups), queries, keys, width, layout = sizes(
        p, "form", "batch", "heads", "queries", "keys", "width", "layout"
    )
    by_tokens = layout == "tokens"

    def shape(count: int, tokens: int) -> Operand:
        axes = (tokens, count) if by_tokens else (count, tokens)
        return Operand((batch, *axes, width))

    def viewed(x: Any) -> Any:
        return x.swapaxes(1, 2) if by_tokens else x

    causal = form in ("causal", "packed")
    mask = form == "masked"

    def ours(q: Any, k: Any, v: Any, *bias: Any) -> Any:
        given = {"bias": bias[0]} if bias else {}
        return calor_nn().scaled_dot_product_attention(q, k, v, causal=causal, **given)

    def theirs(q: Any, k: Any, v: Any, *bias: Any) -> Any:
        return torch_nn().scaled_dot_product_attention(
            q, k, v, *bias, is_causal=causal, enable_gqa=heads != groups
        )

    if form == "packed":
        operands = [Operand((batch, queries, 3 * heads * width))]
    else:
        operands = [shape(heads, queries), shape(groups, keys), shape(groups, keys)]
        if mask:
            operands.append(Operand((batch, 1, 1, keys), fixed=True))

    def applied(attend: Any) -> Any:
        def packed(x: Any) -> Any:
            size = heads * width
            parts = [x[..., i * size : (i + 1) * size] for i in range(3)]
            made = attend(*(y.reshape(batch, queries, heads, width).swapaxes(1, 2) for y in parts))
            return made.swapaxes(1, 2).reshape(batch, queries, size)

        def apart(q: Any, k: Any, v: Any, *bias: Any) -> Any:
            return viewed(attend(*map(viewed, (q, k, v)), *bias))

        return packed if form == "packed" else apart

    if form == "packed":
        made: tuple[int, ...] = (batch, queries, heads * width)
    else:
        made = operands[0].shape
    flops = 4.0 * batch * heads * queries * keys * width / (2 if causal else 1)
    return Work(tuple(operands), applied(ours), applied(theirs), made, flops=flops, depth=keys)


FAMILIES = (Family("attention", 12, _draw, _attention, ("batch",)),)
