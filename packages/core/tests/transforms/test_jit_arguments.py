"""What jit takes as static, what it says about its traces, and what it is called."""

import numpy as np
import pytest

import calor
from calor.transforms.state import Stateful


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


def _weights(**changes):
    made = {name: calor.ones(2) for name in "abc"}
    made.update(changes)
    return made


@pytest.mark.parametrize(
    ("other", "wanted", "traces"),
    [
        (lambda: _weights(), [3.0, 3.0], 1),
        (lambda: _weights(b=calor.ones(2) * 2 + 3), [7.0, 7.0], 1),
        (lambda: _weights(b=calor.ones(2, requires_grad=True)), [3.0, 3.0], 1),
        (lambda: _weights(b=calor.ones(2, dtype=calor.float64)), [3.0, 3.0], 2),
        (lambda: _weights(b=calor.ones((2, 2))), [[3.0, 3.0], [3.0, 3.0]], 2),
        (lambda: _weights(b=2.0), [4.0, 4.0], 2),
        (lambda: _weights(b=np.full(2, 5.0, np.float32)), [7.0, 7.0], 2),
        (lambda: _weights(d=calor.ones(2)), [4.0, 4.0], 2),
        (lambda: dict(reversed(_weights().items())), [3.0, 3.0], 2),
        (lambda: list(_weights().values()), [3.0, 3.0], 2),
    ],
)
def test_every_tensor_of_a_container_is_checked_at_each_call(other, wanted, traces):
    @calor.jit
    def total(weights):
        return sum(weights.values() if isinstance(weights, dict) else weights)

    total(_weights())
    given = other()
    assert total(given).tolist() == wanted
    assert total.trace_count == traces
    assert total(_weights()).tolist() == [3.0, 3.0]
    if any(getattr(t, "requires_grad", False) for t in calor.tree.leaves(given)):
        assert total(given).requires_grad


def test_tensors_of_a_container_are_on_one_device():
    with calor.device("numpy"):
        elsewhere = calor.ones(2)
    total = calor.jit(lambda weights: weights["a"] + weights["b"])
    total(_weights())
    with pytest.raises(calor.errors.DeviceError, match="on strict:numpy.* and numpy:0; move them"):
        total(_weights(b=elsewhere))
    assert total(dict.fromkeys("abc", elsewhere)).device is elsewhere.device


def test_static_numbers_are_told_apart_by_their_bits() -> None:
    f = calor.jit(lambda x, c: calor.copysign(x, c), static_argnames="c")
    x = calor.asarray([1.0])
    assert [f(x, c=c).tolist() for c in (0.0, -0.0, 0.0)] == [[1.0], [-1.0], [1.0]]
    assert f.trace_count == 2
    for _ in range(3):
        f(x, c=float("nan"))
    assert f.trace_count == 3
    g = calor.jit(lambda x, pair: x * pair[0], static_argnames="pair")
    assert [g(x, pair=p).dtype for p in ((2,), (2.0,), (True,))] == [calor.float32] * 3
    assert g.trace_count == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [([0.0], [-0.0]), ({"a": 1}, {"a": True}), (frozenset({0.0}), frozenset({-0.0}))],
)
def test_parts_of_static_containers_are_told_apart_by_their_bits(first, second) -> None:
    f = calor.jit(lambda x, c: x + len(repr(c)), static_argnums=1)
    x = calor.asarray(0.0)
    for value in (first, second, first):
        assert f(x, value).item() == len(repr(value))
    assert f.trace_count == 2


def test_a_static_list_is_what_it_is_at_the_call() -> None:
    f = calor.jit(lambda x, sizes: x * sizes[0], static_argnums=1)
    x, sizes = calor.asarray(1.0), [3]
    assert f(x, sizes).item() == 3.0
    sizes[0] = 4
    assert f(x, sizes).item() == 4.0


def test_keys_that_are_equal_and_differ_are_several() -> None:
    f = calor.jit(lambda held: next(iter(held.values())) + len(repr(next(iter(held)))))
    x = calor.asarray(0.0)
    assert [f({key: x}).item() for key in (1, True, 1.0, 1)] == [1.0, 4.0, 3.0, 1.0]
    structures = {calor.tree.flatten({key: x})[1] for key in (0.0, -0.0, 0, False)}
    assert len(structures) == 4


def test_attributes_that_are_equal_and_differ_make_two_programs() -> None:
    class Scaled(Stateful):
        def __init__(self) -> None:
            self.by: object = 1

    scaled = Scaled()
    f = calor.jit(lambda scaled, x: x + len(repr(scaled.by)))
    x = calor.asarray(0.0)
    for value in (1, True, 1.0, [0.0], [-0.0], np.float32(1), np.zeros(2), np.ones(3)):
        scaled.by = value
        assert f(scaled, x).item() == len(repr(value))


def test_a_function_that_is_always_traced_keeps_the_last_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calor.transforms.jit.PROGRAM_LIMIT", 3)
    f = calor.jit(lambda x, power: x**power, static_argnames="power")
    for power in range(5):
        f(calor.ones((2,)), power)
    assert f.trace_count == 5
    assert [line.split(":")[0].strip() for line in f.explain().splitlines()[1:4]] == ["3", "4", "5"]
    assert len(f.reasons) == 3
