"""Each row for people who change over is run, and gives what the other framework's name gives."""

import pytest

import porting_rows
from calor.migration import METHODS, NAMES, Row
from porting_rows import Example

RUN = list(dict.fromkeys(row for letter in "tnj" for row, _ in porting_rows.examples(letter)))


@pytest.mark.parametrize("row", RUN, ids=lambda row: f"{row.theirs}-{row.whose}")
def test_a_row_gives_what_numpy_gives(row: Row) -> None:
    known = porting_rows.METHOD_EXAMPLES if row in METHODS else porting_rows.EXAMPLES
    example = known[row.theirs]
    found = porting_rows.numpy_of(porting_rows.ours(row, example))
    assert porting_rows.same(found, porting_rows.expected(example), example.compare), row.ours


def test_every_row_is_run_or_names_a_thing() -> None:
    assert {row.theirs for row in NAMES} == set(porting_rows.EXAMPLES) | porting_rows.NOT_COMPUTED
    assert {row.theirs for row in METHODS} == (
        set(porting_rows.METHOD_EXAMPLES) | porting_rows.METHODS_NOT_COMPUTED
    )


def test_a_row_that_is_wrong_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [
        (Row("cumsum", "calor.cumulative_prod(x, axis=0)", "n"), Example("F.cumsum(x, 0)")),
        (Row("sum", "calor.no_such_function(x)", "n"), Example("F.sum(x)")),
        (Row("add", "calor.add(a, b)", "n"), Example("F.add(a, b)")),
    ]
    monkeypatch.setattr(porting_rows, "examples", lambda letter: wrong)
    assert porting_rows.main("numpy") == 1
    out = capsys.readouterr().out
    assert "cumsum: calor.cumulative_prod(x, axis=0) gives" in out
    assert "sum: AttributeError" in out
    assert "3 rows beside numpy, 2 of them wrong" in out
