"""Public functions refuse wrong arguments by calor's errors, which say what to do instead."""

from __future__ import annotations

import pytest

import calor
from calor.errors import ArgumentError, ArgumentTypeError, CalorError, DTypeError
from wrong_arguments import STRANGE, called, right_calls, spoilt


@pytest.mark.parametrize("label", right_calls())
def test_what_is_wrong_of_an_argument_is_told_by_an_error_of_calor(label: str) -> None:
    function, _ = right_calls()[label]
    for name, what, given in spoilt(label):
        try:
            called(function, given)
        except CalorError as error:
            told = str(error)
            if what in STRANGE:
                names = (function.__name__, name, "operand", "asarray", "dtype", "size", "axis")
                assert any(n in told for n in names), f"{label}, {name} is {what}: {told}"
                assert len(told) > 20, f"{label}, {name} is {what}: {told}"
        except MemoryError:
            pass
        except Exception as error:
            pytest.fail(f"{label}, {name} is {what}: {type(error).__name__}: {error}")


def test_the_argument_is_named_with_what_it_takes() -> None:
    x = calor.ones((2, 3))
    with pytest.raises(ArgumentTypeError, match=r"flip: axis must be a whole number, not str"):
        calor.flip(x, axis="rows")  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"softmax: x is 'nonsense'; pass Tensor, ndarray or num"):
        calor.softmax("nonsense")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"concat: \w+ is 3; pass sequence of Tensor"):
        calor.concat(3)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match=r"x is \[1.0, 2.0\]; pass .*asarray\(x\)"):
        calor.flip([1.0, 2.0])  # type: ignore[arg-type]


def test_an_error_of_a_function_that_is_given_remains_as_it_is() -> None:
    def distance(a: object, b: object) -> object:
        raise KeyError("of the user")

    x = calor.ones((2, 3))
    with pytest.raises(KeyError, match="of the user"):
        calor.nn.functional.triplet_margin_with_distance_loss(x, x, x, distance_function=distance)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("normal", {"std": -1.0}), ("truncated_normal", {"std": -1}), ("bernoulli", {"p": 1.5}),
        ("bernoulli", {"p": float("nan")}), ("exponential", {"scale": -2.0}), ("beta", {"a": 0.0}),
        ("beta", {"b": -1.0}), ("gamma", {"concentration": 0.0}), ("gamma", {"scale": -1.0}),
        ("poisson", {"rate": -1.0}), ("poisson", {"rate": float("nan")}), ("binomial", {"n": -1}),
        ("binomial", {"p": 2.0}), ("geometric", {"p": 0.0}), ("cauchy", {"scale": -1.0}),
        ("laplace", {"scale": -1.0}), ("logistic", {"scale": -1.0}), ("log_normal", {"std": -1.0}),
        ("pareto", {"alpha": 0.0}), ("student_t", {"df": 0.0}), ("weibull", {"concentration": 0}),
    ],
)  # fmt: skip
def test_parameters_of_distributions_are_in_their_ranges(
    name: str, options: dict[str, float]
) -> None:
    with pytest.raises(ArgumentError, match=rf"{name}: {next(iter(options))} is .*; it must be"):
        getattr(calor.random, name)((2,), **options)


def test_a_length_below_none_is_refused() -> None:
    spectrum = calor.ones((5, 4), dtype="complex64")
    with pytest.raises(ArgumentError, match="istft: length is -1"):
        calor.signal.istft(spectrum, 8, length=-1)
