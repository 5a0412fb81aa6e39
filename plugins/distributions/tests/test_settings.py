"""What constructors of distributions and transforms refuse."""

import pytest

import calor
from calor import distributions as d
from calor.errors import ArgumentTypeError


@pytest.mark.parametrize("wrong", [None, 3, 0.5, "Normal", [1.0], calor.ones(2)])
@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda x: d.Independent(x, 1), "Independent: base_distribution must be a Distribution"),
        (lambda x: d.TransformedDistribution(x, []), "base_distribution must be a Distribution"),
        (lambda x: d.MixtureSameFamily(x, d.Normal(calor.zeros(2), 1.0)), "a Categorical"),
        (lambda x: d.MixtureSameFamily(d.Categorical(calor.ones(2)), x), "a Distribution, not"),
        (lambda x: d.ComposeTransform(x), "parts must be a sequence with a Transform in each"),
    ],
)
def test_what_is_no_distribution_is_named(call, parameter, wrong):
    with pytest.raises(ArgumentTypeError, match=parameter):
        call(wrong)


def test_counts_are_whole():
    with pytest.raises(ArgumentTypeError, match="Multinomial: total_count must be a whole number"):
        d.Multinomial(2.5, probs=calor.ones(2) / 2)
    with pytest.raises(ArgumentTypeError, match="exponent must be a number, not 'a'"):
        d.PowerTransform("a")
