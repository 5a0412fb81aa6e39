"""Which values dropout reaches in each layer that has it inside, by layers composed by hand.

With p = 1 everything that dropout reaches is 0, so a layer in training is the composition of its
own parts with zeros there: between recurrent layers and not before the first or behind the last,
behind each branch of a block of attention, inside its feed-forward part, and on attention weights.
Options cross: layers, directions, order of axes, biases, order of norms. With another p each value
there is 0 or 1 / (1 − p) times what it was, and each is drawn alone. In evaluation, with p = 0 or
with nothing to reach, a layer gives what it gives without dropout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int32, uint32

from ..rows.functions.drawing import Rng, coin, source
from .base import Array, Check, Place

PACKAGE: Final = "calor_nn"
CONTRACT: Final = "dropout reaches the values that its layer names, and no others"
_TURNS: Final = 3
_NEAR: Final = 2e-5
# So many draws with a chance of 1/4 are alike once in 10¹⁴ times.
_ROWS: Final = 120


def _some(rng: Rng, *shape: int) -> Any:
    return calor.asarray(rng.normal(size=shape).astype(np.float32))


def _filled(layer: Any, rng: Rng) -> Any:
    """Return a layer whose parameters are all drawn, none of them 0."""
    with calor.no_grad():
        for p in layer.parameters():
            p[...] = _some(rng, *p.shape) * 0.5
    return layer


def _near(got: Any, want: Any, what: str) -> None:
    a, b = got.numpy(), want.numpy()
    assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
    off = np.abs(a - b).max(initial=0.0)
    assert off <= _NEAR * max(1.0, float(np.abs(b).max(initial=0.0))), f"{what}: {off:.3g} off"


def _unreached(layer: Any, give: Callable[[Any], Any], plain: Any, what: str) -> None:
    """A layer in evaluation is the layer without dropout, whatever it would reach."""
    _near(give(layer.eval()), give(plain), f"{what}, in evaluation")


# Recurrent layers.


def _recurrent(name: str, rng: Rng) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sizes and the options of a recurrent layer."""
    sizes = {"input_size": int(rng.integers(1, 4)), "hidden_size": int(rng.integers(1, 4))}
    how: dict[str, Any] = {"bias": coin(rng), "bidirectional": coin(rng), "batch_first": coin(rng)}
    if name == "RNN":
        how["nonlinearity"] = str(rng.choice(("tanh", "relu")))
    return sizes, how


def _alone(nn: Any, name: str, layer: Any, number: int, width: int, how: dict[str, Any]) -> Any:
    """Return one of several recurrent layers, with its weights, as a layer of its own."""
    made = getattr(nn, name)(width, layer.hidden_size, **how)
    end = (f"_l{number}", f"_l{number}_reverse")
    state = {k.replace(f"_l{number}", "_l0"): v for k, v in layer.state_dict().items()
             if k.endswith(end)}  # fmt: skip
    made.load_state_dict(state)
    return made.eval()


def _stacked(nn: Any, name: str, rng: Rng, layers: int) -> None:
    sizes, how = _recurrent(name, rng)
    layer = _filled(getattr(nn, name)(**sizes, num_layers=layers, dropout=1.0, **how), rng)
    what = f"{name} of {layers} layers with dropout 1 and {how}"
    x = _some(rng, 3, 2, sizes["input_size"])
    got, last = layer.train()(x)
    last, flow, ends = last if isinstance(last, tuple) else (last,), x, []
    for number in range(layers):
        one = _alone(nn, name, layer, number, flow.shape[-1], how)
        flow, end = one(flow if number == 0 else flow * 0)
        ends.append(end if isinstance(end, tuple) else (end,))
    _near(got, flow, f"{what}: outputs")
    for k, found in enumerate(last):
        _near(found, calor.concat([e[k] for e in ends]), f"{what}: last states {k}")
    plain = getattr(nn, name)(**sizes, num_layers=layers, **how)
    plain.load_state_dict(layer.state_dict())
    _unreached(layer, lambda m: m(x)[0], plain, what)
    if layers == 1:
        _near(layer.train()(x)[0], plain(x)[0], f"{what}: nothing lies between layers, outputs")


def _apart(nn: Any, name: str, rng: Rng) -> None:
    """Each value between two layers is 0 or scaled, each as it is drawn alone."""
    size, p = 6, float(rng.choice((0.25, 0.5, 0.75)))
    how: dict[str, Any] = {"bias": False}
    layer = getattr(nn, name)(size, size, num_layers=2, dropout=p, **how)
    with calor.no_grad():
        for key, weight in layer.named_parameters():
            # Each unit reads one value, and no other.
            unit = np.tile(np.eye(size, dtype=np.float32), (len(weight) // size, 1))
            weight[...] = calor.asarray(unit if "_ih_" in key else unit * 0)
    x = calor.asarray(rng.uniform(0.5, 2, (1, _ROWS, size)).astype(np.float32))
    first, second = (_alone(nn, name, layer, k, size, how) for k in range(2))
    between = first(x)[0]
    zero, kept = (second(between * by)[0].numpy() for by in (0.0, 1 / (1 - p)))
    got = layer.train()(x)[0].numpy()
    none, whole = np.abs(got - zero) <= _NEAR, np.abs(got - kept) <= _NEAR
    what = f"{name} of two layers with dropout {p}"
    assert (none | whole).all(), f"{what}: a value is neither 0 nor {1 / (1 - p):.3g} of itself"
    _share(none, p, what)


def _share(none: Array, p: float, what: str) -> None:
    """About p of the values are 0: in each row and column some are, and some are not."""
    count, room = none.size, 6 * np.sqrt(none.size * p * (1 - p))
    assert abs(none.sum() - p * count) <= room, f"{what}: {none.sum()} of {count} are 0"
    for axis in range(none.ndim):
        if none.shape[axis] > 1 and count // none.shape[axis] >= _ROWS:
            along = tuple(k for k in range(none.ndim) if k != axis)
            mixed = none.any(along) & ~none.all(along)
            assert mixed.all(), f"{what}: all values of a part along axis {axis} are alike"


def _of_recurrent(name: str, rng: Rng) -> None:
    nn = import_module(PACKAGE)
    for layers in (1, 2, 3):
        _stacked(nn, name, rng, layers)
    _apart(nn, name, rng)


# Attention, and blocks of it.


def _of_attention(rng: Rng) -> None:
    nn = import_module(PACKAGE)
    how = {"bias": coin(rng), "batch_first": coin(rng)}
    layer = _filled(nn.MultiHeadAttention(4, 2, dropout=0.5, **how), rng)
    plain = nn.MultiHeadAttention(4, 2, **how)
    plain.load_state_dict(layer.state_dict())
    what = f"MultiHeadAttention with dropout and {how}"
    q, k = _some(rng, 2, 2, 4), _some(rng, 2, 2, 4)
    _unreached(layer, lambda m: m(q, k), plain, what)
    # One key has the weight 1: dropout of weights is that of the values of each head.
    with calor.no_grad():
        layer.in_proj_weight[8:] = layer.out_proj.weight[...] = calor.eye(4)
        for b in (layer.in_proj_bias, layer.out_proj.bias) if how["bias"] else ():
            b[...] = b * 0
    plain.load_state_dict(layer.state_dict())
    shape = (_ROWS, 1, 4) if how["batch_first"] else (1, _ROWS, 4)
    x = calor.asarray(rng.uniform(0.5, 2, shape).astype(np.float32))
    got, weights = layer.train()(x, return_weights=True)
    want, whole = plain(x, return_weights=True)
    _near(weights, whole, f"{what}: weights, before dropout")
    _near(want, x, f"{what}: values of one key")
    heads, due = got.numpy().reshape(_ROWS, 2, 2), x.numpy().reshape(_ROWS, 2, 2) * 2
    none, kept = (np.abs(heads - w).max(-1) <= _NEAR for w in (0, due))
    assert (none | kept).all(), f"{what}: a head's value is neither 0 nor twice itself"
    _share(none, 0.5, what)


def _of_encoding(rng: Rng) -> None:
    nn = import_module(PACKAGE)
    first, x = coin(rng), _some(rng, 3, 2, 4)
    layer, plain = (nn.PositionalEncoding(4, 8, p, first) for p in (1.0, 0.0))
    what = f"PositionalEncoding with batch_first={first}"
    _unreached(layer, lambda m: m(x), plain, what)
    _near(layer.train()(x), x * 0, f"{what} and dropout 1: the sum")
    _near(plain.train()(x), plain.eval()(x), f"{what} and no dropout")


def _composed(layer: Any, x: Any, parts: list[tuple[Any, Callable[[Any], Any]]]) -> Any:
    """Return a block of branches, each beside its norm, without any dropout."""
    for norm, part in parts:
        x = x + part(norm(x)) if layer.norm_first else norm(x + part(x))
    return x


def _of_block(name: str, rng: Rng) -> None:
    nn = import_module(PACKAGE)
    decodes = name == "TransformerDecoderLayer"
    how = {"norm_first": coin(rng), "bias": coin(rng), "batch_first": coin(rng),
           "activation": str(rng.choice(("relu", "gelu")))}  # fmt: skip
    layer = _filled(getattr(nn, name)(4, 2, 5, dropout=1.0 if coin(rng) else 0.5, **how), rng)
    x, memory = _some(rng, 3, 2, 4), _some(rng, 3, 2, 4)
    given = (x, memory) if decodes else (x,)
    plain = getattr(nn, name)(4, 2, 5, dropout=0.0, **how)
    plain.load_state_dict(layer.state_dict())
    _unreached(layer, lambda m: m(*given), plain, f"{name} with {how}")
    layer.train()
    rates = {n: m for n, m in layer.named_modules() if type(m) is nn.Dropout}
    held = [m for m in layer.modules() if isinstance(m, nn.MultiHeadAttention)]
    due = {"dropout", "dropout1", "dropout2", *(("dropout3",) if decodes else ())}
    assert set(rates) == due, f"{name} has dropouts {sorted(rates)}, not {sorted(due)}"
    for m in held:
        m.dropout = 0.0

    def inner(t: Any, cut: bool) -> Any:
        act = calor.relu if how["activation"] == "relu" else calor.gelu
        made = act(layer.linear1(t))
        return layer.linear2(made * 0 if cut else made)

    for chosen in rng.permutation(sorted(due)).tolist():
        for key, rate in rates.items():
            rate.p = 1.0 if key == chosen else 0.0
        branches: list[Callable[[Any], Any]] = [lambda t: plain.self_attn(t)]
        if decodes:
            branches.append(lambda t: plain.multihead_attn(t, memory))
        branches.append(partial(inner, cut=chosen == "dropout"))
        if chosen != "dropout":
            branches[int(chosen[-1]) - 1] = lambda t: t * 0
        norms = [getattr(layer, f"norm{k + 1}") for k in range(len(branches))]
        want = _composed(layer, x, list(zip(norms, branches, strict=True)))
        _near(layer(*given), want, f"{name} with {how}, where {chosen} alone drops all")


def _of_stacks(rng: Rng) -> None:
    """Layers of a stack are copies: each in training or evaluation, each with its dropout."""
    nn = import_module(PACKAGE)
    how = {"norm_first": True, "batch_first": coin(rng)}
    layer = nn.TransformerEncoderLayer(4, 2, 5, dropout=0.0, **how)
    stack = _filled(nn.TransformerEncoder(layer, 2, nn.LayerNorm(4)), rng)
    for one in stack.layers:
        one.dropout1.p = one.dropout2.p = 1.0
    x = _some(rng, 3, 2, 4)
    _near(stack.train()(x), stack.norm(x), f"a stack with {how} whose branches are all dropped")
    stack.layers[0].eval()
    _near(stack(x), stack.norm(stack.layers[0](x)), "a stack of which one layer is in evaluation")


SUBJECTS: Final[dict[str, Callable[[Rng], None]]] = {
    **{name: partial(_of_recurrent, name) for name in ("RNN", "LSTM", "GRU")},
    "MultiHeadAttention": _of_attention, "PositionalEncoding": _of_encoding,
    **{name: partial(_of_block, name)
       for name in ("TransformerEncoderLayer", "TransformerDecoderLayer")},
    "TransformerEncoder": _of_stacks,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    state = calor.random.default_generator.state
    try:
        for turn in range(_TURNS):
            if place.tries(turn, _TURNS):
                seeds = [place.seed, 419, crc32(name.encode()), turn]
                calor.random.seed(int(source(seeds).integers(1 << 30)))
                SUBJECTS[name](source(seeds))
    finally:
        calor.random.default_generator.set_state(state)


def reach_of_dropout() -> Iterator[Check]:
    """Yield a check of each layer that has dropout inside, if the package is installed."""
    if find_spec(PACKAGE) is None:
        return
    for name in SUBJECTS:
        yield Check(
            kind="functions",
            subject=f"{PACKAGE}.reach-of-dropout-{name}",
            tier="training",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, _run),
            dtypes=(float32, int32, uint32, bool_),
            looks=True,
        )
