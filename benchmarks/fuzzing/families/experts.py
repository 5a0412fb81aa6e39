"""Mixtures of experts: routing, dispatch of tokens, batched layers, and what comes back."""

from math import prod
from random import Random
from typing import Any

from fuzzing.cases import Family, Operand, Parameters, Work
from fuzzing.families._common import alike, is_torch, like, one, running, single, sizes, span

# Experts, picks of a token, width, hidden width: Switch, Mixtral, DeepSeek, OLMoE, Qwen, V-MoE.
_EXPERTS = {(8, 1, 768, 3072): 2, (8, 2, 1024, 3584): 3, (64, 6, 1024, 704): 2,
            (64, 8, 1024, 512): 2,
            (128, 8, 768, 384): 1, (128, 1, 768, 1536): 1, (16, 2, 512, 2048): 1,
            (32, 2, 768, 3072): 1,
            (4, 4, 256, 64): 1, (256, 8, 1024, 256): 1}  # fmt: skip
_FORMS = {"route": 3, "balance": 1, "places": 2, "dispatch": 2, "combine": 2, "masks": 2,
          "layers": 3, "gathered": 1, "soft": 1}  # fmt: skip


def _draw(random: Random) -> Parameters:
    experts, picks, width, hidden = one(random, _EXPERTS)
    return {
        "form": one(random, _FORMS),
        "tokens": one(random, {1: 1, 16: 1, 64: 1, 196: 1, 512: 2, 1024: 2, 4096: 1}),
        "experts": experts, "picks": picks, "width": width, "hidden": hidden,
    }  # fmt: skip


def _experts(p: Parameters) -> Work:
    """Return a part of a mixture of experts.

    route: the weights of the picked experts; balance: the loss of their shares; places: of each
    token in its expert's queue, by running sums of one-hot rows; dispatch: rows gathered for each
    expert; combine: their weighted sums; masks: GShard's products with one-hot masks; layers: a
    gated layer of every expert; gathered: experts' weights for few tokens; soft: slots (Soft MoE).
    """
    work: Work = _FORM[str(p["form"])](p)
    return work


def _work(p: Parameters, operands: Any, call: Any, made: Any, flops: float, depth: int) -> Work:
    return Work(tuple(operands), *alike(call), made, flops=flops, depth=depth)


def _one_hot(lib: Any, index: Any, experts: int, x: Any) -> Any:
    """Return one-hot rows in the dtype of x."""
    return like(index[..., None] == span(lib, experts, x), x)


def _top(lib: Any, x: Any, picks: int) -> tuple[Any, Any]:
    found = lib.topk(x, picks)
    return found[0], found[1]


def _route(p: Parameters) -> Work:
    tokens, experts, picks = sizes(p, "tokens", "experts", "picks")
    balance = p["form"] == "balance"

    def call(lib: Any, x: Any) -> Any:
        weights = lib.softmax(single(x), axis=-1)
        values, index = _top(lib, weights, picks)
        if balance:
            shares = _one_hot(lib, index, experts, x).sum(axis=1).mean(axis=0)
            return like((shares * weights.mean(axis=0)).sum(axis=-1) * experts, x)
        return like(values / values.sum(axis=-1, keepdims=True), x)

    made = () if balance else (tokens, picks)
    # Of half types two weights may be equal, and libraries pick either.
    given = [Operand((tokens, experts), "float32")]
    return _work(p, given, call, made, 5.0 * tokens * experts, experts)


def _places(p: Parameters) -> Work:
    tokens, experts, picks = sizes(p, "tokens", "experts", "picks")

    def call(lib: Any, x: Any, index: Any) -> Any:
        rows = _one_hot(lib, index.reshape(-1), experts, single(x))
        before = running(lib, rows, 0) - rows
        return x * like((before * rows).sum(axis=-1), x)

    given = [Operand((tokens * picks,)), Operand((tokens, picks), "index", experts)]
    return _work(p, given, call, (tokens * picks,), 4.0 * tokens * picks * experts, 2)


def _dispatch(p: Parameters) -> Work:
    tokens, experts, picks, width = sizes(p, "tokens", "experts", "picks", "width")
    room = max(1, tokens * picks // experts)

    def call(lib: Any, x: Any, index: Any) -> Any:
        if is_torch(lib):
            return x.index_select(0, index.reshape(-1)).reshape(experts, room, width)
        return lib.take(x, index, axis=0)

    given = [Operand((tokens, width)), Operand((experts, room), "index", tokens)]
    return _work(p, given, call, (experts, room, width), 0.0, picks + 8)


def _combine(p: Parameters) -> Work:
    tokens, experts, picks, width = sizes(p, "tokens", "experts", "picks", "width")
    room = max(1, tokens * picks // experts)
    made = (tokens, width)

    def call(lib: Any, y: Any, weights: Any, index: Any) -> Any:
        rows = (y * weights[..., None]).reshape(-1, width)
        if is_torch(lib):
            return y.new_zeros(made).index_add(0, index.reshape(-1), rows)
        zeros = lib.zeros(made, dtype=y.dtype)
        return lib.scatter_nd(zeros, index.reshape(-1, 1), rows, update="add")

    given = [Operand((experts, room, width)), Operand((experts, room)),
             Operand((experts, room), "index", tokens)]  # fmt: skip
    return _work(p, given, call, made, 2.0 * experts * room * width, picks + 8)


def _masks(p: Parameters) -> Work:
    tokens, experts, picks, width = sizes(p, "tokens", "experts", "picks", "width")
    tokens, room = min(tokens, 1024), max(4, 2 * tokens * picks // experts)

    def call(lib: Any, x: Any, expert: Any, place: Any) -> Any:
        mask = _one_hot(lib, expert, experts, x)[..., None] * _one_hot(lib, place, room, x)[:, None]
        return lib.einsum("tec,td->ecd", mask, x)

    given = [Operand((tokens, width)), Operand((tokens,), "index", experts),
             Operand((tokens,), "index", room)]  # fmt: skip
    made = (experts, room, width)
    return _work(p, given, call, made, 2.0 * prod(made) * tokens, tokens)


def _layers(p: Parameters) -> Work:
    tokens, experts, picks, width, hidden = sizes(
        p, "tokens", "experts", "picks", "width", "hidden"
    )
    room, scale = max(1, tokens * picks // experts), width**-0.5

    def call(lib: Any, x: Any, up: Any, gate: Any, down: Any) -> Any:
        a, g = x @ (up * scale), x @ (gate * scale)
        return (a * g / (1 + lib.exp(-g))) @ (down * hidden**-0.5)

    wide = Operand((experts, width, hidden), weight=True)
    given = [
        Operand((experts, room, width)),
        wide,
        wide,
        Operand((experts, hidden, width), weight=True),
    ]
    made = (experts, room, width)
    return _work(p, given, call, made, 6.0 * prod(made) * hidden, width + hidden)


def _gathered(p: Parameters) -> Work:
    experts, picks, width, hidden = sizes(p, "experts", "picks", "width", "hidden")
    tokens = min(int(p["tokens"]), 16)  # type: ignore[arg-type]

    def call(lib: Any, x: Any, weights: Any, index: Any) -> Any:
        if is_torch(lib):
            picked = weights[index]
        else:
            picked = lib.take(weights, index, axis=0)
        return lib.einsum("td,tkdh->tkh", x, picked)

    read = tokens * picks * width * hidden
    given = [Operand((tokens, width)), Operand((experts, width, hidden), weight=True, read=read),
             Operand((tokens, picks), "index", experts)]  # fmt: skip
    made = (tokens, picks, hidden)
    return _work(p, given, call, made, 2.0 * read, width)


def _soft(p: Parameters) -> Work:
    tokens, experts, width = sizes(p, "tokens", "experts", "width")

    def call(lib: Any, x: Any, slots: Any) -> Any:
        scores = x @ (slots * width**-0.5)
        inputs = lib.softmax(scores, axis=0).mT @ x
        return lib.softmax(scores, axis=1) @ inputs

    given = [Operand((tokens, width)), Operand((width, 2 * experts), weight=True)]
    flops = 12.0 * tokens * width * experts
    return _work(p, given, call, (tokens, width), flops, width + tokens)


_FORM: dict[str, Any] = {
    "route": _route, "balance": _route, "places": _places, "dispatch": _dispatch,
    "combine": _combine, "masks": _masks, "layers": _layers, "gathered": _gathered, "soft": _soft,
}  # fmt: skip
FAMILIES = (Family("experts", 2, _draw, _experts, ("tokens",)),)
