"""Probability distributions with the names and parameters of ``torch.distributions``."""

from calor.settings import NOT_NEGATIVE as _NOT_NEGATIVE
from calor.settings import check_constructors as _check_constructors
from calor_distributions.combined import Independent, MixtureSameFamily, TransformedDistribution
from calor_distributions.continuous import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from calor_distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    Poisson,
)
from calor_distributions.distribution import Distribution
from calor_distributions.divergence import kl_divergence, register_kl
from calor_distributions.gamma_family import Beta, Chi2, Dirichlet, Gamma, InverseGamma, StudentT
from calor_distributions.multivariate import MultivariateNormal
from calor_distributions.survival import Exponential, Pareto, Weibull
from calor_distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
)

__all__ = [
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "SigmoidTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "kl_divergence",
    "register_kl",
]

_check_constructors(
    [found for found in vars().values() if isinstance(found, type)],
    "calor_distributions.",
    {"reinterpreted_batch_ndims": _NOT_NEGATIVE, "Multinomial.total_count": _NOT_NEGATIVE},
)
