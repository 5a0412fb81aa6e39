"""Dictionaries beside others of the same keys: values belong to keys, not to places."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import nullcontext
from typing import Any

import pytest

import calor
from calor import tree
from calor.errors import ArgumentError, ShapeError


def _both() -> tuple[Any, Any]:
    """Return two dictionaries that are equal, with their keys in both orders."""
    one, ten = calor.asarray([1.0]), calor.asarray([10.0])
    return {"a": one, "b": ten}, {"b": ten, "a": one}


def _scaled(d: Any) -> Any:
    return {"x": d["a"] * 3, "y": d["b"] * 5}


def _numbers(made: Any) -> Any:
    return {key: x.item() for key, x in made.items()}


def test_tangents_are_those_of_their_keys() -> None:
    first, turned = _both()
    for made in (
        calor.jvp(_scaled, (first,), (turned,))[1],
        calor.linearize(_scaled, first)[1](turned),
    ):
        assert _numbers(made) == {"x": 3.0, "y": 50.0}


def test_cotangents_are_those_of_their_keys() -> None:
    first, _ = _both()
    pull = calor.vjp(_scaled, first)[1]
    assert _numbers(pull({"y": first["b"], "x": first["a"]})[0]) == {"a": 3.0, "b": 50.0}
    assert _numbers(pull({"y": first["b"], "x": None})[0]) == {"a": 0.0, "b": 50.0}
    with pytest.raises(ShapeError, match=r"dict\('x': \*, 'z': \*\).*dict\('x': \*, 'y': \*\)"):
        pull({"x": first["a"], "z": first["b"]})


def test_trees_are_mapped_by_keys() -> None:
    first, turned = _both()
    made = tree.map(lambda a, b: (a - b).item(), {"c": [first]}, {"c": [turned]})
    assert made == {"c": [{"a": 0.0, "b": 0.0}]}
    with pytest.raises(ArgumentError, match="differ in structure"):
        tree.map(lambda a, b: a, {"a": 1, "b": 2}, {"a": 1, "c": 2})


def test_rules_return_gradients_by_keys() -> None:
    first, _ = _both()
    total = calor.custom_vjp(lambda d: (d["a"] + d["b"]).sum())
    total.defvjp(
        lambda d: ((d["a"] + d["b"]).sum(), None),
        lambda _, g: ({"b": first["a"] * 7, "a": first["a"] * 2},),
    )
    assert _numbers(calor.grad(total)(first)) == {"a": 2.0, "b": 7.0}


def test_functions_of_the_host_return_results_by_keys() -> None:
    first, _ = _both()
    made = calor.callback(lambda x: {"b": x * 100, "a": x}, first, first["a"])
    assert _numbers(made) == {"a": 1.0, "b": 100.0}
    with pytest.raises(ShapeError, match=r"structure dict\('a': \*, 'c': \*\)"):
        calor.callback(lambda x: {"a": x, "c": x}, first, first["a"])


def test_axes_of_ordered_dictionaries_are_mapped() -> None:
    first, _ = _both()
    x = OrderedDict(a=calor.ones(3), b=first["b"])
    made = calor.vmap(lambda d: d["a"] + d["b"], in_axes=(OrderedDict(b=None, a=0),))(x)
    assert made.tolist() == [[11.0], [11.0], [11.0]]


def _turned_step(d: Any) -> Any:
    return {"b": d["b"] * 2, "a": d["a"] + 1}


def _is_small(d: Any) -> Any:
    return (d["a"] < 3).all()


@pytest.mark.parametrize("looked_at", [False, True])
@pytest.mark.parametrize("jitted", [False, True])
def test_carries_are_paired_by_their_keys(jitted: bool, looked_at: bool) -> None:
    first, turned = _both()

    def scanned(d: Any) -> Any:
        return calor.scan(lambda d, _: (_turned_step(d), _turned_step(d)), d, length=2)

    def looped(d: Any) -> Any:
        return calor.while_loop(_is_small, _turned_step, d)

    def counted(d: Any) -> Any:
        return calor.fori_loop(0, 2, lambda _, d: _turned_step(d), d)

    def chosen(d: Any) -> Any:
        return calor.cond(_is_small(d), lambda d: d, _turned_step, d)

    def of(function: Any, *args: Any) -> Any:
        with calor.debug_nans() if looked_at else nullcontext():
            return (calor.jit(function) if jitted else function)(*args)

    assert _numbers(of(looped, first)) == {"a": 3.0, "b": 40.0}
    assert _numbers(of(counted, first)) == {"a": 3.0, "b": 40.0}
    carry, outputs = of(scanned, first)
    assert _numbers(carry) == {"a": 3.0, "b": 40.0}
    assert {k: x.flatten().tolist() for k, x in outputs.items()} == {
        "b": [20.0, 40.0],
        "a": [2.0, 3.0],
    }
    assert _numbers(of(chosen, {"a": first["b"], "b": first["a"]})) == {"a": 11.0, "b": 2.0}
    assert [*of(looped, turned)] == ["b", "a"]


def test_other_carries_are_refused() -> None:
    first, _ = _both()
    for other in (lambda d: {"a": d["a"]}, lambda d: {"a": d["a"], "c": d["b"]}, OrderedDict):
        with pytest.raises(ShapeError, match="must be dict"):
            calor.while_loop(_is_small, other, first)
