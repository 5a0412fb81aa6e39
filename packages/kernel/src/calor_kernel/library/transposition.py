"""Transpositions of squares of vectors, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from calor_kernel import language as kl


def transpose(rows: Sequence[kl.Number], largest_first: bool = False) -> list[kl.Number]:
    """Return the columns of a square of vectors, in log2 rounds of exchanged blocks.

    ``largest_first``: whether blocks become smaller or larger from round to round.
    """
    made = list(rows)
    width = len(made)
    steps = [1 << k for k in range(width.bit_length() - 1)]
    for step in reversed(steps) if largest_first else steps:
        for i in (i for i in range(width) if not i & step):
            a, b = made[i], made[i | step]
            low = [width + n - step if n & step else n for n in range(width)]
            high = [width + n if n & step else n + step for n in range(width)]
            made[i], made[i | step] = kl.shuffle(a, low, b), kl.shuffle(a, high, b)
    return made
