"""What jit takes as static, what it says about its traces, and what it is called."""

import pytest

import calor


def _filled(x, size):
    return calor.full((size,), 1.0) * x


@pytest.mark.parametrize("how", [{"static_argnames": "size"}, {"static_argnums": 1}])
def test_a_static_argument_is_static_however_it_is_passed(how):
    f = calor.jit(_filled, **how)
    x = calor.asarray(2.0)
    assert f(x, 2).tolist() == f(x, size=2).tolist() == [2.0, 2.0]
    assert f(x, 3).shape == f(x, size=3).shape == (3,)


def test_a_static_name_that_no_parameter_has_is_refused():
    with pytest.raises(
        calor.errors.ArgumentError, match="names 'sizes', the function takes x, size"
    ):
        calor.jit(_filled, static_argnames="sizes")


def test_any_name_may_be_static_where_keywords_are_free():
    f = calor.jit(
        lambda x, **options: x * (2 if options["double"] else 1), static_argnames="double"
    )
    x = calor.asarray(3.0)
    assert (f(x, double=True).item(), f(x, double=False).item()) == (6.0, 3.0)


def test_the_reason_for_a_trace_names_what_differs_from_the_nearest_one():
    f = calor.jit(lambda x, mode="a": x + 1)
    f(calor.ones(2))
    f(calor.ones(2, dtype=calor.float64))
    f(calor.ones(2), mode="b")
    assert f.reasons == [
        "first call",
        "tensor argument 0 was float32[2] and is float64[2]",
        "the structure or a static argument changed",
    ]


def test_a_jitted_function_shows_its_name_and_traces():
    f = calor.jit(_filled, static_argnames="size")
    assert repr(f) == "<jitted _filled, 0 traces>"
    f(calor.asarray(1.0), 2)
    assert repr(f) == "<jitted _filled, 1 trace>"
