"""Lowering of attention: from the three ops to the ways of this family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from calor_kernel.contract.work import Refusal, Request, Work
from calor_kernel.library.attention.bias_parts import bias_parts_of
from calor_kernel.library.attention.blueprints import Tiles, gradient_tiles
from calor_kernel.library.attention.cpu_launch import (
    bias_gradient_by_tiles,
    forward_by_tiles,
    gradients_by_tiles,
)
from calor_kernel.library.attention.mma_launch import (
    forward_by_fragments,
    gradients_by_fragments,
    suits,
)
from calor_kernel.library.attention.problem import Attention, attention_of
from calor_kernel.library.attention.simt_launch import (
    bias_gradient_by_teams,
    forward_by_teams,
    gradients_by_teams,
)


def attention(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of attention, the likeliest first."""
    problem = attention_of(request)
    if not problem.rows:
        return [Work(())]
    if request.info.max_units == 1:
        return [forward_by_tiles(problem, request)]
    works = [*forward_by_fragments(problem, request)] if suits(problem, request) else []
    if works and not request.candidates:
        return works
    return [*works, replace(forward_by_teams(problem, request), **_last(works))]


def gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradients of query, key and value, the likeliest first."""
    problem = attention_of(request, 3)
    tiles = _tiles(problem, request)
    if tiles is None:
        works = [*gradients_by_fragments(problem, request)] if suits(problem, request) else []
        if works and not request.candidates:
            return works
        return [*works, replace(gradients_by_teams(problem, request), **_last(works))]
    return [gradients_by_tiles(problem, tiles, request)]


def bias_gradient(request: Request) -> Sequence[Work] | Refusal:
    """Return the works of the gradient of the bias, the likeliest first."""
    problem = attention_of(request, 3)
    parts = bias_parts_of(request, problem)
    if not prod(parts.shape):
        return [Work(())]
    tiles = _tiles(problem, request)
    if tiles is None:
        return [bias_gradient_by_teams(problem, request, parts)]
    return [bias_gradient_by_tiles(problem, tiles, request, parts)]


def _last(works: Sequence[Work]) -> dict[str, Any]:
    """Return the name of the general way, if there are others beside it."""
    return {"variant": "teams", "group": 2} if works else {}


def _tiles(problem: Attention, request: Request) -> Tiles | None:
    """Return the register tiles of gradients if cubes have one unit and its memory holds them."""
    return gradient_tiles(problem, request.info) if request.info.max_units == 1 else None
