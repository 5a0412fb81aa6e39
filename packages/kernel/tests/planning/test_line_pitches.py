"""Do results with a pitch lie where their readers look, however a program is divided?"""

from typing import Any

import calor.nn.functional as F
import numpy as np
import pytest

import calor
from calor.dtypes import bfloat16, float16, float32
from calor.graph.interpreter import interpret
from calor_interpreter.device import MANY_UNITS, LanesDevice
from calor_kernel.library.elementwise import ElementwiseFuser
from calor_kernel.library.reduce import RowFuser, program_launch
from calor_kernel.planning import line_pitches
from calor_kernel.planning.replanning import plan_anew
from calor_kernel.runtime.backend import KernelBackend

AXES = (0, 2, 3)


def beside(x: Any, w: Any) -> Any:
    """Sums of what a convolution reads."""
    y = F.silu(x)
    return F.conv2d(y, w), calor.sum(y.astype(float32), axis=AXES)


def behind(x: Any, w: Any) -> Any:
    """A convolution of what depends on sums of the same rows."""
    total = calor.sum(x.astype(float32), axis=AXES, keepdims=True)
    return F.conv2d((x * total.astype(x.dtype)).astype(x.dtype), w)


def normed(x: Any, w: Any) -> Any:
    """A norm of channels in front of a convolution, and its gradient."""

    def loss(x: Any, w: Any) -> Any:
        over = x.astype(float32)
        centred = over - calor.mean(over, axis=AXES, keepdims=True)
        norm = calor.mean(centred * centred, axis=AXES, keepdims=True)
        y = F.conv2d((centred / calor.sqrt(norm + 1e-3)).astype(x.dtype), w)
        return calor.sum(F.silu(y.astype(float32)))

    return calor.grad(loss, argnums=(0, 1))(x, w)


@pytest.mark.parametrize("dtype", [bfloat16, float16], ids=str)
@pytest.mark.parametrize("whole", [1 << 10, 1 << 30], ids=["divided", "whole"])
@pytest.mark.parametrize("images", [(1, 3, 41, 26), (5, 4, 9, 10)], ids=str)
@pytest.mark.parametrize("function", [beside, behind, normed])
def test_results_with_a_pitch_are_where_readers_look(
    monkeypatch: pytest.MonkeyPatch, function: Any, images: Any, whole: int, dtype: Any
) -> None:
    weights = (images[1], images[1], 1, 1)
    with calor.device("numpy"):
        given = [calor.zeros(shape, dtype=dtype) for shape in (images, weights)]
        graph = calor.trace(function, *given)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype.numpy) for shape in (images, weights)]
    # All images that may have a pitch get one, whatever it costs, and rows are divided or not.
    for name in ("_LEAST", "_MORE"):
        monkeypatch.setattr(line_pitches, name, 1)
    monkeypatch.setattr(line_pitches._Search, "saves", lambda search, found: True)
    for name in ("_WHOLE", "_LEAST", "_MOST"):
        monkeypatch.setattr(program_launch, name, whole)
    fusers = RowFuser(), ElementwiseFuser()
    backend = KernelBackend("lanes", lambda index: LanesDevice(MANY_UNITS), fusers=fusers)
    plan = plan_anew(backend.engine(0), graph)
    if whole > 1 << 20:
        assert any(task.pitches for task in plan.draft.tasks)
    made = plan([backend.upload(0, array) for array in arrays])
    for buffer, spec, other in zip(made, graph.output_specs, interpret(graph, arrays), strict=True):
        one = np.array(backend.download(0, buffer, spec)).astype(np.float32)
        other = np.asarray(other).astype(np.float32)
        np.testing.assert_allclose(one, other, rtol=2e-2, atol=2e-2 * np.abs(other).max())
