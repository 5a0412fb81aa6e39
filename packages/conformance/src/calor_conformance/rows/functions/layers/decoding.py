"""Attention and encoder layers step by step with a cache: each pair of their options in turn.

What a cache makes of parts of a sequence, one after another, is what the plain definition makes of
the whole sequence at once: with masks over the room of the cache, over keys, and the causal order,
which a cache always has.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...crossed.pairwise import Scenario
from ...language import Array
from ..drawing import Rng
from .modules import held
from .recurrence import _attend, _block, _heads, _layered, _normal

# "room" is a mask over the places of the cache, "rows" one of each query over them.
FACTORS: Final[Mapping[str, Sequence[Any]]] = {
    "layer": ("attention", "encoder", "encoder, norm first"),
    "cached": ("one by one", "in parts", False), "mask": (None, "room", "rows", "heads"),
    "key_mask": (False, True), "causal": (False, True), "batch_first": (False, True),
    "heads": (1, 2), "jitted": (False, True), "spare": (0, 2),
}  # fmt: skip


def _masks(rng: Rng, s: Scenario, batch: int, length: int, room: int) -> dict[str, Array]:
    """Return masks in which the first place, where all can look, is always seen.

    Each of both hides a place that the other one does not.
    """
    made: dict[str, Array] = {}
    shapes = {"room": (1, 1, 1, room), "rows": (1, 1, length, room),
              "heads": (batch, s["heads"], length, room)}  # fmt: skip
    if s["mask"] is not None:
        made["mask"] = np.asarray(rng.random(shapes[s["mask"]]) < 0.6)
    if s["key_mask"]:
        made["key_mask"] = np.asarray(rng.random((batch, room)) < 0.7)
    for mask, hidden in zip(made.values(), (1, 2), strict=False):
        mask[..., :3] = True
        mask[..., hidden] = False
    return made


def _parts(rng: Rng, s: Scenario, length: int) -> list[int]:
    """Return where parts begin and end."""
    if not s["cached"]:
        return [0, length]
    if s["cached"] == "one by one":
        return list(range(length + 1))
    return sorted({0, length, *(int(n) for n in rng.integers(0, length + 1, 2))})


def decoded(package: Any, s: Scenario, rng: Rng) -> tuple[Any, Array, str]:
    """Return what a layer makes in parts, what it means at once, and what was asked.

    Parameters
    ----------
    package : module
        The package with the layers.
    s : dict
        A value of each of `FACTORS`.
    rng : Rng
        Where numbers come from.

    Returns
    -------
    tuple of Tensor, ndarray and str
        The results of all parts side by side, the meaning in float64, and the scenario as text.
    """
    import calor

    batch, length, heads = int(rng.integers(1, 3)), int(rng.integers(3, 6)), s["heads"]
    wide = 2 * heads
    room = length + s["spare"] if s["cached"] else length
    x, masks = _normal(rng, batch, length, wide), _masks(rng, s, batch, length, room)
    encoder = s["layer"] != "attention"
    first = s["layer"].endswith("first")
    if encoder:
        weights = _block(rng, wide, 3, True, False)
        layer = package.TransformerEncoderLayer(
            wide, heads, 3, 0.0, batch_first=s["batch_first"], norm_first=first
        ).eval()
    else:
        weights = _heads(rng, wide, True)
        layer = package.MultiHeadAttention(wide, heads, batch_first=s["batch_first"]).eval()
    held(layer, weights)
    cache = package.KVCache(batch, heads, room, 2) if s["cached"] else None

    def step(layer: Any, cache: Any, x: Any, masks: Any) -> Any:
        return layer(x, causal=s["causal"], cache=cache, **masks)

    run = calor.jit(step) if s["jitted"] else step
    ends, made = _parts(rng, s, length), []
    for a, b in itertools.pairwise(ends):
        given = {k: m[:, :, a:b] if k == "mask" and m.shape[2] > 1 else m for k, m in masks.items()}
        part = x[:, a:b] if s["batch_first"] else np.swapaxes(x[:, a:b], 0, 1)
        put = {k: calor.asarray(np.ascontiguousarray(m)) for k, m in given.items()}
        made.append(run(layer, cache, calor.asarray(np.ascontiguousarray(part)), put))
    got = calor.concat(made, axis=1 if s["batch_first"] else 0)
    want = _whole(x, weights, s, masks, first)
    return got, want if s["batch_first"] else np.swapaxes(want, 0, 1), f"{s}, cut at {ends}"


def _whole(x: Array, weights: Any, s: Scenario, masks: dict[str, Array], first: bool) -> Array:
    """Return the meaning for the whole sequence; what is past its end is never seen."""
    length = x.shape[1]
    seen = np.ones((1, 1, length, length), np.bool_)
    if s["cached"] or s["causal"]:
        seen = seen & np.tri(length, dtype=np.bool_)
    if "mask" in masks:
        seen = seen & masks["mask"][..., :length]
    if "key_mask" in masks:
        seen = seen & masks["key_mask"][:, None, None, :length]
    wide = x.astype(np.float64)
    own = {k: np.asarray(w, np.float64) for k, w in weights.items()}
    if s["layer"] == "attention":
        return _attend(wide, wide, wide, own, s["heads"], "", seen)[0]
    return _layered(wide, None, own, s["heads"], first, "relu", {"mask": seen})
