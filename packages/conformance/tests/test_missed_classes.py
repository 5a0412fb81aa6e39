"""Checks of constants, kept values, branches, carries, settings, passes, holders, leaks, entrances.

Each passes on the reference, and fails where one rule is broken that it is about.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import calor
from calor.functions import creation
from calor.recording.journal import Journal
from calor.sizes import Trace
from calor.transforms import (
    binding,
    control_gradients,
    control_tangents,
    simplify,
    simplify_rules,
    state,
)
from reference_failures import failures

MODULES = (
    "jit/constant-operands-sub", "jit/constant-numbers-add", "jit/constant-indices",
    "jit/constant-integers-multiply", "state/one-of-several-kept-weights",
    "sizes/branches-of-user-code", "transforms/carries-of-several-dtypes",
    "history/replaced-settings", "state/changed-between-passes", "state/holders-of-values",
    "memory/fresh-objects-die", "transfers/entrances-of-host-arrays",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


def rule(monkeypatch: pytest.MonkeyPatch, name: str, made: Any) -> None:
    """Replace the rules by which nodes of an op are simplified."""
    rules = MappingProxyType({**simplify_rules.RULES, name: (made,)})
    monkeypatch.setattr(simplify_rules, "RULES", rules)
    monkeypatch.setattr(simplify, "RULES", rules)


def test_a_sum_with_zero_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(draft: Any, step: Any, out: Any) -> Any:
        a, b = step.inputs
        zero = simplify_rules._is_number(draft, b, 0)
        return simplify_rules._same(draft, a, out) if zero else None

    rule(monkeypatch, "add", without)
    assert failures("jit/constant-numbers-add", 4)


def test_a_start_beyond_the_ends_that_is_not_moved_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = simplify_rules._dynamic_slice

    def moved(draft: Any, step: Any, out: Any) -> Any:
        made = right(draft, step, out)
        if made is None or isinstance(made, int):
            return made
        # A start beyond the end is taken for the first place.
        known = draft.small(step.inputs[1])
        starts, stops = made.attributes["starts"], made.attributes["stops"]
        first = tuple(s if k <= s else 0 for k, s in zip(known, starts, strict=True))
        lasts = tuple(b - a + f for a, b, f in zip(starts, stops, first, strict=True))
        return made._replace(attributes={**made.attributes, "starts": first, "stops": lasts})

    rule(monkeypatch, "dynamic_slice", moved)
    assert failures("jit/constant-indices")


def test_a_product_of_constants_in_the_wrong_place_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def swapped(draft: Any, step: Any, out: Any) -> Any:
        a, b = step.inputs
        known = draft.small(a) is not None and draft.small(b) is None
        return step._replace(inputs=(b, a)) if known else None

    rule(monkeypatch, "sub", swapped)
    assert failures("jit/constant-operands-sub")


@pytest.mark.parametrize("relation", ["<0", "<=0", "==0", "!=0", ">=0", ">0"])
def test_a_guard_of_sizes_that_is_missing_is_found(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Trace.guard
    other = {"<0": "<=0", ">0": ">=0"}.get(relation)

    def guard(self: Any, condition: str, size: Any) -> None:
        if not condition.endswith(relation) or (other and condition.endswith(other)):
            right(self, condition, size)

    monkeypatch.setattr(Trace, "guard", guard)
    assert failures("sizes/branches-of-user-code", 8)


def first_alone(right: Callable[[Any], list[int]]) -> Callable[[Any], list[int]]:
    """Count places among inexact values only up to the first that is not."""

    def found(values: Any) -> list[int]:
        places = right(values)
        return [p for n, p in enumerate(places) if p == n or n == 0]

    return found


def test_a_part_of_a_carry_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = first_alone(control_gradients.inexact)
    monkeypatch.setattr(control_gradients, "inexact", broken)
    monkeypatch.setattr(control_tangents, "inexact", broken)
    assert failures("transforms/carries-of-several-dtypes")


def test_arrays_that_are_equal_by_their_ends_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = state.Static.__eq__

    def equal(self: Any, other: Any) -> bool:
        if isinstance(self.value, np.ndarray) and isinstance(other.value, np.ndarray):
            return repr(self.value) == repr(other.value)
        return right(self, other)

    monkeypatch.setattr(state.Static, "__eq__", equal)
    assert failures("history/replaced-settings")


@pytest.mark.parametrize("kind", [np.ndarray, float, str, tuple, list, dict, calor.DType])
def test_settings_that_are_equal_by_their_type_are_found(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = state.Static.__eq__

    def equal(self: Any, other: Any) -> bool:
        alike = type(self.value) is type(other.value) and isinstance(self.value, kind)
        return alike or right(self, other)

    monkeypatch.setattr(state.Static, "__eq__", equal)
    assert failures("history/replaced-settings", 6)


def test_a_recomputation_that_draws_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def rewound(self: Journal) -> Iterator[None]:
        yield

    monkeypatch.setattr(Journal, "rewound", rewound)
    assert failures("state/changed-between-passes")


def test_changes_after_a_pass_that_are_not_noted_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Journal, "watch", lambda self: None)
    assert failures("state/changed-between-passes")


def test_memory_of_another_holder_that_is_written_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "_SOLE", binding._SOLE + 1)
    assert failures("state/holders-of-values", 4)


def test_an_argument_of_another_holder_that_is_written_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binding, "_owners", lambda tensor: binding._OWNED)
    assert failures("state/holders-of-values", 4)


def test_objects_that_a_program_keeps_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "_OTHERS", 1000)
    assert failures("memory/fresh-objects-die")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a: a.view(a.dtype.newbyteorder("=")) if not a.dtype.isnative else a,
        lambda a: abs_strides(a), lambda a: np.ravel(a, "K").reshape(a.shape),
    ],
    ids=["bytes", "negative strides", "order of memory"],
)  # fmt: skip
def test_a_layout_that_is_not_read_is_found(
    wrong: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = creation.host_array

    def host_array(obj: Any, dtype: Any) -> Any:
        return right(wrong(obj) if isinstance(obj, np.ndarray) else obj, dtype)

    monkeypatch.setattr(creation, "host_array", host_array)
    assert failures("transfers/entrances-of-host-arrays")


def abs_strides(a: Any) -> Any:
    return a[tuple(slice(None, None, -1 if s < 0 else 1) for s in a.strides)] if a.ndim else a
