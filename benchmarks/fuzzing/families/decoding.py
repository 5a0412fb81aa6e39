"""What samplers and states do between steps: filters of logits, beams, caches, scans, ranks."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import (
    VOCABULARIES,
    alike,
    is_torch,
    largest,
    like,
    one,
    running,
    single,
    sizes,
    span,
)

_FAR = -1e4
_FORMS = {"top_k_filter": 2, "top_p_filter": 2, "min_p": 1, "beams": 2, "reorder": 2, "penalty": 1,
          "noise": 2, "write": 2, "quantile": 1, "median": 1, "kth": 1, "buckets": 1, "ranks": 2,
          "entropy": 1, "codes": 2, "speculative": 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    return {
        "form": one(random, _FORMS),
        "rows": one(random, {1: 3, 4: 2, 8: 1, 32: 2, 64: 1, 256: 1}),
        "words": one(random, {**VOCABULARIES, 8192: 1, 1024: 1, 128_256: 1}),
        "k": one(random, {5: 1, 10: 1, 40: 1, 50: 2}),
        "tokens": one(random, {64: 1, 256: 1, 1024: 2, 4096: 1}),
        "heads": one(random, {4: 1, 8: 2, 12: 2, 32: 1}),
    }  # fmt: skip


def _decoding(p: Parameters) -> Work:
    """Return a step of a sampler, a beam or a cache.

    top_p_filter: the sorted probabilities' running sums, scattered back; noise: the largest of
    logits with Gumbel noise; beams: the best of all continuations; reorder: caches of the beams
    picked; write: a new row of a cache; codes: the nearest rows of a codebook.
    """
    form, rows, words, k, tokens, heads = sizes(p, "form", "rows", "words", "k", "tokens", "heads")
    x, shape, k = Operand((rows, words)), (rows, words), min(k, words)
    made: Any = shape
    operands: list[Operand] = [x]
    depth = 1
    if form in ("quantile", "median", "kth", "entropy"):
        made = (rows,)
        depth = words
    elif form in ("beams", "noise"):
        made = (rows, k) if form == "beams" else (rows,)
        scores = Operand((rows, 4, words))
        operands = [scores, Operand((rows, 4))] if form == "beams" else [x, x]
    elif form in ("reorder", "write"):
        made = (rows, heads, tokens, 64)
        index = Operand((rows,), "index", rows if form == "reorder" else tokens)
        operands = [Operand(made), index] + [Operand((rows, heads, 1, 64))] * (form == "write")
    elif form in ("penalty", "speculative"):
        operands = [x, Operand((rows, min(tokens, 1024)), "index", words)]
        made = shape if form == "penalty" else (rows, min(tokens, 1024))
    elif form == "buckets":
        operands, made = [Operand((rows, 1000)), Operand((65,), positive=True)], (rows, 1000)
    elif form == "codes":
        operands, made = [Operand((tokens, 64)), Operand((1024, 64), weight=True)], (tokens, 64)
    elif form == "top_p_filter":
        depth = words
    checked = "none" if form in ("buckets", "codes") else "near"
    flops = 2.0 * tokens * 65536 if form == "codes" else 6.0 * prod(operands[0].shape)
    call = _Step(rows, words, k, tokens)
    return Work(tuple(operands), *alike(getattr(call, form)), made, flops, depth, checked)


class _Step:
    """The forms, of rows, words, k and tokens."""

    def __init__(self, rows: int, words: int, k: int, tokens: int) -> None:
        self.rows, self.words, self.k, self.tokens = rows, words, k, tokens

    def top_k_filter(self, lib: Any, x: Any) -> Any:
        least = lib.topk(x, self.k)[0][:, -1:]
        return lib.softmax(lib.where(x < least, _FAR, x), axis=-1)

    def top_p_filter(self, lib: Any, x: Any) -> Any:
        order = lib.argsort(x, axis=-1, descending=True)
        gathered = (
            lib.gather(x, 1, order) if is_torch(lib) else lib.take_along_axis(x, order, axis=1)
        )
        shares = lib.softmax(single(gathered), axis=-1)
        # The last ones fade, so that the roundings of sums decide nothing.
        left = (0.9 - running(lib, shares, -1) + shares) * 10
        kept = like(shares * lib.minimum(lib.maximum(left, 0 * left), 0 * left + 1), x)
        if is_torch(lib):
            return lib.zeros_like(x).scatter(1, order, kept)
        return lib.scatter_along_axis(lib.zeros_like(x), order, kept, axis=1)

    def min_p(self, lib: Any, x: Any) -> Any:
        shares = lib.softmax(x, axis=-1)
        return lib.where(shares < 0.05 * largest(lib, shares, -1, True), _FAR, x)

    def beams(self, lib: Any, x: Any, before: Any) -> Any:
        total = x - lib.logsumexp(x, axis=-1, keepdims=True) + before[:, :, None]
        return lib.topk(total.reshape(self.rows, -1), self.k)[0]

    def reorder(self, lib: Any, cache: Any, index: Any) -> Any:
        return cache.index_select(0, index) if is_torch(lib) else lib.take(cache, index, axis=0)

    def write(self, lib: Any, cache: Any, index: Any, new: Any) -> Any:
        seen = span(lib, self.tokens, cache) == index[:, None]
        return lib.where(seen[:, None, :, None], new, cache)

    def penalty(self, lib: Any, x: Any, ids: Any) -> Any:
        if is_torch(lib):
            found = x.gather(1, ids)
            return x.scatter(1, ids, lib.where(found < 0, found * 1.2, found / 1.2))
        found = lib.take_along_axis(x, ids, axis=1)
        return lib.scatter_along_axis(
            x, ids, lib.where(found < 0, found * 1.2, found / 1.2), axis=1
        )

    def speculative(self, lib: Any, x: Any, ids: Any) -> Any:
        shares = lib.softmax(x, axis=-1)
        return shares.gather(1, ids) if is_torch(lib) else lib.take_along_axis(shares, ids, axis=1)

    def noise(self, lib: Any, x: Any, y: Any) -> Any:
        drawn = -lib.log(1e-6 - lib.log(1 / (1 + lib.exp(-single(y)))))
        return largest(lib, x + like(drawn, x), -1)

    def quantile(self, lib: Any, x: Any) -> Any:
        return lib.quantile(single(x), 0.99, axis=-1)

    def median(self, lib: Any, x: Any) -> Any:
        if is_torch(lib):
            return lib.kthvalue(x, (self.words + 1) // 2, axis=-1).values
        return lib.kthvalue(x, (self.words + 1) // 2, axis=-1)[0]

    def kth(self, lib: Any, x: Any) -> Any:
        return lib.kthvalue(x, max(1, self.words - self.k), axis=-1)[0]

    def buckets(self, lib: Any, x: Any, edges: Any) -> Any:
        edges = lib.sort(edges)
        edges = edges[0] if is_torch(lib) else edges
        return lib.searchsorted(edges, x)

    def ranks(self, lib: Any, x: Any) -> Any:
        order = lib.argsort(x, axis=-1)
        return like(lib.argsort(order, axis=-1), x)

    def entropy(self, lib: Any, x: Any) -> Any:
        logs = x - lib.logsumexp(x, axis=-1, keepdims=True)
        return -(lib.exp(logs) * logs).sum(axis=-1)

    def codes(self, lib: Any, x: Any, table: Any) -> Any:
        apart = (table * table).sum(axis=-1) - 2 * (x @ table.mT)
        index = lib.argmin(apart, axis=-1)
        return table[index] if is_torch(lib) else lib.take(table, index, axis=0)


def _draw_states(random: Random) -> Parameters:
    return {
        "form": one(random, {"selective": 3, "decay": 2, "largest": 1, "logsumexp": 1, "product": 1,
                             "normalized": 2, "signed": 1, "step": 2}),
        "batch": one(random, {1: 2, 2: 1, 4: 1, 8: 1}),
        "tokens": one(random, {64: 1, 256: 2, 512: 1, 1024: 2, 2048: 1}),
        "width": one(random, {256: 1, 512: 1, 768: 1, 1536: 2, 2048: 1}),
        "states": one(random, {16: 3, 8: 1, 64: 1}),
    }  # fmt: skip


def _states(p: Parameters) -> Work:
    """Return what goes along a sequence: state spaces by running sums, running extremes, one step.

    selective: the states of Mamba as sums of inputs over powers of a bounded decay; decay:
    exponential averages; normalized: the means of what came before; signed: sums of differences.
    """
    form, batch, tokens, width, states = sizes(p, "form", "batch", "tokens", "width", "states")
    shape = (batch, tokens, width)

    def selective(lib: Any, x: Any, rate: Any, b: Any, c: Any) -> Any:
        fall = running(lib, 0.001 / (1 + lib.exp(-single(rate))), 1)
        made = lib.exp(fall)[..., None] * (single(x)[..., None] * single(b)[:, :, None])
        total = running(lib, made, 1) * lib.exp(-fall)[..., None]
        return like((total * single(c)[:, :, None]).sum(axis=-1), x)

    def step(lib: Any, h: Any, x: Any, rate: Any, b: Any, c: Any, a: Any) -> Any:
        delta = lib.log(1 + lib.exp(rate))
        h = h * lib.exp(-delta[..., None] * lib.exp(a)) + (delta * x)[..., None] * b[:, None]
        return (h * c[:, None]).sum(axis=-1)

    def decay(lib: Any, x: Any) -> Any:
        scale = lib.exp(single(span(lib, tokens, x)) * 0.01)[:, None]
        return like(running(lib, single(x) * scale, 1) / scale, x)

    def normalized(lib: Any, x: Any) -> Any:
        return like(running(lib, single(x), 1) / single(span(lib, tokens, x) + 1)[:, None], x)

    def signed(lib: Any, x: Any) -> Any:
        return running(lib, x[:, 1:] - x[:, :-1], 1)

    def extreme(lib: Any, x: Any) -> Any:
        return lib.cummax(x, 1)[0] if is_torch(lib) else lib.cumulative_max(x, axis=1)

    def logsumexp(lib: Any, x: Any) -> Any:
        return (lib.logcumsumexp if is_torch(lib) else lib.cumulative_logsumexp)(x, axis=1)

    def product(lib: Any, x: Any) -> Any:
        y = 1 + 0.01 * lib.tanh(x)
        if is_torch(lib) and x.requires_grad:
            # The gradient of `cumprod` asks the host for zeros among the factors; no graph can.
            return like(lib.exp(lib.cumsum(lib.log(single(y)), axis=1)), x)
        return (lib.cumprod if is_torch(lib) else lib.cumulative_prod)(y, axis=1)

    x = Operand(shape)
    made: Any = shape
    operands = [x]
    if form == "selective":
        small = Operand((batch, tokens, states))
        operands = [x, x, small, small]
    elif form == "step":
        row, small = Operand((batch, width)), Operand((batch, states))
        weights = Operand((width, states), weight=True)
        operands, made = (
            [Operand((batch, width, states)), row, row, small, small, weights],
            (batch, width),
        )
    elif form == "signed":
        made = (batch, tokens - 1, width)
    table: dict[str, Any] = {
        "selective": selective,
        "step": step,
        "decay": decay,
        "normalized": normalized,
        "signed": signed,
        "largest": extreme,
        "logsumexp": logsumexp,
        "product": product,
    }
    flops = 4.0 * prod(shape) * (states if form == "selective" else 1)
    return Work(tuple(operands), *alike(table[form]), made, flops, 16 * tokens)


FAMILIES = (
    Family("decoding", 2.5, _draw, _decoding, ("rows",), gradient=0.0),
    Family("states", 1.5, _draw_states, _states, ("batch", "tokens")),
)
