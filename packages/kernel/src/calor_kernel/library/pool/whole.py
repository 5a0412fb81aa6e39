"""The gradient of extremes of whole images on a CPU: zeros, and one element of each image.

Requirements: the result is written once, in vectors, and elements are not compared.
"""

from __future__ import annotations

from typing import Final

from calor.dtypes import int64
from calor_kernel import language as kl
from calor_kernel.contract.choices import greatest
from calor_kernel.contract.info import DeviceInfo
from calor_kernel.contract.launching import Bound, Effort, Grid, Place, launch, operand
from calor_kernel.contract.work import Launch, Output, View
from calor_kernel.library.conv.vector_tiles import below
from calor_kernel.library.copying import as_bits
from calor_kernel.library.pool.problem import Windows, leading

# Elements of a cube.
_GRAIN: Final = 1 << 15


@kl.kernel
def spread_gradient(
    g: kl.In,
    chosen: kl.In,
    c: kl.Out,
    planes: kl.Size,
    places: kl.Size,
    step: kl.Stride,
    turns: kl.Size,
    *,
    lanes: int,
) -> None:
    """Write ``turns`` planes from x on: zeros, and g in the chosen place. Elements are bits."""
    first = kl.cube_position(0) * turns
    zero = kl.constant(0, c.dtype, lanes)
    whole = places // lanes * lanes
    for plane in kl.loop_range(first, kl.min(first + turns, planes)):
        to = plane * places
        for i in kl.loop_range(0, whole, lanes):
            c.store(to + i, zero)
        if whole < places:
            c.store(to + whole, zero, mask=below(places - whole, lanes))
        c[to + chosen[plane].to(to.dtype)] = g[plane * step]


def spread(windows: Windows, g: View, chosen: Place, info: DeviceInfo) -> Launch | None:
    """Return the launch that writes the gradient; None for cubes of units, and strided planes."""
    leads = leading((g,), len(windows.lead))
    if info.max_units > 1 or len(leads) > 1:
        return None
    bits = as_bits(g, info)
    size = int(bits.dtype.itemsize)
    planes = windows.windows
    turns = greatest(1, _GRAIN // windows.places)
    return launch(
        spread_gradient,
        Grid.line(-(-planes // turns)),
        Effort("spread_gradient", windows.elements, windows.elements * size),
        g=operand(0, bits),
        chosen=Bound(chosen, int64),
        c=Bound(Output(), bits.dtype),
        planes=planes,
        places=windows.places,
        step=leads[0].strides[0] if leads else 0,
        turns=turns,
        lanes=max(1, info.vector_bytes // size),
    )
