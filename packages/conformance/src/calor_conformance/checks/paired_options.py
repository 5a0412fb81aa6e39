"""Options of layers together: every two values of different options meet in a run.

Attention with a cache, masks and orders of axes, and windows with paddings by name, even and odd
sides, strides, dilations and ends, are asked of one to three axes beside a definition in NumPy.
Where no program needs a compiler, every three values of the options that change one another's
meaning meet. What else is drawn lets each value have its effect: masks hide keys that nothing else
hides, and ends are off a stride.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final
from zlib import crc32

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64
from calor.errors import ArgumentError, ShapeError

from ..rows.crossed.pairwise import Scenario, pairwise
from ..rows.functions.drawing import Rng, source
from ..rows.functions.layers import decoding, windows
from ..rows.functions.layers.modules import held
from .base import Array, Check, Place

CONTRACT: Final = "options of a layer mean together what each of them means"
_NEAR: Final = 2e-5
_ONE: Final = {"sides": ("even", "odd", "all"), "stride": (1, 2, 3), "jitted": (False, True),
               "batched": (True, False), "rank": (1, 2, 3)}  # fmt: skip
_CONV: Final[Mapping[str, Sequence[Any]]] = {
    **_ONE, "padding": ("same", "valid", 0, "least", "each"), "dilation": (1, 2, "each"),
    "groups": (1, 2), "bias": (True, False),
}  # fmt: skip
_POOL: Final[Mapping[str, Sequence[Any]]] = {
    **_ONE, "stride": (None, 1, 2, 3), "padding": (0, "half"), "ceil_mode": (False, True),
    "kind": ("MaxPool", "AvgPool"), "dilation": (1, 2), "count_include_pad": (True, False),
}  # fmt: skip


def _sides(rng: Rng, s: Scenario) -> list[int]:
    """Return the sides of a window that are even, odd, or one of both kinds."""
    of = {"even": (2, 4), "odd": (3, 5), "one": (1,)}
    kinds = ["even", "odd", "one"] if s["sides"] == "all" else [s["sides"]] * 3
    return [int(rng.choice(of[kind])) for kind in kinds[: s["rank"]]]


def _past(k: int, d: int, stride: int, pad: int) -> list[int]:
    """Return by how much an axis may exceed a window so that a last one ends past it."""
    found = []
    for more in range(1, 6):
        last = -(-(more + 2 * pad) // stride) * stride
        if (more + 2 * pad) % stride and last < more + d * (k - 1) + 1 + pad:
            found.append(more)
    return found


def _operand(rng: Rng, s: Scenario, channels: int, ks: list[int], ds: list[int],
             more: Sequence[int] = ()) -> Array:  # fmt: skip
    """Return numbers of axes that a window fits in, and the last exceeds it by one of `more`."""
    over = [int(rng.integers(0, 4)) for _ in ks]
    if more:
        over[-1] = int(rng.choice(more))
    sizes = [d * (k - 1) + 1 + n for k, d, n in zip(ks, ds, over, strict=True)]
    lead = (2,) if s["batched"] else ()
    return np.asarray(rng.normal(size=(*lead, channels, *sizes)), np.float32)


def _convolution(package: Any, s: Scenario, rng: Rng) -> tuple[Any, Array, str]:
    """Return a convolution of a layer, its meaning, and what was asked."""
    ks, rank, groups = _sides(rng, s), s["rank"], s["groups"]
    ds: list[int] = [1, 2, 1][:rank] if s["dilation"] == "each" else [s["dilation"]] * rank
    pads: Any = {"least": 1, "each": list(range(rank))}.get(s["padding"], s["padding"])
    x = _operand(rng, s, 2 * groups, ks, ds)
    w = np.asarray(rng.normal(size=(2 * groups, 2, *ks)), np.float32)
    weights = {"weight": w}
    if s["bias"]:
        weights["bias"] = np.asarray(rng.normal(size=2 * groups), np.float32)
    # The sizes stay as they are with a stride of one alone.
    stride = 1 if pads == "same" else s["stride"]
    options = {"stride": stride, "padding": pads, "dilation": ds if rng.random() < 0.5 else tuple(
        ds), "groups": groups}  # fmt: skip
    layer = getattr(package, f"Conv{rank}d")(2 * groups, 2 * groups, ks, bias=s["bias"], **options)
    run = calor.jit(lambda layer, t: layer(t)) if s["jitted"] else lambda layer, t: layer(t)
    wide = [np.asarray(t, np.float64) for t in weights.values()]
    batch = x.astype(np.float64) if s["batched"] else x.astype(np.float64)[None]
    want = windows._conv(batch, *wide, rank=rank, **options)
    what = f"Conv{rank}d of {x.shape} with a window of {ks}, {options}"
    return run(held(layer, weights), calor.asarray(x)), want if s["batched"] else want[0], what


def _pooling(package: Any, s: Scenario, rng: Rng) -> tuple[Any, Array, str]:
    """Return a pooling of a layer, its meaning, and what was asked."""
    ks, rank = _sides(rng, s), s["rank"]
    largest = s["kind"] == "MaxPool"
    ds = [s["dilation"]] * rank if largest else [1] * rank
    pads = [k // 2 for k in ks] if s["padding"] == "half" else [0] * rank
    ends = _past(ks[-1], ds[-1], s["stride"] or ks[-1], pads[-1]) if s["ceil_mode"] else ()
    x = _operand(rng, s, 2, ks, ds, ends)
    options = {"stride": s["stride"], "padding": pads, "ceil_mode": s["ceil_mode"]}
    options |= {"dilation": ds} if largest else {"count_include_pad": s["count_include_pad"]}
    layer = getattr(package, f"{s['kind']}{rank}d")(ks, **options)
    run = calor.jit(layer) if s["jitted"] else layer
    batch = x.astype(np.float64) if s["batched"] else x.astype(np.float64)[None]
    if largest:
        want = windows._max_pool(batch, ks, rank=rank, **options)[0]
    else:
        want = windows._avg_pool(batch, ks, rank=rank, **options)
    what = f"{s['kind']}{rank}d of {x.shape} with a window of {ks}, {options}"
    return run(calor.asarray(x)), want if s["batched"] else want[0], what


@dataclass(frozen=True)
class _Layers:
    """Options, those of which every three meet, what draws a layer, and the op that it comes to."""

    factors: Mapping[str, Sequence[Any]]
    together: Sequence[str]
    draw: Callable[[Any, Scenario, Rng], Any]
    op: str


_SUBJECTS: Final = {
    "attention": _Layers(
        decoding.FACTORS, ("cached", "mask", "key_mask", "causal"), decoding.decoded, "attention"
    ),
    "convolution": _Layers(
        _CONV, ("sides", "stride", "padding", "dilation"), _convolution, "conv"
    ),
    "pooling": _Layers(
        _POOL, ("kind", "sides", "stride", "padding", "ceil_mode", "count_include_pad"), _pooling,
        "window_reduce",
    ),
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    package, one, own = import_module("calor_nn"), _SUBJECTS[name], crc32(name.encode())
    together = one.together if place.interpreted else ()
    scenarios = pairwise(one.factors, np.random.default_rng([place.seed, own]), together)
    for number, s in enumerate(scenarios):
        # Of the same sizes fewer programs are compiled.
        rng = source([place.seed, own, number if place.interpreted else 0])
        made, want, what = one.draw(package, s, rng)
        got = made.numpy()
        assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
        off = np.abs(got - want)
        room = 5 * _NEAR * (1 + np.abs(want))
        assert (off <= room).all(), (
            f"{what}{', jitted' * s['jitted']}: {got[off > room][:4].tolist()}, not "
            f"{want[off > room][:4].tolist()}; {np.count_nonzero(off > room)} of {off.size} are off"
        )


def _refused(place: Place) -> None:
    """Paddings by name that a layer cannot have are refused, in each rank."""
    package = import_module("calor_nn")
    for rank in (1, 2, 3):
        x = calor.zeros((1, 1, *(4,) * rank))
        for more in ({"padding": "same", "stride": 2}, {"padding": "full"}):
            try:
                getattr(package, f"Conv{rank}d")(1, 1, 2, **more)(x)
            except (ArgumentError, ShapeError):
                continue
            raise AssertionError(f"Conv{rank}d took {more}")


def paired_options() -> Iterator[Check]:
    """Yield a check of the pairs of options of each kind of layers."""
    if find_spec("calor_nn") is None:
        return
    for name, one in _SUBJECTS.items():
        yield Check(
            kind="functions",
            subject=f"paired-options-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, one.draw),
            op=one.op,
            dtypes=(float32, int64, bool_),
            looks=True,
        )
    yield Check(
        kind="functions",
        subject="paired-options-refused",
        tier="full",
        contract="a padding by name that a layer cannot have is refused",
        run=_refused,
        text=partial(inspect.getsource, _refused),
        op="conv",
        dtypes=(float32,),
    )
