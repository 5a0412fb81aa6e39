"""Random numbers: counter-based, so the same bits on every device.

Bits come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011). Each function draws from an explicit ``key``, or from the global generator that
:func:`seed` sets. A key gives the same numbers at each use; :func:`split` makes independent ones.
The generator's counter is a tensor, so a jitted function that draws reads and advances it like any
state.
"""

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
