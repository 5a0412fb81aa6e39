"""Printed tensors read like NumPy's arrays."""

import io
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import TraceError

ROWS: list[tuple[Any, str | None, str]] = [
    ([[1.0, 2.0], [3.0, 4.0]], None, "tensor([[1., 2.],\n        [3., 4.]])"),
    ([1, 20, -3], None, "tensor([ 1, 20, -3])"),
    (3.5, None, "tensor(3.5)"),
    ([True, False], None, "tensor([ True, False])"),
    ([1 + 2j], None, "tensor([1.+2.j])"),
    ([1.0], "float64", "tensor([1.], dtype=float64)"),
    ([1.0, 0.1], "bfloat16", "tensor([1.    , 0.1001], dtype=bfloat16)"),
    ([0.5], "float8_e5m2", "tensor([0.5], dtype=float8_e5m2)"),
    ([7], "uint8", "tensor([7], dtype=uint8)"),
    ([], None, "tensor([])"),
    (np.zeros((0, 3), np.float32), None, "tensor([], shape=(0, 3))"),
    ([float("nan"), float("inf")], None, "tensor([nan, inf])"),
]


@pytest.mark.parametrize(("value", "dtype", "text"), ROWS, ids=[t for *_, t in ROWS])
def test_repr(value: Any, dtype: str | None, text: str) -> None:
    x = calor.asarray(value, dtype=dtype)
    assert repr(x) == text
    assert str(x) == text


@pytest.mark.parametrize(
    "shape", [(2000,), (1001,), (40, 50), (2, 3, 400), (7, 200), (6, 200), (1, 1, 1500), (8, 9, 20)]
)
def test_large_tensors_are_summarised_like_arrays(shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    expected = repr(array).replace("\n      ", "\n       ").replace("array(", "tensor(")
    if "shape=" not in expected:
        # NumPy says the shape of a summarised array from 2.2 on.
        expected = f"{expected[:-1]}, shape={shape})"
    assert repr(calor.asarray(array)) == expected


def test_only_the_corners_are_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    x = calor.zeros((3000, 3000))
    backend = x.device.backend
    original = backend.download
    sizes = []

    def download(index: int, buffer: Any, spec: Any) -> Any:
        sizes.append(spec.size)
        return original(index, buffer, spec)

    monkeypatch.setattr(backend, "download", download)
    assert "..." in repr(x)
    assert sizes == [49]


def test_what_is_not_the_default_is_named() -> None:
    x = calor.ones(2, requires_grad=True)
    assert repr(x) == "tensor([1., 1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 2.], requires_grad=True)"
    wide = calor.ones(15, dtype="float64", requires_grad=True)
    assert repr(wide).endswith("1.],\n       dtype=float64, requires_grad=True)")


def test_numpy_print_options_hold() -> None:
    with np.printoptions(precision=2, threshold=3, edgeitems=1):
        assert (
            repr(calor.asarray([1.234, 0.0, 0.0, 2.0])) == "tensor([1.23, ..., 2.  ], shape=(4,))"
        )


def test_format() -> None:
    x = calor.asarray([1.23456, 2.0])
    assert f"{x[0]:.3f}" == "1.235"
    assert f"{calor.asarray(7)}" == "7"
    assert f"{calor.asarray(7):04d}" == "0007"
    assert f"{x[1:]}" == "tensor([2.])"
    with pytest.raises(TypeError, match=r"a format such as '.2f' is for 0-d tensors"):
        f"{x:.2f}"


def test_traced_values_are_described() -> None:
    seen = []

    @calor.jit
    def function(x: calor.Tensor) -> calor.Tensor:
        y = x + 1
        seen.extend([repr(x), f"{y[0]}"])
        return y

    function(calor.ones((2, 3)))
    assert seen == ["traced float32[2, 3]", "traced float32[3]"]
    with pytest.raises(TraceError, match="asks for the value of a traced tensor"):
        calor.jit(lambda x: f"{x.sum():.3f}")(calor.ones(2))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_that_are_not_of_numpy_are_aligned(dtype: str) -> None:
    x = calor.asarray([-16.0, 0.5], dtype=dtype)
    assert repr(x) == f"tensor([-16. ,   0.5], dtype={dtype})"


def test_whole_numbers_of_another_byte_order_stay_whole() -> None:
    """NumPy's own types are told by what they are: reading a file gives them an order."""
    array = np.arange(3, dtype=np.dtype("i8").newbyteorder("<"))
    x = calor.asarray(array)
    assert repr(x) == "tensor([0, 1, 2])"
    stream = io.BytesIO()
    calor.save({"x": x}, stream)
    stream.seek(0)
    assert repr(calor.load(stream)["x"]) == "tensor([0, 1, 2])"
