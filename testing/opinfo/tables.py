"""All entries of OpInfo that have a counterpart, and those whose values are random."""

from __future__ import annotations

from . import (
    algebra,
    casts,
    elementwise,
    factors,
    indexing,
    more_networks,
    networks,
    reductions,
    samples,
    shapes,
    signals,
    special_functions,
)
from .names import Table

_PARTS = (elementwise, casts, reductions, shapes, indexing, algebra, factors, signals,
          special_functions, networks, more_networks, samples)  # fmt: skip
TABLE: Table = {name: call for part in _PARTS for name, call in part.TABLE.items()}
RANDOM = samples.RANDOM | more_networks.RANDOM
