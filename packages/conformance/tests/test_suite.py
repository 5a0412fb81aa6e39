"""The suite is complete, stable and the same everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.protocol import FEATURES
from calor.dtypes import ALL, bool_, int32
from calor.ops.base import TABLE
from calor_conformance import suite
from calor_conformance.checks.base import TIERS, Check
from calor_conformance.checks.values import values
from calor_conformance.provisional import provisional
from calor_conformance.rows.definitions import source_of
from calor_conformance.rows.domains import normal
from calor_conformance.rows.exemptions import NO_ROW
from calor_conformance.rows.language import case, ulp
from calor_conformance.rows.tables import CASES
from calor_conformance.selection import PROFILES

CHECKS = suite.checks()
OWN = {name for name in TABLE if "." not in name} - set(NO_ROW)


def test_every_op_has_values_and_a_basic_check() -> None:
    told = {row.op for row in CASES}
    assert told >= OWN
    basic = {c.op for c in CHECKS.values() if c.tier == "basic" and c.kind == "values"}
    assert basic >= OWN & {c.op for c in CHECKS.values() if c.kind == "values"}


def test_every_op_is_behind_the_proxy_of_the_protocol() -> None:
    subjects = {c.op for c in CHECKS.values() if c.kind == "protocol"}
    assert {c.op for c in CHECKS.values() if c.kind == "values"} <= subjects


def test_every_composite_is_decomposed() -> None:
    kept = {n for n in OWN if TABLE[n].decompose is not None}
    # What stops a gradient or carries a rule of the user is decomposed by core before a device.
    marks = {"stop_gradient", "custom_gradient"}
    assert {c.op for c in CHECKS.values() if c.kind == "composites"} >= kept - marks


def test_every_dtype_is_transferred_and_computed() -> None:
    assert {c.dtype for c in CHECKS.values() if c.kind == "transfers"} >= set(ALL)
    assert {c.dtype for c in CHECKS.values() if c.kind == "values"} >= set(ALL)


def test_every_feature_is_tried() -> None:
    """A feature is asked by a check of its name, or needed by checks of another kind."""
    tried = {c.subject for c in CHECKS.values() if c.kind == "features"}
    needed = {f for c in CHECKS.values() for f in c.features}
    assert set(FEATURES) <= tried | needed, set(FEATURES) - tried - needed


def test_digests_differ_and_do_not_change_from_call_to_call() -> None:
    digests = [c.digest for c in CHECKS.values()]
    assert len(set(digests)) == len(digests)
    assert digests == [c.digest for c in CHECKS.values()]
    assert suite.digest() == suite.digest()


def test_tiers_and_contracts() -> None:
    assert {c.tier for c in CHECKS.values()} == set(TIERS)
    for check in CHECKS.values():
        assert len(check.contract) > 20, check.name
        assert check.op in {*TABLE, ""}, check.name
        assert set(check.features) <= set(FEATURES), check.name


def test_only_searches_and_transforms_are_provisional() -> None:
    assert {c.kind for c in CHECKS.values() if c.provisional} <= {"properties", "vmap"}


@pytest.mark.parametrize(
    ("since", "version", "still"),
    [("0.2", "0.2.0", True), ("0.2", "0.1.9", True), ("0.2", "0.3.0.dev1", False),
     ("0.9", "0.10.0", False), ("", "0.1", False), ("1.0", "1.0rc1", True)],
)  # fmt: skip
def test_a_new_row_counts_from_the_next_minor_release(
    since: str, version: str, still: bool
) -> None:
    assert provisional(since, version) == (since if still else "")


def made(**changed: Any) -> Check:
    options: dict[str, Any] = {"oracle": np.exp, "dtypes": (calor.float32,), "tol": ulp(2)}
    (check,) = values([case("exp", normal(3), **{**options, **changed})])
    return check


def test_a_new_row_is_provisional() -> None:
    assert made(since="99.0").provisional == "99.0"
    assert made(since="0.0").provisional == ""


CHANGES: list[dict[str, Any]] = [
    {"tol": ulp(3)},
    {"oracle": lambda x: np.exp(x) + 0},
    {"no_gradient": "it is flat"},
    {"raw": True},
    {"since": "0.0"},
    {"name": "other"},
]


@pytest.mark.parametrize("changed", CHANGES, ids=lambda c: next(iter(c)))
def test_the_digest_of_a_check_changes_with_its_row(changed: dict[str, Any]) -> None:
    assert made().digest == made().digest
    assert made(**changed).digest != made().digest


def test_narrow_profiles_meet_their_ops_in_their_own_dtype() -> None:
    """A device without float32 is asked for values and for the protocol in the basic tier."""
    narrow = [p for p in PROFILES.values() if p.main is not None]
    assert len(narrow) > 1
    for profile in narrow:
        basic = [
            c for c in CHECKS.values() if c.tier == "basic" and c.op and profile.wants(c)
            and set(c.dtypes) <= {profile.main, bool_, int32}
        ]  # fmt: skip
        for kind in ("values", "protocol"):
            assert set(profile.required) <= {c.op for c in basic if c.kind == kind}


def test_what_one_profile_asks_no_other_does() -> None:
    own = [c for c in CHECKS.values() if c.profiles]
    assert {c.kind for c in own} == {"protocol", "shapes", "views", "jit"}
    for check in own:
        assert {p.name for p in PROFILES.values() if p.wants(check)} <= set(check.profiles)


def test_a_row_is_the_same_with_every_version_of_numpy() -> None:
    # NumPy's own functions are told by name: their text is not part of a row's definition.
    assert source_of(np.outer) == "numpy.outer"
    assert "assert" in source_of(test_a_row_is_the_same_with_every_version_of_numpy)


def test_a_row_is_the_same_with_every_version_of_python() -> None:
    def run(held: object) -> object:
        return lambda: held

    # Comprehensions are functions with names of their own before Python 3.12.
    told = source_of(run(next(iter([lambda: 1 for _ in range(2)]))))
    assert "<lambda>" in told
    assert "comp>" not in told
