"""Functions that NumPy, SciPy and PyTorch have and few programs use, as ``calor.NAME``.

``calor.signal`` is the package ``signal`` in here, and the distributions in ``random`` are those of
``calor.random``. All are compositions of functions of calor, so they run on every device and have
gradients. Each module is imported when one of its functions is named.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calor_numerics.arranging import array_split as array_split
    from calor_numerics.arranging import atleast_1d as atleast_1d
    from calor_numerics.arranging import atleast_2d as atleast_2d
    from calor_numerics.arranging import atleast_3d as atleast_3d
    from calor_numerics.arranging import block_diag as block_diag
    from calor_numerics.arranging import column_stack as column_stack
    from calor_numerics.arranging import dsplit as dsplit
    from calor_numerics.arranging import dstack as dstack
    from calor_numerics.arranging import fliplr as fliplr
    from calor_numerics.arranging import flipud as flipud
    from calor_numerics.arranging import hsplit as hsplit
    from calor_numerics.arranging import hstack as hstack
    from calor_numerics.arranging import rot90 as rot90
    from calor_numerics.arranging import vsplit as vsplit
    from calor_numerics.arranging import vstack as vstack
    from calor_numerics.averages import average as average
    from calor_numerics.averages import nanmedian as nanmedian
    from calor_numerics.averages import nanpercentile as nanpercentile
    from calor_numerics.averages import nanquantile as nanquantile
    from calor_numerics.averages import percentile as percentile
    from calor_numerics.averages import ptp as ptp
    from calor_numerics.calculus import corrcoef as corrcoef
    from calor_numerics.calculus import cov as cov
    from calor_numerics.calculus import cumulative_trapezoid as cumulative_trapezoid
    from calor_numerics.calculus import gradient as gradient
    from calor_numerics.calculus import interp as interp
    from calor_numerics.calculus import trapezoid as trapezoid
    from calor_numerics.complex_numbers import angle as angle
    from calor_numerics.complex_numbers import complex as complex
    from calor_numerics.complex_numbers import iscomplex as iscomplex
    from calor_numerics.complex_numbers import isreal as isreal
    from calor_numerics.complex_numbers import polar as polar
    from calor_numerics.diagonals import diag as diag
    from calor_numerics.diagonals import diag_embed as diag_embed
    from calor_numerics.diagonals import diag_indices as diag_indices
    from calor_numerics.diagonals import diagonal as diagonal
    from calor_numerics.diagonals import diagonal_scatter as diagonal_scatter
    from calor_numerics.diagonals import fill_diagonal as fill_diagonal
    from calor_numerics.diagonals import tri as tri
    from calor_numerics.diagonals import tril_indices as tril_indices
    from calor_numerics.diagonals import triu_indices as triu_indices
    from calor_numerics.editing import block as block
    from calor_numerics.editing import choose as choose
    from calor_numerics.editing import delete as delete
    from calor_numerics.editing import insert as insert
    from calor_numerics.editing import ix_ as ix_
    from calor_numerics.editing import packbits as packbits
    from calor_numerics.editing import select as select
    from calor_numerics.editing import unpackbits as unpackbits
    from calor_numerics.filters import convolve as convolve
    from calor_numerics.filters import correlate as correlate
    from calor_numerics.filters import unwrap as unwrap
    from calor_numerics.grids import geomspace as geomspace
    from calor_numerics.grids import indices as indices
    from calor_numerics.grids import logspace as logspace
    from calor_numerics.grids import ravel_multi_index as ravel_multi_index
    from calor_numerics.grids import unravel_index as unravel_index
    from calor_numerics.grids import vander as vander
    from calor_numerics.histograms import digitize as digitize
    from calor_numerics.histograms import histogram as histogram
    from calor_numerics.histograms import histogram_bin_edges as histogram_bin_edges
    from calor_numerics.histograms import histogramdd as histogramdd
    from calor_numerics.mapping import apply_along_axis as apply_along_axis
    from calor_numerics.nan_reductions import nanargmax as nanargmax
    from calor_numerics.nan_reductions import nanargmin as nanargmin
    from calor_numerics.nan_reductions import nanmax as nanmax
    from calor_numerics.nan_reductions import nanmean as nanmean
    from calor_numerics.nan_reductions import nanmin as nanmin
    from calor_numerics.nan_reductions import nanprod as nanprod
    from calor_numerics.nan_reductions import nanstd as nanstd
    from calor_numerics.nan_reductions import nansum as nansum
    from calor_numerics.nan_reductions import nanvar as nanvar
    from calor_numerics.numbers import bitwise_count as bitwise_count
    from calor_numerics.numbers import cbrt as cbrt
    from calor_numerics.numbers import deg2rad as deg2rad
    from calor_numerics.numbers import float_power as float_power
    from calor_numerics.numbers import fmax as fmax
    from calor_numerics.numbers import fmin as fmin
    from calor_numerics.numbers import frexp as frexp
    from calor_numerics.numbers import gcd as gcd
    from calor_numerics.numbers import isneginf as isneginf
    from calor_numerics.numbers import isposinf as isposinf
    from calor_numerics.numbers import lcm as lcm
    from calor_numerics.numbers import ldexp as ldexp
    from calor_numerics.numbers import modf as modf
    from calor_numerics.numbers import rad2deg as rad2deg
    from calor_numerics.order_statistics import argmedian as argmedian
    from calor_numerics.order_statistics import argpartition as argpartition
    from calor_numerics.order_statistics import cumulative_argmax as cumulative_argmax
    from calor_numerics.order_statistics import cumulative_argmin as cumulative_argmin
    from calor_numerics.order_statistics import kthvalue as kthvalue
    from calor_numerics.order_statistics import lexsort as lexsort
    from calor_numerics.order_statistics import mode as mode
    from calor_numerics.order_statistics import nanargmedian as nanargmedian
    from calor_numerics.order_statistics import partition as partition
    from calor_numerics.polynomials import polyadd as polyadd
    from calor_numerics.polynomials import polyder as polyder
    from calor_numerics.polynomials import polyint as polyint
    from calor_numerics.polynomials import polymul as polymul
    from calor_numerics.polynomials import polysub as polysub
    from calor_numerics.polynomials import polyval as polyval
    from calor_numerics.products import cartesian_prod as cartesian_prod
    from calor_numerics.products import cdist as cdist
    from calor_numerics.products import combinations as combinations
    from calor_numerics.products import dot as dot
    from calor_numerics.products import inner as inner
    from calor_numerics.products import kron as kron
    from calor_numerics.products import matvec as matvec
    from calor_numerics.products import outer as outer
    from calor_numerics.products import pdist as pdist
    from calor_numerics.products import vecmat as vecmat
    from calor_numerics.segments import segment_max as segment_max
    from calor_numerics.segments import segment_mean as segment_mean
    from calor_numerics.segments import segment_min as segment_min
    from calor_numerics.segments import segment_prod as segment_prod
    from calor_numerics.segments import segment_sum as segment_sum
    from calor_numerics.sequences import cumulative_logsumexp as cumulative_logsumexp
    from calor_numerics.sequences import unique_consecutive as unique_consecutive
    from calor_numerics.writing import index_update as index_update
    from calor_numerics.writing import masked_scatter as masked_scatter
    from calor_numerics.writing import put as put
else:
    from importlib import import_module

    from calor.late import LATE, imported

    _INSIDE = ("random", "signal")
    __all__ = [*_INSIDE, *(n for n, home in LATE.items() if home.startswith(f"{__name__}."))]

    def __getattr__(name: str) -> object:
        if name in _INSIDE:
            return import_module(f"{__name__}.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = imported(name, LATE, "calor")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
