"""The names of calor that are imported when they are first named, by the module that has them.

Requirements: importing calor stays quick, and `dir` lists what a distribution of ours would bring,
installed or not. Type checkers read the imports, programs the tables; a test holds the two against
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from calor.keywords import explain

TABLE: Final = {
    "calor.gguf_file": ("read_gguf",),
    "calor.persistence": ("load", "save"),
    "calor.profiling": ("profile",),
    "calor.safetensors_file": ("write_safetensors",),
    "calor.timing": ("timeit",),
    "calor.transforms.callback": ("callback",),
    "calor.transforms.custom_jvp": ("custom_jvp",),
    "calor.transforms.debugging": ("debug_nans",),
    "calor.transforms.jacobians": ("hessian", "jacfwd", "jacrev"),
    "calor.transforms.tuning": ("tune",),
    "calor.transforms.vmap": ("vmap",),
    "calor.weight_shards": ("read_safetensors",),
    "calor_numerics.arranging": (
        "array_split",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "column_stack",
        "dsplit",
        "dstack",
        "fliplr",
        "flipud",
        "hsplit",
        "hstack",
        "rot90",
        "vsplit",
        "vstack",
    ),
    "calor_numerics.averages": (
        "average",
        "nanmedian",
        "nanpercentile",
        "nanquantile",
        "percentile",
        "ptp",
    ),
    "calor_numerics.calculus": (
        "corrcoef",
        "cov",
        "cumulative_trapezoid",
        "gradient",
        "interp",
        "trapezoid",
    ),
    "calor_numerics.complex_numbers": ("angle", "complex", "iscomplex", "isreal", "polar"),
    "calor_numerics.diagonals": (
        "diag",
        "diag_embed",
        "diag_indices",
        "diagonal",
        "diagonal_scatter",
        "fill_diagonal",
        "tri",
        "tril_indices",
        "triu_indices",
    ),
    "calor_numerics.editing": (
        "block",
        "choose",
        "delete",
        "insert",
        "ix_",
        "packbits",
        "select",
        "unpackbits",
    ),
    "calor_numerics.filters": ("convolve", "correlate", "unwrap"),
    "calor_numerics.grids": (
        "geomspace",
        "indices",
        "logspace",
        "ravel_multi_index",
        "unravel_index",
        "vander",
    ),
    "calor_numerics.histograms": ("digitize", "histogram", "histogram_bin_edges", "histogramdd"),
    "calor_numerics.mapping": ("apply_along_axis",),
    "calor_numerics.nan_reductions": (
        "nanargmax",
        "nanargmin",
        "nanmax",
        "nanmean",
        "nanmin",
        "nanprod",
        "nanstd",
        "nansum",
        "nanvar",
    ),
    "calor_numerics.numbers": (
        "bitwise_count",
        "cbrt",
        "deg2rad",
        "float_power",
        "fmax",
        "fmin",
        "frexp",
        "gcd",
        "isneginf",
        "isposinf",
        "lcm",
        "ldexp",
        "modf",
        "rad2deg",
    ),
    "calor_numerics.order_statistics": (
        "argmedian",
        "argpartition",
        "cumulative_argmax",
        "cumulative_argmin",
        "kthvalue",
        "lexsort",
        "mode",
        "nanargmedian",
        "partition",
    ),
    "calor_numerics.polynomials": (
        "polyadd",
        "polyder",
        "polyint",
        "polymul",
        "polysub",
        "polyval",
    ),
    "calor_numerics.products": (
        "cartesian_prod",
        "cdist",
        "combinations",
        "dot",
        "inner",
        "kron",
        "matvec",
        "outer",
        "pdist",
        "vecmat",
    ),
    "calor_numerics.segments": (
        "segment_max",
        "segment_mean",
        "segment_min",
        "segment_prod",
        "segment_sum",
    ),
    "calor_numerics.sequences": ("cumulative_logsumexp", "unique_consecutive"),
    "calor_numerics.writing": ("index_update", "masked_scatter", "put"),
}
# Names of calor.random.
RANDOM_TABLE: Final = {
    "calor_numerics.random.inverses": (
        "cauchy",
        "geometric",
        "laplace",
        "log_normal",
        "logistic",
        "pareto",
        "student_t",
        "weibull",
    ),
    "calor_numerics.random.rejection": ("binomial", "gamma", "poisson"),
    "calor_numerics.random.shares": ("beta", "dirichlet", "multinomial"),
}


def _by_name(table: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: module for module, names in table.items() for name in names}


LATE: Final = _by_name(TABLE)
RANDOM: Final = _by_name(RANDOM_TABLE)


def imported(name: str, homes: Mapping[str, str], asker: str) -> Any:
    """Return what a late name of a module stands for; ExtensionError says what to install."""
    from calor.doors import inside  # Most programs name none of these.

    home = vars(inside(homes[name], f"{asker}.{name}"))
    # These functions are known here for the first time, so their errors are completed now.
    explain(home, "calor_numerics.", every=True)
    return home[name]


if TYPE_CHECKING:
    from calor.gguf_file import read_gguf as read_gguf
    from calor.persistence import load as load
    from calor.persistence import save as save
    from calor.profiling import profile as profile
    from calor.safetensors_file import write_safetensors as write_safetensors
    from calor.timing import timeit as timeit
    from calor.transforms.callback import callback as callback
    from calor.transforms.custom_jvp import custom_jvp as custom_jvp
    from calor.transforms.debugging import debug_nans as debug_nans
    from calor.transforms.jacobians import hessian as hessian
    from calor.transforms.jacobians import jacfwd as jacfwd
    from calor.transforms.jacobians import jacrev as jacrev
    from calor.transforms.tuning import tune as tune
    from calor.transforms.vmap import vmap as vmap
    from calor.weight_shards import read_safetensors as read_safetensors
    from calor_numerics import *  # noqa: F403
