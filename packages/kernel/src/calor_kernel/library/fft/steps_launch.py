"""Transforms as a launch for each factor, over all elements: for any device and length."""

from __future__ import annotations

from calor_kernel.library.fft.kernels import step
from calor_kernel.library.fft.plan import End, Plan, Rows, factors_of


def transform_by_steps(
    plan: Plan, shape: Rows, source: End, target: End, prepares: bool = False
) -> None:
    """Add the launches of a transform whose length has small primes."""
    factors = factors_of(shape.n) or [1]
    table = plan.table(shape.n) if len(factors) > 1 else source.first
    # In between, results go from one piece of memory to another one and back.
    places = [plan.apart(shape.size) for _ in range(min(len(factors) - 1, 2))]
    before = 1
    for i, radix in enumerate(factors):
        last = i == len(factors) - 1
        to = target if last else places[i % 2]
        said = {
            "radix": radix,
            "whole": before * shape.inner % plan.width == 0,
            "last": last,
            "read": source.form,
            "write": to.form,
            "swap_read": source.swapped,
            "swap_write": to.swapped,
        }
        plan.over(
            step,
            shape.n * shape.inner // radix,
            shape.rows,
            (source.first, source.second),
            (to.first, to.second),
            (table,),
            (shape.rows, shape.n, shape.inner, before),
            said,
            5 * shape.size * max(radix.bit_length() - 1, 1),
            prepares,
        )
        source = to
        before *= radix
