"""Every op of the table has its rows; what has none is named with a reason."""

from __future__ import annotations

from collections import Counter

import pytest

from calor.ops.base import TABLE
from calor_conformance.rows.exemptions import NO_ROW
from calor_conformance.rows.language import accepted
from calor_conformance.rows.tables import CASES

# Ops that are in the table once a program has used them; checks of calls of the host do.
AT_FIRST_USE = {"callback", "ordered_callback"}
OWN = {name for name in TABLE if "." not in name} - AT_FIRST_USE


def test_every_op_has_a_row() -> None:
    found = {c.op for c in CASES}
    assert OWN - found - set(NO_ROW) == set(), "add a row to calor_conformance/rows/tables"
    assert set(NO_ROW) <= OWN - found, "an exemption is no longer needed"


def test_labels_are_unique() -> None:
    counts = Counter(c.label for c in CASES)
    assert [label for label, n in counts.items() if n > 1] == []


@pytest.mark.parametrize("op", sorted({c.op for c in CASES if c.elementwise}))
def test_elementwise_ops_take_a_dtype_with_its_kind(op: str) -> None:
    """A rule that takes float32 takes every floating type, and so for integers."""
    kinds = {"int": 4, "uint": 4, "float": 4, "complex": 2}
    taken: Counter[str] = Counter(t.kind for t in accepted(CASES)[op])
    if op != "join":
        assert all(taken[k] in (0, n) for k, n in kinds.items()), dict(taken)
