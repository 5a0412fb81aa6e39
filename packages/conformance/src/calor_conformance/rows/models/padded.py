"""Windows that are padded as ``auto_pad`` says, and texts: what each option means, alone and beside
others.

The windows of an axis are lists of places, of which those outside the operand are padding; what an
operator makes of them is written once for any rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Final

import numpy as np

from ..language import Array
from .language import Draw, Node, Rng, coin, option, some

_WAYS: Final = ("SAME_UPPER", "SAME_LOWER", "VALID")


class _Windows:
    """Sizes and options of windows, and the places of each window along each axis."""

    def __init__(self, rng: Rng) -> None:
        self.rank = int(rng.choice([1, 2, 2, 3]))
        most = 8 if self.rank < 3 else 5
        self.sizes = [int(n) for n in rng.integers(3, most, self.rank)]
        self.kernel = [int(n) for n in rng.integers(1, 4, self.rank)]
        self.steps = [int(n) for n in rng.integers(1, 4, self.rank)]
        # A window of VALID is no longer than its axis.
        self.apart = [
            int(rng.integers(1, 3)) if 2 * (k - 1) < n else 1
            for k, n in zip(self.kernel, self.sizes, strict=True)
        ]
        self.way = str(rng.choice(_WAYS))
        self.attributes: dict[str, Any] = {
            "auto_pad": self.way, "strides": self.steps, "dilations": self.apart,
            "kernel_shape": self.kernel,
        }  # fmt: skip
        if all(s == 1 for s in self.steps) and coin(rng):
            del self.attributes["strides"]
        if all(d == 1 for d in self.apart) and coin(rng):
            del self.attributes["dilations"]
        self.places = [self._axis(n) for n in range(self.rank)]
        self.shape = [len(p) for p in self.places]

    def _axis(self, n: int) -> Array:
        size, step, apart = self.sizes[n], self.steps[n], self.apart[n]
        whole = (self.kernel[n] - 1) * apart + 1
        if self.way == "VALID":
            count, low = (size - whole) // step + 1, 0
        else:
            count = -(-size // step)
            total = max((count - 1) * step + whole - size, 0)
            low = total // 2 if self.way == "SAME_UPPER" else total - total // 2
        return np.arange(count)[:, None] * step - low + np.arange(self.kernel[n]) * apart

    def each(self) -> Iterator[tuple[Any, Any, Any, int]]:
        """Yield each window: its index, its places in the operand and the kernel, and size."""
        for index in np.ndindex(*self.shape):
            lines = [p[i] for p, i in zip(self.places, index, strict=True)]
            inside = [(at >= 0) & (at < n) for at, n in zip(lines, self.sizes, strict=True)]
            here = np.ix_(*(at[w] for at, w in zip(lines, inside, strict=True)))
            yield index, here, np.ix_(*map(np.flatnonzero, inside)), int(np.prod(self.kernel))

    def made(self, x: Array, of: Callable[[Array, int], Any]) -> Array:
        """Return what a function makes of the elements (N, C, places) of each window."""
        made = np.empty((*x.shape[:2], *self.shape))
        for index, here, _, count in self.each():
            taken = x[(slice(None), slice(None), *here)].astype(np.float64)
            made[(..., *index)] = of(taken.reshape(*x.shape[:2], -1), count)
        return made.astype(np.float32)


def _max_pool(rng: Rng) -> Node:
    lie = _Windows(rng)
    x = some(rng, 2, 2, *lie.sizes)
    column = coin(rng)
    numbers = np.arange(x.size).reshape(x.shape)
    if column:
        turned = np.arange(x.size).reshape(2, 2, *lie.sizes[::-1])
        numbers = turned.transpose(0, 1, *range(lie.rank + 1, 1, -1))
    places = np.empty((2, 2, *lie.shape), np.int64)
    for index, here, _, _ in lie.each():
        taken, at = (a[(slice(None), slice(None), *here)].reshape(2, 2, -1) for a in (x, numbers))
        best = taken.argmax(-1)[..., None]
        places[(..., *index)] = np.take_along_axis(at, best, -1)[..., 0]
    want = [lie.made(x, lambda taken, count: taken.max(-1)), places]
    how = {**lie.attributes, "storage_order": int(column)}
    return Node([x], how, 2, opset=22, want=want)


def _average_pool(rng: Rng) -> Node:
    lie, padded = _Windows(rng), coin(rng)
    x = some(rng, 2, 2, *lie.sizes)
    want = lie.made(x, lambda taken, n: taken.sum(-1) / (n if padded else taken.shape[-1]))
    return Node([x], {**lie.attributes, "count_include_pad": int(padded)}, opset=22, want=[want])


def _lp_pool(rng: Rng) -> Node:
    lie, p = _Windows(rng), int(rng.integers(1, 4))
    x = some(rng, 2, 2, *lie.sizes)
    want = lie.made(x, lambda taken, n: (np.abs(taken) ** p).sum(-1) ** (1 / p))
    return Node([x], {**lie.attributes, "p": p}, opset=22, want=[want])


def _convolved(rng: Rng) -> Node:
    lie, group = _Windows(rng), int(rng.choice([1, 2]))
    x, w = some(rng, 2, 4, *lie.sizes), some(rng, 4, 4 // group, *lie.kernel)
    bias = some(rng, 4) if coin(rng) else np.zeros(4, np.float32)
    want = np.empty((2, 4, *lie.shape))
    for index, here, kept, _ in lie.each():
        for o in range(4):
            own = slice(o // (4 // group) * (4 // group), (o // (4 // group) + 1) * (4 // group))
            taken = x[:, own][(slice(None), slice(None), *here)].astype(np.float64)
            weights = w[o][(slice(None), *kept)]
            want[(slice(None), o, *index)] = (taken * weights).reshape(2, -1).sum(1) + bias[o]
    how = {**lie.attributes, "group": group}
    given = [x, w, *([bias] if bias.any() else [])]
    return Node(given, how, opset=22, fixed=(1,) if coin(rng) else (),
                want=[want.astype(np.float32)])  # fmt: skip


def _transposed(rng: Rng) -> Node:
    """Return a convolution turned round, of as many places as the operand has, times the stride."""
    rank, way = int(rng.choice([1, 2])), str(rng.choice(_WAYS))
    group = int(rng.choice([1, 2]))
    sizes, kernel = ([int(n) for n in rng.integers(low, 5, rank)] for low in (2, 1))
    apart = [int(n) for n in rng.integers(1, 3, rank)]
    wholes = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    # Windows leave no gaps, so that padding is taken away and never added.
    steps = [int(rng.integers(1, min(n, 3) + 1)) for n in wholes]
    more = [int(rng.integers(0, s)) for s in steps]
    x, w = some(rng, 1, 4, *sizes), some(rng, 4, 3, *kernel)
    full = np.zeros((1, 3 * group, *((n - 1) * s + whole + extra for n, s, whole, extra in zip(
        sizes, steps, wholes, more, strict=True))))  # fmt: skip
    for at in np.ndindex(*sizes):
        for tap in np.ndindex(*kernel):
            to = tuple(a * s + t * d for a, s, t, d in zip(at, steps, tap, apart, strict=True))
            for c in range(4):
                first = c // (4 // group) * 3
                full[(0, slice(first, first + 3), *to)] += (
                    float(x[(0, c, *at)]) * w[(c, slice(None), *tap)]
                )
    if way != "VALID":
        parts = [slice(None), slice(None)]
        for n, s, length in zip(sizes, steps, full.shape[2:], strict=True):
            total = length - n * s
            low = total // 2 if way == "SAME_UPPER" else total - total // 2
            parts.append(slice(low, low + n * s))
        full = full[tuple(parts)]
    how = {"auto_pad": way, "strides": steps, "dilations": apart, "group": group,
           "output_padding": more, **option(rng, {"kernel_shape": kernel})}  # fmt: skip
    return Node([x, w], how, opset=22, want=[full.astype(np.float32)])


def _counted(rng: Rng) -> Node:
    """Return counts of n-grams: of whole numbers or texts, in one row or several."""
    words: Any = np.asarray(["a", "bb", "c", "B"], object) if coin(rng) else np.arange(4)
    x = rng.integers(0, 4, (3, 7) if coin(rng) else 9)
    lengths, skips = sorted(rng.integers(1, 4, 2).tolist()), int(rng.integers(0, 4))
    grams: list[tuple[int, ...]] = []
    starts, counts = list[int](), rng.integers(0, 4, 3).tolist()
    for length, count in zip((1, 2, 3), counts, strict=True):
        starts.append(sum(map(len, grams)))
        every = [*product(range(4), repeat=length)]
        grams += [every[int(i)] for i in rng.permutation(len(every))[: max(count, 1)]]
    mode = str(rng.choice(["TF", "IDF", "TFIDF"]))
    weights = rng.uniform(0.2, 3, len(grams)).tolist() if coin(rng) else None
    # Weights are of places in the pool and of outputs alike.
    drawn = rng.permutation(len(grams) + 2)[: len(grams)].tolist()
    places: list[int] = drawn if weights is None else [*range(len(grams))]
    want = np.zeros((len(np.atleast_2d(x)), max(places) + 1))
    for row, items in zip(want, np.atleast_2d(x).tolist(), strict=True):
        for place, gram in zip(places, grams, strict=True):
            if not lengths[0] <= len(gram) <= lengths[1]:
                continue
            # Skips lie between the items of a gram, so one item alone has none.
            for step in range(1, (skips if len(gram) > 1 else 0) + 2):
                for at in range(len(items) - (len(gram) - 1) * step):
                    row[place] += (
                        tuple(items[at : at + len(gram) * step : step][: len(gram)]) == gram
                    )
    if mode != "TF":
        scale = np.ones(len(want[0])) if weights is None else np.asarray(weights)
        want = (want if mode == "TFIDF" else want > 0) * scale
    flat = [words[i] for gram in grams for i in gram]
    texts = words.dtype == object
    pool = {"pool_strings": flat} if texts else {"pool_int64s": [int(n) for n in flat]}
    how: dict[str, Any] = {
        "mode": mode, "min_gram_length": lengths[0], "max_gram_length": lengths[1],
        "max_skip_count": skips, "ngram_counts": starts,
        "ngram_indexes": places, **pool,
        **({} if weights is None else {"weights": weights}),
    }  # fmt: skip
    made = want.astype(np.float32)
    given = words[x] if texts else x.astype(np.int64)
    return Node([given], how, opset=9, want=[made[0] if x.ndim == 1 else made])


def _cased(rng: Rng) -> Node:
    """Return texts without those that are stop words, all of them perhaps."""
    every = ["Éa", "éa", "cat", "CAT", "Cat", "x", "", "ß"]
    texts = [every[int(i)] for i in rng.integers(0, len(every), int(rng.integers(1, 6)))]
    stops = [every[int(i)] for i in rng.permutation(len(every))[: int(rng.integers(0, 6))]]
    how = option(rng, {"case_change_action": str(rng.choice(["LOWER", "UPPER", "NONE"])),
                       "is_case_sensitive": int(coin(rng)), "stopwords": stops})  # fmt: skip
    stops = how.get("stopwords", [])
    if not stops:
        how.pop("stopwords", None)
    plain: Callable[[str], str] = str if how.get("is_case_sensitive") else str.lower
    kept = [t for t in texts if plain(t) not in {plain(s) for s in stops}]
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(how.get("case_change_action", ""), str)
    made = np.asarray([change(t) for t in kept] or [""], object)
    x = np.asarray(texts, object)
    row = coin(rng)
    return Node([x[None] if row else x], how, opset=10, want=[made[None] if row else made])


ROWS: Final[dict[str, Draw]] = {
    "MaxPool": _max_pool, "AveragePool": _average_pool, "LpPool": _lp_pool, "Conv": _convolved,
    "ConvTranspose": _transposed, "TfIdfVectorizer": _counted, "StringNormalizer": _cased,
}  # fmt: skip
