"""Transforms with one launch for each factor, for any device and length."""

from __future__ import annotations

from calor_kernel.library.fft.kernels import step
from calor_kernel.library.fft.plan import End, Plan, factors_of, size_of
from calor_kernel.library.fft.step_layout import Rows


def transform_by_steps(
    plan: Plan, shape: Rows[int], source: End, target: End, prepares: bool = False
) -> None:
    """Add the launches of a transform whose length has small primes."""
    factors = factors_of(shape.n) or [1]
    table = plan.table(shape.n) if len(factors) > 1 else source.first
    # Between steps, results alternate between two pieces of memory.
    buffers = [plan.apart(shape) for _ in range(min(len(factors) - 1, 2))]
    before = 1
    for i, radix in enumerate(factors):
        last = i == len(factors) - 1
        to = target if last else buffers[i % 2]
        plan.over(
            step,
            shape.n * shape.inner // radix,
            shape,
            5 * size_of(shape) * max(radix.bit_length() - 1, 1),
            prepares,
            source=source.read,
            target=to.written,
            table=table,
            over=shape,
            before=before,
            radix=radix,
            whole=before * shape.inner % plan.width == 0,
            last=last,
            read=source.storage,
            write=to.storage,
        )
        source = to
        before *= radix
