"""Complex numbers in parts, and Fourier transforms as DFT: calor's numbers, in ONNX Runtime too."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import onnx
import pytest

import calor
import calor_onnx
from calor import fft
from calor.dtypes import complex64
from calor_conformance.rows.language import Case
from calor_conformance.rows.tables import CASES
from calor_onnx.exporting.complexes import WRITTEN

from .checking import agree, arrays, checked, session

RANDOM = np.random.default_rng(0)
X = calor.asarray(RANDOM.standard_normal((3, 8, 5)).astype(np.float32))
Y = calor.asarray(RANDOM.standard_normal((2, 7, 5)).astype(np.float32))


def parts(y: Any) -> Any:
    return y.real, y.imag


TRANSFORMS = {
    "rfft": lambda x: parts(fft.rfft(x)),
    "rfft of an even length": lambda x: parts(fft.rfft(x, axis=1)),
    "fft": lambda x: parts(fft.fft(x, axis=1)),
    "ifft": lambda x: parts(fft.ifft(fft.fft(x, axis=1) * 2, axis=0)),
    "fftn": lambda x: parts(fft.fftn(x, norm="ortho")),
    "rfftn": lambda x: parts(fft.rfftn(x)),
    "irfft": lambda x: fft.irfft(fft.rfft(x)),
    "irfft of an odd length": lambda x: fft.irfft(fft.rfft(x), n=5),
    "irfftn": lambda x: fft.irfftn(fft.rfftn(x) * (1 + 2j)),
    "hfft": lambda x: fft.hfft(fft.rfft(x)),
    "one axis": lambda x: parts(fft.rfft(x[0, :, 0])),
    "a size": lambda x: calor.abs(calor.sum(fft.rfft(x), axis=0)),
    "filled up": lambda x: parts(fft.fft(x, n=12, axis=1)),
    "shifted": lambda x: parts(fft.fftshift(fft.fft(x))),
    "a convolution": lambda x: fft.irfft(fft.rfft(x, axis=1) * fft.rfft(x[::-1], axis=1), axis=1),
    "a product of matrices": lambda x: parts(fft.fft(x[0]) @ (x[0].mT + 0j)),
}


@pytest.mark.parametrize("case", TRANSFORMS)
def test_transforms(case: str) -> None:
    model = checked(TRANSFORMS[case], X, tolerance=1e-4)
    assert "DFT" in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize("opset", [18, 20])
def test_transforms_in_older_opsets(opset: int) -> None:
    checked(TRANSFORMS["rfft"], X, opset=opset, tolerance=1e-4)


@pytest.mark.parametrize("case", ["ifft", "rfft", "a size"])
def test_transforms_of_any_length(case: str) -> None:
    checked(TRANSFORMS[case], X, dynamic={"x": {0: "b", 1: "t"}}, others=((Y,),), tolerance=1e-4)


ROWS: dict[str, list[Case]] = defaultdict(list)
# A square root or quotient of infinities has no parts that are told apart; a row of nothing, and
# what ONNX lets open.
APART = {"special", "empty", "zero"}
for row in CASES:
    known = isinstance(row.operation, str) and complex64 in row.dtypes
    if known and row.op in WRITTEN and not any(word in row.label for word in APART):
        ROWS[row.op].append(row)


@pytest.mark.parametrize("op", sorted(ROWS))
def test_operations(op: str) -> None:
    for case in ROWS[op][:3]:
        operands = case.draw(complex64)
        halves = [a for x in operands for a in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
        kinds = [x.dtype.kind == "c" for x in operands]

        def operation(*given: Any, case: Case = case, kinds: list[bool] = kinds) -> Any:
            left = iter(given)
            joined = [next(left) + 1j * next(left) if k else next(left) for k in kinds]
            made = case.call(*joined, dtype=complex64)
            leaves = made if isinstance(made, tuple | list) else [made]
            return [p for y in leaves for p in (parts(y) if y.dtype.is_complex else (y,))]

        tensors = [calor.asarray(np.array(a)) for a in halves]
        with calor.no_grad():
            want = arrays(operation(*tensors))
        model = calor_onnx.export(operation, *tensors)
        onnx.checker.check_model(model, full_check=True)
        infos = model.graph.input
        feeds = {i.name: t.numpy() for i, t in zip(infos, tensors, strict=True)}
        for got, expected in zip(session(model).run(None, feeds), want, strict=True):
            agree(got, expected, 1e-4)
        for back, expected in zip(calor_onnx.load(model).run(feeds).values(), want, strict=True):
            agree(back.numpy(), expected, 1e-4)


def test_weights_may_be_complex() -> None:
    weight = calor.asarray(RANDOM.standard_normal((8, 3)).astype(np.complex64) * (1 + 2j))
    checked(lambda x: parts(fft.rfft(x, axis=1)[:, :3] * weight[:3, :1] / (2 + 1j)), X)


def test_what_is_not_said_is_told() -> None:
    z = fft.rfft(X)
    for function, argument, dynamic, message in (
        (fft.rfft, X, {}, "the output output is complex; return its parts, y.real"),
        (lambda x: x.real, z, {}, "no complex inputs; pass the parts"),
        (lambda x: calor.sinh(fft.fft(x)).real, X, {}, "sinh has no definition by real parts"),
        (lambda x: fft.irfft(fft.rfft(x)), X, {"x": {2: "n"}}, "symbolic size"),
    ):
        with pytest.raises(calor_onnx.ExportError, match=message):
            calor_onnx.export(function, argument, dynamic=dynamic)
