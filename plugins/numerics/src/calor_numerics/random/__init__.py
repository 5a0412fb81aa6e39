"""Random numbers of further distributions, which are names of ``calor.random``."""

from calor_numerics.random.inverses import (
    cauchy,
    geometric,
    laplace,
    log_normal,
    logistic,
    pareto,
    student_t,
    weibull,
)
from calor_numerics.random.rejection import binomial, gamma, poisson
from calor_numerics.random.shares import beta, dirichlet, multinomial

__all__ = [
    "beta",
    "binomial",
    "cauchy",
    "dirichlet",
    "gamma",
    "geometric",
    "laplace",
    "log_normal",
    "logistic",
    "multinomial",
    "pareto",
    "poisson",
    "student_t",
    "weibull",
]
