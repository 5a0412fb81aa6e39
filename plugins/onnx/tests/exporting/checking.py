"""Exports a function, and asks whether it is right: the checker, ONNX Runtime, and load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime

import calor
import calor_onnx

onnxruntime.set_default_logger_severity(3)


def arrays(made: Any) -> list[Any]:
    """Return the tensors of a result on the host."""
    return [t.numpy() for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor)]


def agree(got: Any, want: Any, tolerance: float) -> None:
    """Check shape, dtype and numbers of one result."""
    got = np.asarray(got)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    wide = np.float64 if want.dtype.kind in "fV" else want.dtype
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), tolerance, tolerance)


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """Return ONNX Runtime's session of a model, on the CPU."""
    return onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )


def checked(
    function: Callable[..., Any],
    *arguments: Any,
    others: tuple[tuple[Any, ...], ...] = (),
    tolerance: float = 2e-5,
    **options: Any,
) -> onnx.ModelProto:
    """Export for the arguments; run the model on them and on others; return it."""
    model = calor_onnx.export(function, *arguments, **options)
    onnx.checker.check_model(model, full_check=True)
    theirs, ours = session(model), calor_onnx.load(model)
    names = [i.name for i in model.graph.input]
    for given in (arguments, *others):
        leaves = calor.tree.leaves(given)
        inputs = [np.asarray(x.numpy() if isinstance(x, calor.Tensor) else x) for x in leaves]
        feeds = dict(zip(names, inputs, strict=True))
        want = arrays(function(*given))
        for got, expected in zip(theirs.run(None, feeds), want, strict=True):
            agree(got, expected, tolerance)
        for back, expected in zip(ours.run(feeds).values(), want, strict=True):
            agree(back.numpy(), expected, tolerance)
    return model
