"""The first axis of volumes for kernels of images: a plane is an image.

Requirements: kernels of images read planes of volumes in place. The taps along the first axis are
channels of a sum; those that no plane has are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from calor_kernel import language as kl
from calor_kernel.language.declared import D, N

Seen = tuple[kl.Number, kl.Number, kl.Mask]
"""A volume, where a plane of it begins, and whether it exists."""


@dataclass(frozen=True, slots=True)
class Planes(Generic[N, D]):
    """The first axis of volumes, whose planes are images, and whose taps are channels of a sum.

    Tap j of output plane i, one of ``count``, reads plane ``i * step + j * move + start`` of
    ``size``. ``a``: the stride of these, ``c``: that of outputs.
    """

    count: kl.DivisorOf[D]
    step: kl.StrideOf[N]
    move: kl.StrideOf[N]
    start: kl.StrideOf[N]
    size: kl.SizeOf[N]
    a: kl.StrideOf[N]
    c: kl.StrideOf[N]

    @kl.helper
    def at(self: PlanesOnDevice, plane: kl.Number, tap: kl.Index) -> tuple[kl.Number, kl.Number]:
        """Return where the plane begins that a tap of an output plane reads, and if it exists."""
        place = plane * self.step + tap * self.move + self.start
        there = (place >= 0) & (place < self.size)
        return kl.select(there, place * self.a, 0), there

    @kl.helper
    def seen(self: PlanesOnDevice, image: kl.Number, tap: kl.Index) -> Seen:
        """Return the plane that a tap of an output plane reads."""
        volume, plane = self.count.divmod(image)
        begin, there = self.at(plane, tap)
        return volume, begin, there

    @kl.helper
    def made(self: PlanesOnDevice, image: kl.Number) -> Seen:
        """Return an output plane."""
        volume, plane = self.count.divmod(image)
        return volume, plane * self.c, True


PlanesOnDevice = Planes[kl.Number, kl.FastDivmod]
