"""Advice that cannot be followed is told, and names of fields and ops are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from calor_conformance.checks.advice import advised, texts_of


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("write calor.concat(tensors, axis=0) or calor.jit(f, static_argnames=...)", []),
        ("write calor.concat(tensors, dim=0)", ["calor.concat( has no dim="]),
        ("use calor.jitted(f)", ["calor.jitted( is not there"]),
        ("calor.abs(x, y)", ["calor.abs( takes 1 arguments by place"]),
        ("nn.resample: the tables do not fit", []),
        ("calor.linalg.field(x)", []),
    ],
)
def test_names_and_arguments_are_looked_up(text: str, wrong: list[str]) -> None:
    assert list(advised(text)) == wrong


def test_texts_of_errors_and_warnings_are_found(tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text(
        'x = "calor.other"\n'
        'def f(n):\n    """See calor.elsewhere."""\n'
        '    raise ValueError(f"pass {n} to calor.{n}.abs")\n'
        'warnings.warn("calor.abs")\n'
    )
    assert sorted(set(texts_of(path))) == [
        (4, " to calor."),
        (4, ".abs"),
        (4, "pass "),
        (4, "pass field to calor.field.abs"),
        (5, "calor.abs"),
    ]
