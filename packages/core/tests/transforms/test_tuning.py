"""What ``calor.tune`` refuses; what it measures is tested with the kernels."""

import pytest

import calor
from calor.errors import ArgumentError, UnsupportedError


def test_a_function_that_is_not_compiled() -> None:
    def double(x: calor.Tensor) -> calor.Tensor:
        return x * 2

    with pytest.raises(ArgumentError, match=r"double is not compiled; pass calor.jit\(function\)"):
        calor.tune(double, calor.ones(2))


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_no_time(seconds: float) -> None:
    with pytest.raises(ArgumentError, match="leaves no time; pass a positive number"):
        calor.tune(calor.jit(lambda x: x), calor.ones(2), seconds=seconds)


@pytest.mark.parametrize("bound", [False, True])
def test_a_device_with_one_way_for_each_operation(bound: bool) -> None:
    x = calor.ones(2, device="numpy")
    function = calor.jit(lambda x: x * 2)
    with pytest.raises(UnsupportedError, match="numpy:0 has one way to do each operation"):
        calor.tune(*(function.bind(x),) if bound else (function, x))
    assert function.trace_count == 0
