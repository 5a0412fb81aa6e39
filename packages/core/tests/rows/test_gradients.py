"""Gradients of every float op: against differences, twice, and forward against reverse mode."""

from __future__ import annotations

import numpy as np
import pytest

import calor
from calor.dtypes import DType
from calor.ops.base import TABLE

from .device import put
from .differences import Problem, alike, along, by_differences, close, differentiable, inner
from .exemptions import FIRST_ORDER_ONLY, NO_ROW, NOT_DIFFERENTIATED
from .language import Case
from .tables import CASES

ROWS = list(differentiable(CASES))
REVERSE = [(c, t) for c, t in ROWS if c.op != "while_loop"]
TWICE = [(c, t) for c, t in REVERSE if c.label not in FIRST_ORDER_ONLY]


def names(rows: list[tuple[Case, DType]]) -> list[str]:
    return [f"{c.label}-{t.name}" for c, t in rows]


def some(rows: list[tuple[Case, DType]], most: int = 4) -> list[tuple[Case, DType]]:
    """Return up to ``most`` rows of each op and dtype, from its first to its last."""
    groups: dict[tuple[str, DType], list[tuple[Case, DType]]] = {}
    for c, t in rows:
        groups.setdefault((c.op, t), []).append((c, t))
    made = []
    for group in groups.values():
        places = np.linspace(0, len(group) - 1, min(most, len(group))).round().astype(int)
        made += [group[i] for i in places]
    return made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """First derivatives for every row; the others for a sample, unless in full."""
    sets = {"test_gradient": REVERSE, "test_second_order": TWICE, "test_forward_mode": ROWS}
    rows = sets.get(metafunc.function.__name__)
    if rows is not None:
        full = metafunc.config.getoption("--full", default=False)
        rows = rows if full or rows is REVERSE else some(rows)
        metafunc.parametrize(("row", "dtype"), rows, ids=names(rows))


def test_gradient(row: Case, dtype: DType, pytestconfig: pytest.Config) -> None:
    """Element by element (some of the many, unless in full), and all at once in a direction."""
    problem = Problem(row, dtype)
    reference = problem.reference
    primals, cotangents = problem.primals, problem.cotangents
    got = [t.numpy() for t in problem.pulled(*put([*primals, *cotangents]))]
    most = None if pytestconfig.getoption("--full", default=False) else 12
    close(got, by_differences(reference.run, primals, cotangents, got, most), row.label)
    slope = inner(cotangents, along(reference.run, primals, problem.tangents))
    scale = 1.0 + sum(float(np.sum(np.abs(a))) for a in got)
    assert abs(inner(got, problem.tangents) - slope) <= 2e-6 * scale


def test_second_order(row: Case, dtype: DType) -> None:
    """The gradient of the gradient, for operands and cotangent, along three directions."""
    problem = Problem(row, dtype)
    reference = problem.reference
    arrays = [*problem.primals, *problem.cotangents]
    _, pull = calor.vjp(lambda *x: problem.pulled(*x), *put(arrays))
    got = [t.numpy() for t in pull(put(problem.tangents))]
    for seed in range(3):
        directions = alike(arrays, seed)
        slope = inner(problem.tangents, along(reference.pulled, arrays, directions))
        scale = 1.0 + sum(float(np.sum(np.abs(a))) for a in got)
        assert abs(inner(got, directions) - slope) <= 2e-6 * scale


def test_forward_mode(row: Case, dtype: DType) -> None:
    problem = Problem(row, dtype)
    reference = problem.reference
    primals, tangents = put(problem.primals), put(problem.tangents)
    _, moved = calor.jvp(lambda *x: problem.run(*x), primals, tangents)
    got = [t.numpy() for t in moved]
    close(got, along(reference.run, problem.primals, problem.tangents), row.label)
    if row.op != "while_loop":
        pulled = [t.numpy() for t in problem.pulled(*primals, *put(problem.cotangents))]
        one, other = inner(problem.cotangents, got), inner(pulled, problem.tangents)
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12)


def test_every_float_op_is_differentiated() -> None:
    """Each op of the table has a gradient row, or says why it has no gradient."""
    done = {c.op for c, _ in ROWS}
    for name, op in TABLE.items():
        if "." in name or name in NO_ROW or name in done:
            continue
        reason = op.no_gradient or NOT_DIFFERENTIATED.get(name)
        assert reason, f"op {name} has no gradient row; add one, or a reason to the op"
    assert not set(NOT_DIFFERENTIATED) & done


@pytest.mark.parametrize("name", [n for n, op in TABLE.items() if op.vjp is None])
def test_ops_without_a_gradient_say_why(name: str) -> None:
    op = TABLE[name]
    assert op.decompose is not None or (op.no_gradient and len(op.no_gradient) > 10)


def test_complex_rows_cover_the_complex_ops() -> None:
    """An op that takes complex numbers and has a gradient is differentiated at complex numbers."""
    kinds = {t for c in CASES for t in c.dtypes if t.is_complex}
    takes = {c.op for c in CASES if set(c.dtypes) & kinds and c.op in TABLE}
    done = {c.op for c, t in ROWS if t.is_complex}
    none = {name for name, op in TABLE.items() if op.no_gradient}
    assert takes - done - none - set(NOT_DIFFERENTIATED) == set()
