"""The names of calor that are imported when they are first named, by the module that has them.

Requirements: importing calor stays quick. Type checkers read the imports, programs the table; a
test holds the two against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

TABLE: Final = {
    "gguf_file": ("read_gguf",),
    "numerics.arranging": (
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
    "numerics.averages": (
        "average",
        "nanmedian",
        "nanpercentile",
        "nanquantile",
        "percentile",
        "ptp",
    ),
    "numerics.calculus": (
        "corrcoef",
        "cov",
        "cumulative_trapezoid",
        "gradient",
        "interp",
        "trapezoid",
    ),
    "numerics.complex_numbers": ("angle", "complex", "iscomplex", "isreal", "polar"),
    "numerics.diagonals": (
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
    "numerics.editing": (
        "block",
        "choose",
        "delete",
        "insert",
        "ix_",
        "packbits",
        "select",
        "unpackbits",
    ),
    "numerics.filters": ("convolve", "correlate", "unwrap"),
    "numerics.grids": (
        "geomspace",
        "indices",
        "logspace",
        "ravel_multi_index",
        "unravel_index",
        "vander",
    ),
    "numerics.histograms": ("digitize", "histogram", "histogram_bin_edges", "histogramdd"),
    "numerics.mapping": ("apply_along_axis",),
    "numerics.nan_reductions": (
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
    "numerics.numbers": (
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
    "numerics.order_statistics": (
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
    "numerics.polynomials": ("polyadd", "polyder", "polyint", "polymul", "polysub", "polyval"),
    "numerics.products": (
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
    "numerics.segments": (
        "segment_max",
        "segment_mean",
        "segment_min",
        "segment_prod",
        "segment_sum",
    ),
    "numerics.sequences": ("cumulative_logsumexp", "unique_consecutive"),
    "numerics.writing": ("index_update", "masked_scatter", "put"),
    "persistence": ("load", "save"),
    "profiling": ("profile",),
    "safetensors_file": ("write_safetensors",),
    "timing": ("timeit",),
    "transforms.callback": ("callback",),
    "transforms.custom_jvp": ("custom_jvp",),
    "transforms.debugging": ("debug_nans",),
    "transforms.jacobians": ("hessian", "jacfwd", "jacrev"),
    "transforms.tuning": ("tune",),
    "transforms.vmap": ("vmap",),
    "weight_shards": ("read_safetensors",),
}
LATE: Final = {name: module for module, names in TABLE.items() for name in names}

if TYPE_CHECKING:
    from calor.gguf_file import read_gguf as read_gguf
    from calor.numerics.arranging import array_split as array_split
    from calor.numerics.arranging import atleast_1d as atleast_1d
    from calor.numerics.arranging import atleast_2d as atleast_2d
    from calor.numerics.arranging import atleast_3d as atleast_3d
    from calor.numerics.arranging import block_diag as block_diag
    from calor.numerics.arranging import column_stack as column_stack
    from calor.numerics.arranging import dsplit as dsplit
    from calor.numerics.arranging import dstack as dstack
    from calor.numerics.arranging import fliplr as fliplr
    from calor.numerics.arranging import flipud as flipud
    from calor.numerics.arranging import hsplit as hsplit
    from calor.numerics.arranging import hstack as hstack
    from calor.numerics.arranging import rot90 as rot90
    from calor.numerics.arranging import vsplit as vsplit
    from calor.numerics.arranging import vstack as vstack
    from calor.numerics.averages import average as average
    from calor.numerics.averages import nanmedian as nanmedian
    from calor.numerics.averages import nanpercentile as nanpercentile
    from calor.numerics.averages import nanquantile as nanquantile
    from calor.numerics.averages import percentile as percentile
    from calor.numerics.averages import ptp as ptp
    from calor.numerics.calculus import corrcoef as corrcoef
    from calor.numerics.calculus import cov as cov
    from calor.numerics.calculus import cumulative_trapezoid as cumulative_trapezoid
    from calor.numerics.calculus import gradient as gradient
    from calor.numerics.calculus import interp as interp
    from calor.numerics.calculus import trapezoid as trapezoid
    from calor.numerics.complex_numbers import angle as angle
    from calor.numerics.complex_numbers import complex as complex
    from calor.numerics.complex_numbers import iscomplex as iscomplex
    from calor.numerics.complex_numbers import isreal as isreal
    from calor.numerics.complex_numbers import polar as polar
    from calor.numerics.diagonals import diag as diag
    from calor.numerics.diagonals import diag_embed as diag_embed
    from calor.numerics.diagonals import diag_indices as diag_indices
    from calor.numerics.diagonals import diagonal as diagonal
    from calor.numerics.diagonals import diagonal_scatter as diagonal_scatter
    from calor.numerics.diagonals import fill_diagonal as fill_diagonal
    from calor.numerics.diagonals import tri as tri
    from calor.numerics.diagonals import tril_indices as tril_indices
    from calor.numerics.diagonals import triu_indices as triu_indices
    from calor.numerics.editing import block as block
    from calor.numerics.editing import choose as choose
    from calor.numerics.editing import delete as delete
    from calor.numerics.editing import insert as insert
    from calor.numerics.editing import ix_ as ix_
    from calor.numerics.editing import packbits as packbits
    from calor.numerics.editing import select as select
    from calor.numerics.editing import unpackbits as unpackbits
    from calor.numerics.filters import convolve as convolve
    from calor.numerics.filters import correlate as correlate
    from calor.numerics.filters import unwrap as unwrap
    from calor.numerics.grids import geomspace as geomspace
    from calor.numerics.grids import indices as indices
    from calor.numerics.grids import logspace as logspace
    from calor.numerics.grids import ravel_multi_index as ravel_multi_index
    from calor.numerics.grids import unravel_index as unravel_index
    from calor.numerics.grids import vander as vander
    from calor.numerics.histograms import digitize as digitize
    from calor.numerics.histograms import histogram as histogram
    from calor.numerics.histograms import histogram_bin_edges as histogram_bin_edges
    from calor.numerics.histograms import histogramdd as histogramdd
    from calor.numerics.mapping import apply_along_axis as apply_along_axis
    from calor.numerics.nan_reductions import nanargmax as nanargmax
    from calor.numerics.nan_reductions import nanargmin as nanargmin
    from calor.numerics.nan_reductions import nanmax as nanmax
    from calor.numerics.nan_reductions import nanmean as nanmean
    from calor.numerics.nan_reductions import nanmin as nanmin
    from calor.numerics.nan_reductions import nanprod as nanprod
    from calor.numerics.nan_reductions import nanstd as nanstd
    from calor.numerics.nan_reductions import nansum as nansum
    from calor.numerics.nan_reductions import nanvar as nanvar
    from calor.numerics.numbers import bitwise_count as bitwise_count
    from calor.numerics.numbers import cbrt as cbrt
    from calor.numerics.numbers import deg2rad as deg2rad
    from calor.numerics.numbers import float_power as float_power
    from calor.numerics.numbers import fmax as fmax
    from calor.numerics.numbers import fmin as fmin
    from calor.numerics.numbers import frexp as frexp
    from calor.numerics.numbers import gcd as gcd
    from calor.numerics.numbers import isneginf as isneginf
    from calor.numerics.numbers import isposinf as isposinf
    from calor.numerics.numbers import lcm as lcm
    from calor.numerics.numbers import ldexp as ldexp
    from calor.numerics.numbers import modf as modf
    from calor.numerics.numbers import rad2deg as rad2deg
    from calor.numerics.order_statistics import argmedian as argmedian
    from calor.numerics.order_statistics import argpartition as argpartition
    from calor.numerics.order_statistics import cumulative_argmax as cumulative_argmax
    from calor.numerics.order_statistics import cumulative_argmin as cumulative_argmin
    from calor.numerics.order_statistics import kthvalue as kthvalue
    from calor.numerics.order_statistics import lexsort as lexsort
    from calor.numerics.order_statistics import mode as mode
    from calor.numerics.order_statistics import nanargmedian as nanargmedian
    from calor.numerics.order_statistics import partition as partition
    from calor.numerics.polynomials import polyadd as polyadd
    from calor.numerics.polynomials import polyder as polyder
    from calor.numerics.polynomials import polyint as polyint
    from calor.numerics.polynomials import polymul as polymul
    from calor.numerics.polynomials import polysub as polysub
    from calor.numerics.polynomials import polyval as polyval
    from calor.numerics.products import cartesian_prod as cartesian_prod
    from calor.numerics.products import cdist as cdist
    from calor.numerics.products import combinations as combinations
    from calor.numerics.products import dot as dot
    from calor.numerics.products import inner as inner
    from calor.numerics.products import kron as kron
    from calor.numerics.products import matvec as matvec
    from calor.numerics.products import outer as outer
    from calor.numerics.products import pdist as pdist
    from calor.numerics.products import vecmat as vecmat
    from calor.numerics.segments import segment_max as segment_max
    from calor.numerics.segments import segment_mean as segment_mean
    from calor.numerics.segments import segment_min as segment_min
    from calor.numerics.segments import segment_prod as segment_prod
    from calor.numerics.segments import segment_sum as segment_sum
    from calor.numerics.sequences import cumulative_logsumexp as cumulative_logsumexp
    from calor.numerics.sequences import unique_consecutive as unique_consecutive
    from calor.numerics.writing import index_update as index_update
    from calor.numerics.writing import masked_scatter as masked_scatter
    from calor.numerics.writing import put as put
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
