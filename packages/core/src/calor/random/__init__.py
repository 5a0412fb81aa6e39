"""Random numbers: counter-based, so the same bits on every device.

Bits come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011). Each function draws from an explicit ``key``, or from the global generator that
:func:`seed` sets. A key gives the same numbers at each use; :func:`split` makes independent ones.
The generator's counter is a tensor, so a jitted function that draws reads and advances it like any
state.
"""

from typing import TYPE_CHECKING

from calor.late import RANDOM, imported
from calor.random.distributions import (
    bernoulli,
    categorical,
    exponential,
    gumbel,
    integers,
    normal,
    truncated_normal,
    uniform,
)
from calor.random.generator import (
    Generator,
    bits,
    default_generator,
    key,
    seed,
    split,
)
from calor.random.orders import (
    choice,
    permutation,
    shuffle,
)

__all__ = [
    "Generator",
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "default_generator",
    "exponential",
    "gumbel",
    "integers",
    "key",
    "normal",
    "permutation",
    "seed",
    "shuffle",
    "split",
    "truncated_normal",
    "uniform",
]

if TYPE_CHECKING:
    from calor_numerics.random import *  # noqa: F403
else:
    # Distributions that few programs draw from are imported when they are named.
    def __getattr__(name: str) -> object:
        if name not in RANDOM:
            raise AttributeError(f"module 'calor.random' has no attribute {name!r}")
        globals()[name] = imported(name, RANDOM, "calor.random")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *RANDOM})
