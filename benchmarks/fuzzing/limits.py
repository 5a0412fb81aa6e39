"""Bounds of a case on a device: its memory, and the time of its flops.

A case that exceeds them is made smaller: its batches and tokens are halved. What still exceeds
them is left out, on this device only, so the cases that follow are the same as elsewhere.
"""

from dataclasses import dataclass, replace
from math import prod

from fuzzing.cases import Sample
from fuzzing.families import FAMILIES, work_of
from fuzzing.sides import HOSTS


@dataclass(frozen=True)
class Limits:
    """The most bytes of operands and results, and the most flops of a case."""

    nbytes: float
    flops: float

    def allow(self, sample: Sample) -> bool:
        """Whether a case is small enough."""
        work = work_of(sample)
        flops = work.flops * (3 if sample.gradient else 1)
        return work.nbytes(sample.dtype, sample.gradient) <= self.nbytes and flops <= self.flops


GPU = Limits(2.5e9, 4e12)
# A launch sees less than 2 GiB of a buffer.
WGPU = Limits(2.1e9, 4e12)
HOST = Limits(2.5e8, 6e9)


def limits_of(device: str) -> Limits:
    """Return the bounds for a device."""
    kind = device.partition(":")[0]
    return HOST if kind in HOSTS else WGPU if kind == "wgpu" else GPU


def fitted(sample: Sample, limits: Limits) -> Sample | None:
    """Return the sample with its counts halved until it is allowed; None if that is impossible."""
    while not limits.allow(sample):
        smaller = halved(sample)
        if smaller is None:
            return None
        sample = smaller
    return sample


def halved(sample: Sample) -> Sample | None:
    """Return the sample with the largest of its counts halved; None when they are one."""
    best: tuple[int, str, int] | None = None
    for name in FAMILIES[sample.family].counts:
        value = sample.parameters[name]
        # Of a shape the first axis alone is a count, and the second if the first is one.
        parts = value if isinstance(value, tuple) else (value,)
        for place, part in enumerate(parts[:2]):
            if isinstance(part, int) and part > 1 and (best is None or part > best[0]):
                best = (part, name, place)
                break
    if best is None:
        return None
    part, name, place = best
    value = sample.parameters[name]
    if isinstance(value, tuple):
        made = tuple(part // 2 if i == place else v for i, v in enumerate(value))
        assert prod(made) < prod(value)
        return replace(sample, parameters={**sample.parameters, name: made})
    return replace(sample, parameters={**sample.parameters, name: part // 2})
