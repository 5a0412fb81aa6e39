"""Complex products as real ones: B becomes a real matrix of twice the size each way.

Requirements: A and the result keep their memory, pairs of (real, imaginary), so only B is copied:
each element x + iy becomes the matrix [[x, y], [−y, x]].
"""

from __future__ import annotations

from typing import Any

from calor_kernel.language import absolute_position, kernel


@kernel
def expand_complex(
    source: Any,
    target: Any,
    count: Any,
    n: Any,
    k: Any,
    depth_stride: Any,
    column_stride: Any,
    batch_inner: Any,
    outer_stride: Any,
    inner_stride: Any,
    base: Any,
    *,
    turns: int,
) -> None:
    """Write ``target[2k, 2n]`` of each batch from pairs ``source[k, n]``; strides are of pairs."""
    first = absolute_position() * turns
    for i in range(first, min(first + turns, count)):
        column, rest = i % n, i // n
        row, batch = rest % k, rest // k
        outer, inner = batch // batch_inner, batch % batch_inner
        at = base + outer * outer_stride + inner * inner_stride
        at = 2 * (at + row * depth_stride + column * column_stride)
        real, imaginary = source[at], source[at + 1]
        to = 4 * batch * k * n + 4 * row * n + 2 * column
        target[to] = real
        target[to + 1] = imaginary
        target[to + 2 * n] = -imaginary
        target[to + 2 * n + 1] = real
