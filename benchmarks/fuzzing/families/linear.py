"""Linear layers as networks have them, and batched products of matrices."""

from collections.abc import Mapping
from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Shape, Work
from fuzzing.families._common import (
    BATCHES,
    TOKENS,
    VOCABULARIES,
    WIDTHS,
    activation,
    calor_nn,
    chance,
    library,
    one,
    rows_of,
    sizes,
    torch_nn,
)  # fmt: skip

# Features in and out of known layers beside those of one width and its multiples.
_PAIRS = {
    (784, 128): 2, (128, 10): 1, (512, 1000): 2, (2048, 1000): 3, (1280, 1000): 2, (512, 10): 1,
    (768, 1000): 1, (576, 192): 1, (576, 1536): 1, (1536, 576): 1, (4096, 11008): 1, (13, 64): 1,
    (11008, 4096): 1, (4096, 14336): 1, (14336, 4096): 1, (896, 4864): 1, (4864, 896): 1,
    (768, 2): 1, (9216, 4096): 1, (1024, 1): 1, (80, 512): 1, (367, 512): 1,
    # Routers of experts; boxes and classes of detectors.
    (768, 8): 1, (2048, 64): 0.5, (4096, 8): 0.5, (512, 4): 0.5, (256, 4): 0.5, (256, 92): 0.5,
    (1024, 1203): 0.5,
}  # fmt: skip
# What a layer's width is multiplied with: projections, packed ones, hidden layers.
_MULTIPLES = {(1, 1): 5, (1, 3): 3, (1, 4): 4, (4, 1): 4, (1, 2): 1, (2, 1): 1}


def _draw_linear(random: Random) -> Parameters:
    head = random.random() < 0.12
    if head:
        k, n = one(random, WIDTHS), one(random, VOCABULARIES)
    elif random.random() < 0.3:
        k, n = one(random, _PAIRS)
    else:
        width, (a, b) = one(random, WIDTHS), one(random, _MULTIPLES)
        k, n = width * a, width * b
    return {
        "rows": rows_of(random),
        "k": k,
        "n": n,
        "bias": chance(random, 0.3 if head else 0.75),
        "after": "none" if head else one(random, {
            "none": 8, "gelu": 3, "relu": 3, "silu": 1, "gelu_tanh": 1, "tanh": 1, "residual": 4,
        }),
        "layout": one(random, {"plain": 8, "columns": 2, "slice": 1, "last": 1}),
    }  # fmt: skip


def _linear(p: Parameters) -> Work:
    """Return a layer; layouts: weights by columns, a slice of wider rows, the last token only."""
    rows, k, n, layout = sizes(p, "rows", "k", "n", "layout")
    residual, bias = p["after"] == "residual", bool(p["bias"])
    first, second = activation("none" if residual else str(p["after"]))
    wide = {"slice": (*rows, 2 * k), "last": (rows[0], 4, k)}.get(layout, (*rows, k))
    used = (rows[0],) if layout == "last" else rows
    weights = (k, n) if layout == "columns" else (n, k)
    operands = [Operand(wide), Operand(weights, weight=True)]
    operands += [Operand((n,), weight=True)] * bias + [Operand((*used, n))] * residual

    def layer(nn: Any, after: Any) -> Any:
        def applied(x: Any, w: Any, *rest: Any) -> Any:
            x = x[..., :k] if layout == "slice" else x[:, -1] if layout == "last" else x
            made = after(nn().linear(x, w.T if layout == "columns" else w, *rest[:bias]))
            return made + rest[-1] if residual else made

        return applied

    return Work(
        tuple(operands), layer(calor_nn, first), layer(torch_nn, second), (*used, n),
        flops=2.0 * prod(used) * k * n, depth=k,
    )  # fmt: skip


def _draw_product(random: Random) -> Parameters:
    kind = one(random, {"scores": 3, "values": 3, "square": 2, "batch": 2, "shared": 1, "outer": 1,
                        "small": 1})  # fmt: skip
    heads, width = (
        one(random, {4: 1, 8: 2, 12: 4, 16: 2, 32: 1}),
        one(random, {32: 1, 64: 6, 80: 1, 96: 1, 128: 3}),
    )
    tokens = one(random, TOKENS)
    batch: Shape = (one(random, BATCHES), heads)
    if kind == "scores":
        m, k, n = tokens, width, tokens
    elif kind == "values":
        m, k, n = tokens, tokens, width
    elif kind == "square":
        batch, m = (
            (),
            one(random, {100: 1, 256: 2, 500: 1, 512: 2, 1000: 1, 1024: 3, 2048: 2, 4096: 1}),
        )
        k = n = m
    elif kind == "small":
        # Poses, rotations and covariances.
        batch = (one(random, {1: 1, 100: 1, 1000: 2, 4096: 1, 10_000: 2}),)
        m, k = (one(random, {2: 1, 3: 3, 4: 4, 6: 1, 8: 1, 16: 1}) for _ in range(2))
        n = one(random, {1: 1, k: 3})
    else:
        m, k, n = (one(random, {**WIDTHS, 7: 1, 33: 1}) for _ in range(3))
        k = one(random, {1: 1, 3: 1}) if kind == "outer" else k
        batch = (one(random, BATCHES),)
    return {
        "batch": batch, "m": m, "k": k, "n": n,
        "left": one(random, {"plain": 6, "transposed": 2, "heads": 2 if len(batch) == 2 else 0}),
        "right": "shared" if kind == "shared" else one(random, {"plain": 5, "transposed": 4}),
    }  # fmt: skip


def _product(p: Parameters) -> Work:
    """Return a product; "heads": the left operand is (batch, tokens, heads, features)."""
    batch, m, k, n = sizes(p, "batch", "m", "k", "n")
    left, right = str(p["left"]), str(p["right"])
    first = {
        "transposed": (*batch, k, m),
        "heads": (*batch[:1], m, *batch[1:], k),
    }.get(left, (*batch, m, k))
    second = {"transposed": (*batch, n, k), "shared": (k, n)}.get(right, (*batch, k, n))

    def multiply(x: Any, y: Any) -> Any:
        x = x.mT if left == "transposed" else x.swapaxes(1, 2) if left == "heads" else x
        return x @ (y.mT if right == "transposed" else y)

    made = (*batch, m, n)
    return Work(
        (Operand(first), Operand(second)), multiply, multiply, made,
        flops=2.0 * prod(made) * k, depth=k,
    )  # fmt: skip


def _draw_einsum(random: Random) -> Parameters:
    return {
        "batch": one(random, BATCHES),
        "tokens": one(random, TOKENS),
        "heads": one(random, {4: 1, 8: 2, 12: 3, 16: 1}),
        "width": one(random, {32: 1, 64: 4, 128: 2}),
        "form": one(
            random,
            {
                "bthd,bshd->bhts": 2,
                "bhts,bshd->bthd": 2,
                "bthd,hde->bte": 1,
                "bthd,dr,re->bthe": 1,
                "btd,de,bse->bts": 1,
                "btd,bsd,bse->bte": 1,
            },
        ),
    }


def _einsum(p: Parameters) -> Work:
    form = str(p["form"])
    known = dict(zip("bthde", sizes(p, "batch", "tokens", "heads", "width", "width"), strict=True))
    known["s"], known["r"] = known["t"], 16
    known["e"] = known["h"] * known["d"] if "hde" in form else known["d"]
    given, made = form.split("->")
    shapes = [tuple(known[letter] for letter in one_) for one_ in given.split(",")]
    result = tuple(known[letter] for letter in made)
    flops, depth = _contracted(given.split(","), made, known)
    return Work(
        tuple(map(Operand, shapes)),
        lambda *x: library("calor").einsum(form, *x),
        lambda *x: library("torch").einsum(form, *x),
        result, flops=flops, depth=depth,
    )  # fmt: skip


def _contracted(given: list[str], made: str, known: Mapping[str, int]) -> tuple[float, int]:
    """Return the flops and the terms of products from left to right."""
    flops, depth, left = 0.0, 1, given[0]
    for number, right in enumerate(given[1:], 2):
        both = set(left) | set(right)
        kept = set(made).union(*given[number:])
        flops += 2.0 * prod(known[letter] for letter in both)
        depth *= prod(known[letter] for letter in both - kept)
        left = "".join(both & kept)
    return flops, depth


FAMILIES = (
    Family("linear", 20, _draw_linear, _linear, ("rows",)),
    Family("product", 5, _draw_product, _product, ("batch", "m")),
    Family("einsum", 1.5, _draw_einsum, _einsum, ("batch", "tokens")),
)
