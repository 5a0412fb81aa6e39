"""Axes, operands, indices, arrays and modes that are taken wrongly in one form are found."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calor
from calor.functions import operands
from calor.local import local
from calor.plugins.discovery import get_device
from calor.recording.records import no_grad
from calor.transforms import grad
from calor_conformance.checks.base import Check, Place
from calor_conformance.checks.broadcast_operands import broadcast_operands
from calor_conformance.checks.ended_work import ended_work
from calor_conformance.checks.evaluated_modules import evaluated_modules
from calor_conformance.checks.host_arrays import host_arrays
from calor_conformance.checks.index_dtypes import index_dtypes
from calor_conformance.checks.near_patterns import near_patterns
from calor_conformance.checks.orders_of_axes import orders_of_axes
from calor_conformance.checks.results_of_transforms import results_of_transforms
from calor_conformance.checks.uses_again import uses_again
from calor_nn import Dropout

CHECKS = {
    c.subject: c
    for made in (
        broadcast_operands,
        ended_work,
        evaluated_modules,
        host_arrays,
        index_dtypes,
        near_patterns,
        orders_of_axes,
        results_of_transforms,
        uses_again,
    )
    for c in made()
}
DIAGONAL, SLICE, HYPOT = calor.diagonal, calor.dynamic_slice, calor.hypot
ASARRAY, LEAVE, DROP = calor.asarray, no_grad.__exit__, Dropout.forward


def in_order(x: Any, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Forget which of the two axes was named first."""
    first, second = sorted(a % x.ndim for a in (axis1, axis2))
    return DIAGONAL(x, offset=offset, axis1=first, axis2=second)


@functools.wraps(HYPOT)
def of_one_rank(x1: Any, x2: Any, /) -> Any:
    """Line up the first axes of the shorter shape, where they fit."""
    if x2.ndim > x1.ndim > 0 and x1.shape[0] == x2.shape[0]:
        x1 = calor.reshape(x1, (*x1.shape, *(1,) * (x2.ndim - x1.ndim)))
    return HYPOT(x1, x2 * 1 if x1.ndim == x2.ndim else x2 + 1)


def in_bytes(x: Any, starts: Any, sizes: Any) -> Any:
    """Take the bits of an unsigned start as those of a signed one."""
    return SLICE(x, starts.view("int8") if starts.dtype.name == "uint8" else starts, sizes)


def in_memory_order(data: Any, **options: Any) -> Any:
    """Take the bytes of an array as they stand, whatever its axes."""
    if isinstance(data, np.ndarray) and not data.flags.c_contiguous:
        data = np.frombuffer(data.tobytes("A"), data.dtype).reshape(data.shape)
    return ASARRAY(data, **options)


def kept(self: Any, *error: Any) -> None:
    """Leave a mode only if its block ends well."""
    if not error or error[0] is None:
        LEAVE(self, *error)


def cast_for_good(leaf: Any, low: Any) -> Any:
    """Keep a cast of a tensor whatever is written to it."""
    key = id(leaf), low, local.grad_enabled, leaf._record
    if key not in CASTS:
        CASTS[key] = leaf, operands.e.cast(leaf, dtype=low)
    return CASTS[key][1]


CASTS: dict[Any, Any] = {}


def drawing(self: Any, x: Any) -> Any:
    """Draw a mask that nobody uses."""
    calor.random.uniform((2,)).numpy()
    return DROP(self, x)


def cut_off(value: Any, leaves: Any) -> Any:
    """Take from aux what others differentiate, too."""
    return value.detach() if isinstance(value, calor.Tensor) else value


FAULTS: list[tuple[str, Any, str, Callable[..., Any], str]] = [
    ("orders-of-axes", calor, "diagonal", in_order, "diagonal of"),
    ("broadcast-operands", calor, "hypot", of_one_rank, "hypot of"),
    ("index-dtypes", calor, "dynamic_slice", in_bytes, "dynamic_slice of"),
    ("host-arrays", calor, "asarray", in_memory_order, "by columns|backwards|second|field"),
    ("ended-work", no_grad, "__exit__", kept, "gradients is False"),
    ("uses-again", operands, "_cast_once", cast_for_good, "of a new tensor"),
    ("calor_nn.evaluated-modules", Dropout, "forward", drawing, "draws random numbers"),
    ("aux", grad, "strip", cut_off, "the gradient of the aux"),
]


def ask(check: Check, *seeds: int) -> None:
    device = get_device("numpy")
    with calor.device("numpy"):
        for seed in seeds:
            check.run(Place(device, device, seed))


@pytest.mark.parametrize(("check", "owner", "name", "fault", "said"), FAULTS)
def test_it_is_named(
    check: str,
    owner: Any,
    name: str,
    fault: Callable[..., Any],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, name, fault)
    before = local.grad_enabled
    try:
        with pytest.raises((AssertionError, calor.errors.CalorError), match=said):
            ask(CHECKS[check], *range(4))
    finally:
        local.grad_enabled = before


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_what_is_right_passes(name: str) -> None:
    ask(CHECKS[name], 11)
