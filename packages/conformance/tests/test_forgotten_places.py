"""Checks of rules' forms, sizes of maps, nested sequences, interruptions, settings, containers.

Each passes on the reference, and fails where one place that few programs come to is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calor import config, tree
from calor.functions import linear_algebra, nested
from calor.local import local
from calor.methods import indexing, numpy_functions
from calor.ops import attention
from calor.recording.unfinished import Aside
from calor.sizes import Size
from calor.transforms import custom
from calor.transforms.batching import graphs, movement
from reference_failures import failures

CHECKS = (
    "transforms/reverse-rules-of-trees", "transforms/forward-rules-of-trees", "vmap/add/float32",
    "vmap/one-to-many-members-moves", "vmap/one-to-many-members-runs",
    "functions/nested-sequences-values", "functions/nested-sequences-gradients",
    "functions/nested-sequences-refusals", "state/interrupted-then-read",
    "state/interrupted-then-again", "threads/interrupted-then-elsewhere",
    "features/variables-of-settings-one", "features/variables-of-settings-several",
    "features/variables-of-settings-refused", "transforms/registered-containers-in-trees",
    "transforms/registered-containers-in-transforms", "functions/asked-products",
    "functions/keys-written", "state/ended-work", "transfers/numpys-files-several",
    "functions/no-element-along-an-axis-attention", "functions/no-element-along-an-axis-conv",
    *(f"state/ended-work-with-{name}" for name in ("modules", "rules", "state", "host")),
    "vmap/one-to-many-members-pads",
    *(f"sizes/numbers-of-user-code-{name}" for name in ("sums", "bits", "texts", "choices")),
)  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 2) == []


def test_a_gradient_alone_that_is_taken_for_several_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = custom.Pull.gradients

    def gradients(self: Any, found: Any) -> Any:
        return right(self, found if isinstance(found, tuple) else tuple(found))

    monkeypatch.setattr(custom.Pull, "gradients", gradients)
    assert failures("transforms/reverse-rules-of-trees", 1)


def test_an_axis_without_members_that_gets_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = graphs.zeros_of

    def zeros(wanted: Any, device: Any) -> Any:
        return right(graphs.spec((1, *wanted.shape[1:]), wanted.dtype), device)

    monkeypatch.setattr(graphs, "zeros_of", zeros)
    assert failures("vmap/add/float32", 1)


def test_a_count_of_members_in_16_bits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = movement.slice_

    def sliced(x: Any, *, starts: Any, stops: Any, steps: Any) -> Any:
        return right(x, starts=starts, stops=(stops[0] % 65536, *stops[1:]), steps=steps)

    monkeypatch.setattr(movement, "slice_", sliced)
    assert failures("vmap/one-to-many-members-steps", 1)


def test_tensors_of_a_sequence_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nested.concat
    monkeypatch.setattr(nested, "concat", lambda *parts, axis: right(*parts[::-1], axis=axis))
    for name in ("values", "gradients"):
        assert failures(f"functions/nested-sequences-{name}", 1)


def test_ragged_sequences_that_are_taken_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = nested.joined

    def joined(obj: Any, dtype: Any, device: Any, made: Any) -> Any:
        return right([obj[0]] * len(obj) if isinstance(obj, list) else obj, dtype, device, made)

    monkeypatch.setattr(nested, "joined", joined)
    assert failures("functions/nested-sequences-refusals", 1)


def test_values_of_another_place_after_an_interruption_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Aside._ancestors

    def ancestors(self: Any, position: int, trace: Any, places: Any) -> Any:
        made = right(self, position, trace, places)
        return [
            (sig, at, given[::-1] if isinstance(given, list) else given) for sig, at, given in made
        ]

    monkeypatch.setattr(Aside, "_ancestors", ancestors)
    for name in ("state/interrupted-then-read", "threads/interrupted-then-elsewhere"):
        assert failures(name, 1)


def test_a_text_of_a_setting_that_means_something_else_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "_flag", lambda name, default: default)
    assert failures("features/variables-of-settings-one", 1)
    assert failures("features/variables-of-settings-several", 1)


def test_a_text_without_a_meaning_that_is_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_number", lambda name, default: default)
    assert failures("features/variables-of-settings-refused", 1)


def test_subclasses_that_a_base_forgets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "_INHERITED", {})
    for name in ("trees", "transforms"):
        assert failures(f"transforms/registered-containers-in-{name}", 1)


def test_products_kept_for_another_dtype_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            return super().get(key[:2], default)

        def __setitem__(self, key: Any, value: Any) -> None:
            super().__setitem__(key[:2], value)

    monkeypatch.setattr(linear_algebra, "_TYPED", Forgetful())
    assert failures("functions/asked-products", 1)


def test_a_block_at_computed_places_that_is_not_written_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexing, "_write_at", lambda x, key, value: x * 1)
    assert failures("functions/keys-written", 1)


@pytest.mark.parametrize(
    ("method", "name"),
    [("__pow__", "powers"), ("__lshift__", "bits"), ("__rfloordiv__", "quotients"),
     ("__divmod__", "remainders"), ("__format__", "texts"), ("__truediv__", "quotients")],
)  # fmt: skip
def test_a_number_of_an_earlier_size_is_found(
    method: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_first(self: Size, *given: Any) -> Any:
        # The number that it was when the function was traced, of which nobody is told.
        return getattr(int, method)(self.hint, *given)

    monkeypatch.setattr(Size, method, of_first)
    assert failures(f"sizes/numbers-of-user-code-{name}", 2)


def test_a_sum_over_no_key_that_is_not_zero_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = attention._empty
    monkeypatch.setattr(attention, "_empty", lambda query, value: right(query, value) + 1)
    # Seeds have other sizes, so that no program of before is known.
    assert failures("functions/no-element-along-an-axis-attention", 4)


def test_a_file_of_numpy_with_other_numbers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = numpy_functions._on_host

    def other(write: Any, given: Any, options: Any) -> Any:
        return right(write, given[:-1] if len(given) > 2 else given, {**options, "w": np.zeros(1)})

    monkeypatch.setattr(numpy_functions, "_on_host", other)
    assert failures("transfers/numpys-files-several", 1)


def test_a_rule_that_an_error_leaves_in_use_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forwarded(self: Any, args: Any) -> Any:
        local.forwarding.append(self)
        found = self._forward(*args)
        local.forwarding.pop()
        return found

    monkeypatch.setattr(custom.CustomVjp, "_forwarded", forwarded)
    try:
        assert failures("state/ended-work-with-rules", 1)
    finally:
        local.forwarding.clear()
