"""calor.debug_nans: the first op that makes a NaN or an infinity, with its line and module."""

import inspect

import pytest

import calor
from calor.config import Config, config
from calor.errors import CalorError, NonFiniteError
from calor.plugins.discovery import get_device


def present():
    names = []
    for name in ("numpy", "cpu"):
        try:
            get_device(name)
        except CalorError:
            continue
        names.append(name)
    return names


@pytest.fixture(params=present())
def x(request):
    with calor.device(request.param):
        yield calor.asarray([1.0, 0.0, -1.0])


def roots(x):
    y = x * 2
    return calor.sqrt(y) + 1


AT = inspect.getsourcelines(roots)[1] + 2
WITHIN = {
    "eager": roots,
    "jit": calor.jit(roots),
    "bound": lambda x: calor.jit(lambda k, x: roots(x) * k).bind(calor.asarray(1.0))(x),
    "scan": lambda x: calor.scan(lambda c, row: (c, roots(row)), x, x)[1],
    "reversed scan": calor.jit(
        lambda x: calor.scan(lambda c, row: (c, roots(row)), x, x, reverse=True)
    ),
    "while": lambda x: calor.while_loop(lambda c: c[0] < 9, roots, x),
    "cond": calor.jit(lambda x: calor.cond(x[0] > 0, roots, lambda x: x, x)),
    "gradient": calor.grad(lambda x: roots(x).sum()),
    "no change of a loop": lambda x: calor.fori_loop(0, 2, lambda i, c: roots(c), x),
}


@pytest.mark.parametrize("form", WITHIN)
def test_the_first_op_is_named_with_its_line(x, form):
    WITHIN[form](calor.abs(x))
    with calor.debug_nans(), pytest.raises(NonFiniteError) as caught:
        WITHIN[form](x)
    error = caught.value
    assert (error.op, error.line) == ("sqrt", f"{__file__}:{AT}")
    assert str(error).startswith("sqrt made NaN in float32[")
    assert isinstance(error, FloatingPointError)
    WITHIN[form](x)


LOOPS = {
    "scan": lambda x: calor.scan(lambda c, row: (c + row, {"y": c * row}), 0.0, x),
    "reverse": lambda x: calor.scan(lambda c, row: (c * 2 + row, c), x[0], x, reverse=True),
    "length": lambda x: calor.scan(lambda c, _: (c + 1, (c, c)), x, length=3),
    "none": lambda x: calor.scan(lambda c, row: (c + row, c), 0.0, x[:0]),
    "while": lambda x: calor.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x),
    "for": lambda x: calor.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
    "cond": lambda x: calor.cond(x[0] > 5, lambda x: x, lambda x: -x, x),
}


@pytest.mark.parametrize("form", LOOPS)
def test_control_flow_gives_the_same_as_without(x, form):
    wanted = calor.tree.map(lambda t: (t.tolist(), t.dtype, t.shape), LOOPS[form](x))
    with calor.debug_nans():
        found = calor.tree.map(lambda t: (t.tolist(), t.dtype, t.shape), LOOPS[form](x))
        assert calor.jit(LOOPS[form])(x) is not None
    assert found == wanted


def test_infinities_count_unless_they_were_meant(x):
    with calor.debug_nans(), pytest.raises(NonFiniteError, match=r"div made an infinity .*\(1,\)"):
        1 / x
    with calor.debug_nans():
        masked = calor.where(x > 0, x, -calor.inf)
        assert calor.softmax(masked).tolist() == [1.0, 0.0, 0.0]
        assert calor.full((2,), calor.inf).tolist() == [calor.inf] * 2
        with pytest.raises(NonFiniteError, match="sub made NaN .* an operand holds an infinity"):
            masked - masked
        with pytest.raises(NonFiniteError, match="it is data, or a constant"):
            calor.asarray([calor.nan]) * 2
        with calor.debug_nans(infinities=False):
            assert (1 / x).tolist() == [1.0, calor.inf, -1.0]
    assert (config.nans, config.eager, config.jit) == ("", False, True)
    assert calor.isnan(calor.sqrt(x)).tolist() == [False, False, True]


def test_small_floats_and_integers_are_looked_at(x):
    wide = calor.asarray([100.0], dtype=calor.bfloat16)
    with calor.debug_nans():
        assert (calor.arange(4) // 3).tolist() == [0, 0, 0, 1]
        with pytest.raises(NonFiniteError, match="exp made an infinity in bfloat16"):
            calor.exp(wide)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("1", ("all", True, False)), ("nan", ("nan", True, False)), ("0", ("", False, True))],
)
def test_the_environment_sets_it_for_a_program(monkeypatch, value, wanted):
    monkeypatch.setenv("CALOR_DEBUG_NANS", value)
    made = Config()
    assert (made.nans, made.eager, made.jit) == wanted
    monkeypatch.setenv("CALOR_DEBUG_NANS", "yes")
    with pytest.raises(ValueError, match="CALOR_DEBUG_NANS='yes' is none of 0, 1, nan"):
        Config()
