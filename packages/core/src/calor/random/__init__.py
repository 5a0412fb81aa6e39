"""Random numbers: counter-based, so the same bits on every device.

Bits come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011). Each function draws from an explicit ``key``, or from the global generator that
:func:`seed` sets. A key gives the same numbers at each use; :func:`split` makes independent ones.
The generator's counter is a tensor, so a jitted function that draws reads and advances it like any
state.
"""

from typing import TYPE_CHECKING

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
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "default_generator",
    "dirichlet",
    "exponential",
    "gamma",
    "geometric",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "log_normal",
    "logistic",
    "multinomial",
    "normal",
    "pareto",
    "permutation",
    "poisson",
    "seed",
    "shuffle",
    "split",
    "student_t",
    "truncated_normal",
    "uniform",
    "weibull",
]

if TYPE_CHECKING:
    from calor.random.inverses import cauchy as cauchy
    from calor.random.inverses import geometric as geometric
    from calor.random.inverses import laplace as laplace
    from calor.random.inverses import log_normal as log_normal
    from calor.random.inverses import logistic as logistic
    from calor.random.inverses import pareto as pareto
    from calor.random.inverses import student_t as student_t
    from calor.random.inverses import weibull as weibull
    from calor.random.rejection import binomial as binomial
    from calor.random.rejection import gamma as gamma
    from calor.random.rejection import poisson as poisson
    from calor.random.shares import beta as beta
    from calor.random.shares import dirichlet as dirichlet
    from calor.random.shares import multinomial as multinomial
else:
    # Distributions that few programs draw from are imported when they are named.
    _LATE = {
        "cauchy": "inverses",
        "geometric": "inverses",
        "laplace": "inverses",
        "log_normal": "inverses",
        "logistic": "inverses",
        "pareto": "inverses",
        "student_t": "inverses",
        "weibull": "inverses",
        "binomial": "rejection",
        "gamma": "rejection",
        "poisson": "rejection",
        "beta": "shares",
        "dirichlet": "shares",
        "multinomial": "shares",
    }

    def __getattr__(name: str) -> object:
        if name not in _LATE:
            raise AttributeError(f"module 'calor.random' has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = getattr(import_module(f"calor.random.{_LATE[name]}"), name)
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATE})
