"""Intrinsics: their text per language, their meaning on lanes, and what is refused."""

import pickle

import numpy as np
import pytest

from calor.dtypes import float32, int32
from calor.errors import CompileError
from calor_interpreter.launch import run_on_lanes
from calor_kernel.errors import KernelTypeError
from calor_kernel.ir.types import Type
from calor_kernel.language import Buffer, Scalar, absolute_position, kernel
from calor_kernel.language.intrinsics import Intrinsic, intrinsic


@intrinsic(
    "float32x4, float32 -> float32x4",
    opencl="fmin({0}, {1})",
    c="clamp_down({0}, {1})",
    llvm="{result} = call <4 x float> @clamp_down(<4 x float> {0}, float {1})",
)
def clamp_down(vector, bound):
    return np.minimum(vector, bound[:, None])


@intrinsic("int32 -> ", c="note({0});")
def note(value):
    del value


@intrinsic("int32 -> int32")
def too_wide(value):
    return value.astype(np.int64)


@kernel
def clamped(x, y, n, *, bound):
    i = absolute_position()
    note(n)
    y.store(i * 4, clamp_down(x.load(i * 4, 4), bound))


FLOATS = Buffer(float32)


def test_the_meaning_runs_on_lanes() -> None:
    x = np.arange(12, dtype=np.float32)
    y = np.zeros_like(x)
    built = clamped.build([FLOATS, FLOATS, Scalar(int32)], bound=5.5)
    run_on_lanes(built, (3, 1, 1), [x, y, 3])
    np.testing.assert_array_equal(y, np.minimum(x, np.float32(5.5)))


@pytest.mark.parametrize(
    ("languages", "text"),
    [(("opencl", "c"), "fmin({0}, {1})"), (("cuda", "c"), "clamp_down({0}, {1})")],
)
def test_texts(languages: tuple[str, ...], text: str) -> None:
    assert clamp_down.text(*languages) == text


def test_no_text() -> None:
    with pytest.raises(CompileError, match="has text for opencl, c, llvm, not for wgsl"):
        clamp_down.text("wgsl")
    with pytest.raises(CompileError, match="no language, not for c"):
        too_wide.text("c")


def test_a_kernel_with_intrinsics_goes_to_other_processes() -> None:
    built = clamped.build([FLOATS, FLOATS, Scalar(int32)], bound=1.0)
    again = pickle.loads(pickle.dumps(built))
    calls = [o for o in again.body.walk() if o.name == "inline"]
    assert [o.attributes["intrinsic"] for o in calls] == [note, clamp_down]
    assert repr(clamp_down).endswith("test_intrinsics.clamp_down>")
    assert clamp_down.result == Type(float32, 4)


@kernel
def calls(x, *, function, arguments):
    function(*(x[0] if a is None else a for a in arguments))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (clamp_down, (None,), "2 operands, not 1"),
        (clamp_down, (None, 1.0), "takes float32x4, float32, not float32, float32"),
        (note, (None,), "takes int32, not float32"),
    ],
)
def test_wrong_calls(function: Intrinsic, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        calls.build([FLOATS], function=function, arguments=arguments)


@kernel
def wrong(x):
    x[0] = too_wide(x[0])


def test_a_reference_that_breaks_its_signature() -> None:
    with pytest.raises(KernelTypeError, match="too_wide returns int64 of shape"):
        run_on_lanes(wrong.build([Buffer(int32)]), (1, 1, 1), [np.zeros(1, np.int32)])


@pytest.mark.parametrize(
    ("signature", "text", "message"),
    [
        ("int32", "f({0})", "is like"),
        ("int32 -> int32", "f({1})", "names 1; there are 0, result"),
        ("int32 ->", "{result} = f({0})", "names result"),
        ("int32, int32 -> int32", "f({0}, {1})", "takes 1 parameters, and its signature names 2"),
    ],
)
def test_wrong_declarations(signature: str, text: str, message: str) -> None:
    with pytest.raises(KernelTypeError, match=message):
        intrinsic(signature, c=text)(lambda x: x)
