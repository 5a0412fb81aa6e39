"""Symbolic axes, control flow, names, files, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import calor
import calor_onnx
from calor import nn
from calor.errors import ArgumentError
from calor_onnx.exporting.sizes import NotGeneral, Samples, Size

from .checking import agree, checked


def numbers(*shape: int) -> Any:
    count = int(np.prod(shape))
    return calor.asarray(np.sin(np.arange(count) * 1.37).reshape(shape).astype(np.float32))


# A function of one or two tensors, the axes that are symbolic, and shapes for each call.
X0 = {"x": {0: "N"}}
BOTH = {"x": {0: "N", 1: "T"}}
DYNAMIC = [
    ("mean", lambda x: calor.mean(x, axis=0), X0, [(2, 3), (5, 3)]),
    ("centred", lambda x: x - calor.mean(x), BOTH, [(2, 3), (4, 6)]),
    ("merged axes", lambda x: x.reshape(-1, 4), BOTH, [(2, 3, 4), (5, 1, 4)]),
    ("split axes", lambda x: x.reshape(x.shape[0], 2, 3), X0, [(2, 6), (4, 6)]),
    ("flattened", lambda x: x.reshape(-1), BOTH, [(2, 3), (4, 5)]),
    ("ramp", lambda x: calor.arange(x.shape[0]) + 1, X0, [(2, 3), (7, 3)]),
    ("last", lambda x: x[-1], X0, [(2, 3), (6, 3)]),
    ("all but last", lambda x: x[:-1] * 2, X0, [(3, 3), (6, 3)]),
    ("reversed", lambda x: calor.flip(x, axis=0), X0, [(2, 3), (5, 3)]),
    ("zeros beside", lambda x: calor.concat([x, calor.zeros(x.shape)]), X0, [(2, 3), (5, 3)]),
    ("scores", lambda x: nn.functional.softmax(x @ x.mT, axis=-1), BOTH, [(2, 3, 4), (3, 5, 4)]),
    ("causal", lambda x: calor.tril(x @ x.mT), BOTH, [(2, 3, 4), (3, 5, 4)]),
    ("sorted", lambda x: calor.sort(x, axis=0), X0, [(2, 3), (5, 3)]),
    ("running", lambda x: calor.cumulative_sum(x, axis=0), X0, [(2, 3), (5, 3)]),
    ("repeated", lambda x: calor.broadcast_to(x[:, None], (x.shape[0], 4, 3)), X0,
     [(2, 3), (5, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "dynamic", "shapes"), [r[1:] for r in DYNAMIC], ids=[r[0] for r in DYNAMIC]
)
def test_sizes_may_be_any(function: Any, dynamic: Any, shapes: Any) -> None:
    first, *others = [(numbers(*shape),) for shape in shapes]
    checked(function, *first, others=tuple(others), dynamic=dynamic)


MODULES = [
    ("convolutions", lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(),
                                           nn.MaxPool2d(2), nn.ConvTranspose2d(2, 1, 2, stride=2)),
     {"x": {0: "N", 2: "H"}}, [(1, 1, 4, 4), (2, 1, 8, 4)]),
    ("pooling of all", lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
     {"x": {0: "N", 2: "H", 3: "W"}}, [(1, 2, 4, 4), (2, 2, 5, 6)]),
    ("recurrent", lambda: nn.LSTM(4, 5), {"x": {0: "T", 1: "N"}}, [(3, 2, 4), (6, 1, 4)]),
    ("norms", lambda: nn.Sequential(nn.LayerNorm(4), nn.RMSNorm(4), nn.Linear(4, 2)),
     BOTH, [(2, 3, 4), (1, 6, 4)]),
    ("attention", lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=6, batch_first=True),
     {"source": {0: "N", 1: "T"}}, [(2, 3, 8), (3, 5, 8)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "dynamic", "shapes"), [r[1:] for r in MODULES], ids=[r[0] for r in MODULES]
)
def test_modules_for_any_size(make: Any, dynamic: Any, shapes: Any) -> None:
    module = make().eval()
    name = next(iter(dynamic))
    inputs = calor_onnx.export(module, numbers(*shapes[0])).graph.input
    axes = {inputs[0].name: dynamic[name]}
    first, *others = [(numbers(*shape),) for shape in shapes]
    checked(module, *first, others=tuple(others), dynamic=axes)


def _choice(x: Any) -> Any:
    return calor.cond(calor.sum(x) > 0, lambda x: x * 2, lambda x: x - 1, x)


def _halved(x: Any) -> Any:
    return calor.while_loop(lambda v: calor.max(v) > 0.1, lambda v: v * 0.5, x)


def _summed(x: Any) -> Any:
    return calor.scan(lambda c, row: (c + row, c * row), calor.zeros(3), x)


def _backwards(x: Any) -> Any:
    return calor.scan(lambda c, row: (c + row, c * row), calor.zeros(3), x, reverse=True)


def _counted(x: Any) -> Any:
    return calor.fori_loop(0, 4, lambda i, v: v * 0.5 + i, x)


@pytest.mark.parametrize("function", [_choice, _halved, _summed, _backwards, _counted])
def test_control_flow(function: Any) -> None:
    checked(function, numbers(4, 3), others=((-numbers(4, 3),), (numbers(4, 3) * 9,)))


@pytest.mark.parametrize("function", [_choice, _summed])
def test_control_flow_for_any_size(function: Any) -> None:
    checked(function, numbers(4, 3), others=((numbers(6, 3),),), dynamic=X0)


@pytest.mark.parametrize("opset", [18, 20, 21, 23, 24, 26])
def test_opsets(opset: int) -> None:
    module = nn.TransformerEncoderLayer(8, 2, dim_feedforward=6, activation="gelu").eval()
    model = checked(module, numbers(2, 3, 8), opset=opset)
    assert model.opset_import[0].version == opset


def test_composites_stay_whole() -> None:
    model = calor_onnx.export(
        lambda x: nn.functional.softmax(nn.functional.gelu(x), axis=-1), numbers(2, 3)
    )
    assert [n.op_type for n in model.graph.node] == ["Gelu", "Softmax"]


@pytest.mark.parametrize(
    ("module", "inputs"),
    [(nn.LayerNorm(4), ["x", "weight", "bias"]), (nn.RMSNorm(4), ["x", "weight"]),
     (nn.LayerNorm(4, bias=False), ["x", "weight"])],
)  # fmt: skip
def test_weights_of_a_norm_are_its_own(module: Any, inputs: list[str]) -> None:
    with calor.no_grad():
        for tensor in module.parameters():
            tensor += numbers(4)
    (node,) = checked(module.eval(), numbers(2, 3, 4)).graph.node
    assert list(node.input) == inputs


def test_a_norm_that_is_read_twice_stays() -> None:
    norm, weight = nn.LayerNorm(4, elementwise_affine=False), numbers(4)

    def function(x: Any) -> Any:
        y = norm(x)
        return y * weight, y

    checked(function, numbers(2, 4))


def test_names() -> None:
    weight = numbers(3, 2)

    def predict(image: Any, state: Any) -> Any:
        return {"scores": image @ weight, "state": [state[0] + 1, state[1] * 2]}

    model = calor_onnx.export(predict, numbers(2, 3), (numbers(1), numbers(2)))
    assert model.graph.name == "predict"
    assert [i.name for i in model.graph.input] == ["image", "state.0", "state.1"]
    assert [o.name for o in model.graph.output] == ["output.scores", "output.state.0",
                                                    "output.state.1"]  # fmt: skip
    assert "weight" in {t.name for t in model.graph.initializer}


def test_an_output_may_be_an_input_or_a_constant() -> None:
    checked(lambda x: (x, x, calor.ones(2)), numbers(3))


def test_a_file_with_weights_beside_it(tmp_path: Path) -> None:
    module, x = nn.Linear(40, 30), numbers(2, 40)
    path = tmp_path / "model.onnx"
    calor_onnx.export(module, x, path=path, external=1000)
    assert (tmp_path / "model.onnx.data").stat().st_size >= 40 * 30 * 4
    assert path.stat().st_size < 2000
    onnx.checker.check_model(path, full_check=True)
    want = module(x).numpy()
    agree(onnxruntime.InferenceSession(path).run(None, {"x": x.numpy()})[0], want, 1e-5)
    agree(calor_onnx.load(path)(x).numpy(), want, 1e-5)
    calor_onnx.export(module, x, path=tmp_path / "whole.onnx")
    assert not (tmp_path / "whole.onnx.data").exists()


def test_all_that_cannot_be_said_is_told() -> None:
    def function(x: Any) -> Any:
        return calor.nextafter(x, x * 2), calor.sinh(calor.fft.rfft(x))

    with pytest.raises(calor_onnx.ExportError) as caught:
        calor_onnx.export(function, numbers(4))
    ops = {name: line for name, _, line in caught.value.operations}
    assert set(ops) >= {"nextafter", "sinh"}
    assert all("test_export.py:" in ops[name] for name in ("nextafter", "sinh"))


REFUSALS = [
    (lambda x: x * (2 if x.shape[0] > 4 else calor.sum(x)), X0, calor_onnx.ExportError,
     "other operations are recorded"),
    (lambda x: calor.zeros(x.shape[0] // 2) + calor.sum(x), X0, calor_onnx.ExportError,
     "such as a rounded one"),
    (lambda x: nn.functional.avg_pool1d(x.mT, x.shape[0] - 1), X0,
     calor_onnx.ExportError, "window depends on a symbolic size"),
    (lambda x: x, {"y": {0: "N"}}, ArgumentError, "the inputs are x"),
    (lambda x: x, {"x": {2: "N"}}, ArgumentError, "has 2 axes"),
    (lambda x: x, {"x": {0: "N", 1: "N"}}, ArgumentError, "axes of one name have one size"),
    (lambda x: 3, {}, ArgumentError, "returns no tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "dynamic", "kind", "match"), REFUSALS)
def test_refusals(function: Any, dynamic: Any, kind: Any, match: str) -> None:
    with pytest.raises(kind, match=match):
        calor_onnx.export(function, numbers(2, 3), dynamic=dynamic)


def test_training_mode_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"inference mode by \.eval\(\)"):
        calor_onnx.export(nn.BatchNorm1d(3), numbers(2, 3))


def test_opsets_are_bounded() -> None:
    with pytest.raises(ArgumentError, match="opset=9"):
        calor_onnx.export(lambda x: x, numbers(2), opset=9)


def test_sizes() -> None:
    samples = Samples({"N": 1, "T": 4})
    made = samples.number([p["N"] * (p["T"] + 1) - 2 for p in samples.points])
    assert made == Size({("N", "T"): 1, ("N",): 1, (): -2})
    with pytest.raises(NotGeneral):
        samples.number([p["N"] // 2 for p in samples.points])
