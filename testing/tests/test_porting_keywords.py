"""Each hint for a keyword, and each for a module's attribute, appears and gives the same result."""

import re

import pytest

import calor
import porting_keywords
from calor import nn
from calor.migration import ADVICE, KEYWORDS, MASKS
from calor_nn.migration import METHODS
from porting_keywords import Keyword, Moved
from porting_rows import same


@pytest.mark.parametrize("row", porting_keywords.ROWS, ids=lambda row: row.keyword)
def test_a_keyword_gets_the_hint_and_what_it_says_gives_the_same(row: Keyword) -> None:
    with pytest.raises(TypeError) as caught:
        porting_keywords.written(row.wrong)
    hint = str(caught.value).partition(f"{row.keyword!r}")[2] or str(caught.value)
    if row.keyword in ADVICE:
        assert hint.endswith(ADVICE[row.keyword])
    elif row.keyword in MASKS:
        said = re.search(r"in calor it is (\w+)=, which is True where ", hint)
        assert said is not None, hint
        assert said[1] in MASKS[row.keyword]
        # Numbers are another argument, which the hint names as well.
        assert f"{said[1]}=" in row.right or ("bias=" in row.right and hint.endswith("bias="))
    else:
        said = re.search(r"in calor (?:it is (\w+)=|(\w+) is given by position)$", hint)
        assert said is not None, hint
        assert said[2] or f"{said[1]}=" in row.right
        assert (said[1] or said[2]) in KEYWORDS[row.keyword]
    assert same(porting_keywords.written(row.right), porting_keywords.oracle(row))


def test_the_hint_is_that_of_the_keyword_which_the_error_names() -> None:
    with pytest.raises(TypeError, match=r"argument 'inplace'; .* so leave it out"):
        nn.functional.relu(calor.ones((2,)), unheard=1, inplace=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"argument 'unheard'$"):
        nn.functional.relu(calor.ones((2,)), unheard=1)  # type: ignore[call-arg]


def test_every_keyword_is_run() -> None:
    assert {row.keyword for row in porting_keywords.ROWS} == {*KEYWORDS, *MASKS, *ADVICE}


@pytest.mark.parametrize("moved", porting_keywords.MODULES, ids=lambda moved: moved.name)
def test_an_attribute_of_modules_gets_the_hint_which_works(moved: Moved) -> None:
    with pytest.raises(AttributeError, match=f": write {re.escape(METHODS[moved.name])}$"):
        getattr(nn.Linear(2, 3), moved.name)
    assert porting_keywords.written(moved.ours)


def test_every_attribute_of_modules_is_run_or_names_a_device() -> None:
    names = {moved.name for moved in porting_keywords.MODULES}
    assert names | porting_keywords.NOT_COMPUTED == {*METHODS}
    model = nn.Linear(2, 3)
    assert model.to("cpu") is model
    assert model.to(device="numpy") is model


def test_a_hint_that_is_wrong_is_found(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [("sum=", "F.sum(x)", "calor.mean(x)"), ("no=", "F.sum(x)", "calor.no(x)")]
    monkeypatch.setattr(porting_keywords, "comparisons", lambda framework: wrong)
    assert porting_keywords.main("numpy") == 1
    assert "2 hints beside numpy, 2 of them wrong" in capsys.readouterr().out


def test_the_size_of_a_tensor_is_a_number_that_says_what_its_shape_is() -> None:
    x = calor.ones((2, 3))
    for arguments, wanted in (((), "x.shape"), ((1,), "x.shape[1]")):
        with pytest.raises(TypeError, match=rf"write {re.escape(wanted)}$"):
            x.size(*arguments)  # type: ignore[operator]
        assert eval(wanted) == ((2, 3) if not arguments else 3)
    assert (x.size, repr(x.size), type(x.size + 0)) == (6, "6", int)
    scaled = calor.jit(lambda x, n: x * n)
    assert scaled(x, x.size).tolist() == (x * x.size).tolist() == [[6.0] * 3] * 2
    assert scaled(x, x[:1].size).tolist() == [[3.0] * 3] * 2
    assert len(scaled.programs) == 1


def test_an_axis_may_be_given_by_position() -> None:
    x = calor.asarray([[1.0, 4.0], [3.0, 2.0]])
    for name in ("max", "sum", "mean", "all", "argmax", "sort", "softmax", "logsumexp", "flip"):
        function = getattr(calor, name)
        assert function(x, 1).tolist() == function(x, axis=1).tolist(), name
    assert nn.functional.softmax(x, -1).tolist() == calor.softmax(x, axis=-1).tolist()
    assert calor.concat([x, x], 1).shape == (2, 4)
