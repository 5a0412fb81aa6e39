"""The table of other frameworks' names, and the errors made from it."""

import pickle
import re
from typing import Any

import pytest

import calor
from calor.keywords import OPERANDS
from calor.migration import KEYWORDS, METHODS, NAMES, NEURAL, Row

# Doors to packages that need not be installed here.
OTHER_PACKAGES = ("nn", "train")


@pytest.mark.parametrize("row", NAMES, ids=[r.theirs for r in NAMES])
def test_missing_names_say_what_to_write(row: Row) -> None:
    with pytest.raises(
        AttributeError, match=re.escape(f"calor has no {row.theirs!r}: write {row.ours}")
    ):
        getattr(calor, row.theirs)


@pytest.mark.parametrize("row", METHODS, ids=[r.theirs for r in METHODS])
def test_missing_methods_say_what_to_write(row: Row) -> None:
    x = calor.ones(2)
    with pytest.raises(
        AttributeError, match=re.escape(f"a tensor has no {row.theirs!r}: write {row.ours}")
    ):
        getattr(x, row.theirs)


@pytest.mark.parametrize("row", NAMES + METHODS, ids=[r.theirs for r in NAMES + METHODS])
def test_what_is_recommended_exists(row: Row) -> None:
    for path in re.findall(r"\bcalor\.([A-Za-z_][\w.]*)", row.ours):
        found: Any = calor
        for part in path.rstrip(".").split("."):
            if found is calor and part in OTHER_PACKAGES:
                break
            found = getattr(found, part)
    for name in re.findall(r"\bx\.([A-Za-z_]\w*)", row.ours):
        assert hasattr(calor.Tensor, name)
    assert set(row.whose) <= set("tnj")


def test_each_name_is_there_once() -> None:
    for rows in (NAMES, METHODS):
        names = [r.theirs for r in rows]
        assert len(set(names)) == len(names)
    assert not NEURAL & {r.theirs for r in NAMES}


@pytest.mark.parametrize("name", ["conv2d", "cross_entropy", "layer_norm"])
def test_functions_of_networks_are_in_another_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"calor_nn": object()}
    monkeypatch.setattr("calor.migration.find_spec", found.get)
    there = f"calor has no '{name}': write calor.nn.functional.{name}"
    with pytest.raises(AttributeError, match=f"^{there}$"):
        getattr(calor, name)
    found.clear()
    install = re.escape('pip install "calor[nn]"')
    with pytest.raises(AttributeError, match=f"^{there}, which is part of calor-nn; {install}$"):
        getattr(calor, name)


def test_no_name_of_core_is_said_to_be_in_another_package() -> None:
    assert not NEURAL & set(calor.__all__)


def test_unknown_names_stay_unknown() -> None:
    with pytest.raises(AttributeError, match="calor has no 'frobnicate'$"):
        calor.frobnicate  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="a tensor has no 'frobnicate'$"):
        calor.ones(2).frobnicate  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="a tensor has no '__array_interface__'"):
        calor.ones(2).__array_interface__  # type: ignore[attr-defined]
    assert not hasattr(calor, "__wrapped__")


def test_in_place_forms_of_methods() -> None:
    with pytest.raises(AttributeError, match=r"no 'sigmoid_': write x = x.sigmoid\(...\)"):
        calor.ones(2).sigmoid_  # type: ignore[attr-defined]


def test_calling_the_package_of_the_tensor() -> None:
    with pytest.raises(TypeError, match=r"make a tensor with calor.asarray\(data\)"):
        calor.tensor([1.0])  # type: ignore[operator]


CALLS: list[tuple[Any, dict[str, Any], str]] = [
    (calor.sum, {"dim": 0}, r"sum\(\) .*'dim'; in calor it is axis="),
    (calor.sum, {"axis": 0, "keepdim": True}, "in calor it is keepdims="),
    (calor.ones((2, 2)).sum, {"dim": 0}, r"^sum\(\) .*'dim'; in calor it is axis="),
    (calor.ones((2, 2)).mean, {"keepdim": True}, "in calor it is keepdims="),
    (calor.ones((2, 2)).std, {"unbiased": False}, "in calor it is correction="),
    (calor.flatten, {"start_dim": 1}, "in calor it is start_axis="),
    (calor.permute_dims, {"dims": (1, 0)}, "in calor it is axes="),
    (calor.flip, {"dims": (0,)}, "in calor it is axis="),
    (calor.reshape, {"newshape": (4,)}, "in calor it is shape="),
    (calor.clip, {"a_min": 0}, "in calor it is min="),
    (calor.ones((2, 2)).softmax, {"dim": 0}, "in calor it is axis="),
    (calor.sum, {"frobnicate": 0}, "unexpected keyword argument 'frobnicate'$"),
]


@pytest.mark.parametrize(("function", "keywords", "message"), CALLS)
def test_wrong_keywords_say_the_right_one(
    function: Any, keywords: dict[str, Any], message: str
) -> None:
    given = () if hasattr(function, "__self__") else (calor.ones((2, 2)),)
    with pytest.raises(TypeError, match=message):
        function(*given, **keywords)


def test_sizes_as_separate_arguments() -> None:
    with pytest.raises(TypeError, match=r"a shape is one argument: zeros\(\(2, 3\)\)"):
        calor.zeros(2, 3)  # type: ignore[misc]


def test_errors_from_inside_a_function_are_left_alone() -> None:
    with pytest.raises(TypeError, match="whole number") as caught:
        calor.sum(calor.ones(2), axis="dim")  # type: ignore[arg-type]
    assert "in calor it is" not in str(caught.value)


def test_every_keyword_of_the_table_can_be_met() -> None:
    assert OPERANDS.isdisjoint(n for ours in KEYWORDS.values() for n in ours)


def test_functions_remain_what_they_were() -> None:
    assert calor.sum.__name__ == "sum"
    assert calor.sum.__module__ == "calor.functions.reductions"
    assert pickle.loads(pickle.dumps(calor.sum)) is calor.sum
