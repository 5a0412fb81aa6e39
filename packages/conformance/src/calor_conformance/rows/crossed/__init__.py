"""Crossed rows: ops at every pair of lengths, orders, positions of specials, attributes and dtypes.

A fixed row finds what its author thought of. A crossed row names factors and their values; a
covering array chooses scenarios such that every two values of different factors meet.
"""

from __future__ import annotations

from . import (
    chains,
    couples,
    elementwise,
    forms,
    fused,
    indexing,
    joining,
    movement,
    normalizing,
    products,
    programs,
    reductions,
    scans,
    sources,
    transforms,
    windows,
)
from .cubes import cubes
from .language import Subject

SUBJECTS: list[Subject] = [
    *elementwise.SUBJECTS,
    *cubes(reductions.SUBJECTS),
    *cubes(scans.SUBJECTS),
    *cubes(s for s in movement.SUBJECTS if s.op not in ("permute", "bitcast")),
    *cubes(joining.SUBJECTS),
    *cubes(indexing.SUBJECTS),
    *cubes(normalizing.SUBJECTS),
    *reductions.SUBJECTS,
    *scans.SUBJECTS,
    *movement.SUBJECTS,
    *joining.SUBJECTS,
    *indexing.SUBJECTS,
    *products.SUBJECTS,
    *fused.SUBJECTS,
    *windows.SUBJECTS,
    *normalizing.SUBJECTS,
    *sources.SUBJECTS,
    *transforms.SUBJECTS,
    *chains.SUBJECTS,
    *couples.SUBJECTS,
    *programs.SUBJECTS,
    *forms.SUBJECTS,
]
