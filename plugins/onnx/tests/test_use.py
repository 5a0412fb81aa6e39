"""Using a model: training it further, writing it as Python, and the command line."""

import copy
import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import calor
import calor_onnx
from calor import nn, train
from calor_onnx.command import _check_module, main
from calor_onnx.comparing import apart
from calor_onnx.errors import CopyError, InputError
from calor_onnx.feeding import feed

rng = np.random.default_rng(0)


def network() -> onnx.ModelProto:
    """A small network of common layers, with scopes as exporters write them."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        net (float[N, 3, 8, 8] image) => (float[N, 5] scores, int64[N] best) {
            c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (image, conv_w, conv_b)
            n = BatchNormalization (c, bn_s, bn_b, bn_m, bn_v)
            r = Relu (n)
            p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (r)
            q = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]> (p)
            half = Constant <value_float = 0.5> ()
            h = Mul (q, half)
            a = Add (h, p)
            s = Shape (a)
            zero = Constant <value_int = 0> ()
            n0 = Gather (s, zero)
            n1 = Constant <value_ints = [-1]> ()
            axes = Constant <value_ints = [0]> ()
            n2 = Unsqueeze (n0, axes)
            shape = Concat <axis = 0> (n2, n1)
            f = Reshape (a, shape)
            g = Gemm <transB = 1> (f, fc_w, fc_b)
            l = LayerNormalization (g, ln_s, ln_b)
            e = Elu (l)
            scores = Softmax (e)
            best = ArgMax <axis = 1, keepdims = 0> (scores)
        }""")
    shapes = {"conv_w": (4, 3, 3, 3), "conv_b": (4,), "bn_s": (4,), "bn_b": (4,), "bn_m": (4,),
              "bn_v": (4,), "fc_w": (5, 16), "fc_b": (5,), "ln_s": (5,), "ln_b": (5,)}  # fmt: skip
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype(np.float32)
        array = abs(array) if name == "bn_v" else array
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for node in model.graph.node:
        where = "/body" if node.output[0] in "cnrpqha" else "/head/pool"
        node.name = f"{where}/{node.op_type}"
    return model


NET = network()
IMAGE = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(NET, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("small", [30, 5])
def test_python_source_gives_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr("calor_onnx.sections.SMALL", small)
    model = calor_onnx.load(NET, "numpy")
    source = calor_onnx.to_python(model, tmp_path / "net.py", {"image": IMAGE})
    text = source.read_text()
    assert "F.conv2d(image, self.conv_w, self.conv_b, stride=2, padding=1)" in text
    assert "h = q * 0.5" in text
    assert ("def body(self, image)" in text) == (small == 5)
    assert 'self.register_buffer("bn_m", stored["bn_m"])  # [4]' in text
    module = imported(source).Model()
    for ours, theirs in zip(module(calor.asarray(IMAGE)), model(IMAGE), strict=True):
        assert apart(ours.numpy(), theirs.numpy()) < 1e-6
    # What a person changes in the file of weights is what the source computes with.
    weights = calor.load(tmp_path / "net.safetensors")
    weights["fc_b"] = weights["fc_b"] + 10.0
    calor.save(weights, tmp_path / "net.safetensors")
    changed = imported(source).Model()
    np.testing.assert_allclose(changed.fc_b.numpy(), module.fc_b.numpy() + 10)
    assert set(dict(module.named_parameters())) == {
        "conv_w", "conv_b", "bn_s", "bn_b", "fc_w", "fc_b", "ln_s", "ln_b"
    }  # fmt: skip


def test_a_model_is_trained_further() -> None:
    model = calor_onnx.load(NET, "numpy")
    module = calor_onnx.as_module(model)
    x, y = calor.asarray(IMAGE), calor.asarray(np.eye(5, dtype=np.float32)[[1, 3]])
    names = [name for name, _ in module.named_parameters()]
    assert "weights.conv_w" in names
    assert "weights.bn_m" not in names

    def loss(module: Any, x: Any, y: Any) -> Any:
        return ((module(x)[0] - y) ** 2).mean()

    optimizer = train.SGD(module, lr=0.5)

    @calor.jit
    def step(module: Any, optimizer: Any, x: Any, y: Any) -> Any:
        found = loss(module, x, y)
        found.backward()
        optimizer.step()
        optimizer.zero_grad()
        return found

    before = model(IMAGE)[0].numpy()
    losses = [step(module, optimizer, x, y).item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] * 0.99
    # The model that it was made of stays as it is.
    np.testing.assert_array_equal(model(IMAGE)[0].numpy(), before)
    with pytest.raises(calor_onnx.InputError, match="the inputs are image"):
        module()
    for args, named in (([x, x], {}), ([x], {"image": x}), ([x], {"picture": x})):
        with pytest.raises(calor_onnx.InputError, match="give each once"):
            module(*args, **named)


def test_a_module_stays_on_the_device_of_its_model() -> None:
    module = calor_onnx.as_module(calor_onnx.load(NET, "numpy"))
    assert module.to("numpy:0") is module
    for target, named in (("cpu", {}), (None, {"device": "cpu"})):
        with pytest.raises(calor_onnx.InputError, match=r"load\(path, device='cpu:0'\)"):
            module.to(target, **named)
    assert module(IMAGE)[0].shape == (2, 5)
    with pytest.raises(calor_onnx.InputError, match="'image' is None"):
        module(None)
    around = nn.Sequential(module).to("cpu")
    with pytest.raises(calor_onnx.InputError, match="constants are on numpy:0"):
        around(IMAGE)


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_models_are_loaded_again_rather_than_copied(copied: Any) -> None:
    model = calor_onnx.load(NET, "numpy")
    session = calor_onnx.InferenceSession(NET, providers=["numpy"])
    for made in (model, session, calor_onnx.as_module(model)):
        with pytest.raises(CopyError, match="again: calor_onnx") as caught:
            copied(made)
        assert isinstance(caught.value, TypeError)


def test_an_operator_is_a_function() -> None:
    x = calor.asarray([[3.0, 1.0, 2.0]])
    values, places = calor_onnx.apply("TopK", x, np.array([2]), outputs=2)
    assert values.tolist() == [[3.0, 2.0]]
    assert places.tolist() == [[0, 2]]
    assert calor_onnx.apply("Shape", x).tolist() == [1, 3]
    with pytest.raises(calor_onnx.UnsupportedOperatorsError, match="Nothing"):
        calor_onnx.apply("Nothing", x)


def test_inputs_are_made_up_or_read(tmp_path: Path) -> None:
    model = calor_onnx.load(NET, "numpy")
    assert feed(model)["image"].shape == (1, 3, 8, 8)
    assert feed(model, shapes={"N": [4]})["image"].shape == (4, 3, 8, 8)
    np.save(tmp_path / "x.npy", IMAGE)
    np.savez(tmp_path / "x.npz", image=IMAGE, other=IMAGE[:1])
    for name in ("x.npy", "x.npz"):
        found = feed(model, files={"image": str(tmp_path / name)})
        np.testing.assert_array_equal(found["image"], IMAGE)
    with pytest.raises(calor_onnx.InputError, match="no input 'y'"):
        feed(model, files={"y": "y.npy"})
    for content in (b"", b"no numbers", b"PK\x03\x04 cut"):
        (tmp_path / "bad.npy").write_bytes(content)
        with pytest.raises(calor_onnx.InputError, match=r"np\.save"):
            feed(model, files={"image": str(tmp_path / "bad.npy")})
    text = "f (float[N] x, int8 n) => (float[N] y) { m = Cast <to = 1> (n) y = Mul (x, m) }"
    scaled = calor_onnx.load(
        onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), "numpy"
    )
    found = feed(scaled, files={"x": "1,2.5", "n": "3"})
    assert scaled.run(found)["y"].tolist() == [3.0, 7.5]
    with pytest.raises(calor_onnx.InputError, match="'n' has elements that int8 cannot hold"):
        feed(scaled, files={"n": "300"})
    with pytest.raises(calor_onnx.InputError, match="'M'; it has image, N"):
        feed(model, shapes={"M": [2]})
    with pytest.raises(calor_onnx.InputError, match="cannot have the sizes"):
        feed(model, shapes={"N": [-3]})


def test_commands(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = path.parent
    assert main([str(path), "--device", "numpy"]) == 0
    out = capsys.readouterr().out
    assert "image  float32  [N, 3, 8, 8]" in out
    assert "Conv                    1" in out
    picture = folder / "net.svg"
    looked = ["inspect", str(path), "--device", "numpy", "--draw", str(picture), "--verbose"]
    assert main(looked) == 0
    assert "\ncompiled as a whole\n" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")
    saved = folder / "saved"
    assert main(["run", str(path), "--shape", "image=2,3,8,8", "--save", str(saved)]) == 0
    assert np.load(saved / "scores.npy").shape == (2, 5)
    assert "best: int64 [2]" in capsys.readouterr().out
    assert main(["verify", str(path), "--device", "numpy", "--shape", "N=3"]) == 0
    assert capsys.readouterr().out.count("agrees") == 2
    assert main(["verify", str(path), "--device", "numpy", "--tolerance", "-1"]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    assert main(["benchmark", str(path), "--device", "numpy", "--repeats", "2"]) == 0
    assert "ratio" in capsys.readouterr().out
    assert main([str(path), "--to", "python", "--output", str(folder / "net.py")]) == 0
    assert (folder / "net.safetensors").is_file()
    assert main(["run", str(folder / "none.onnx")]) == 1
    assert "none.onnx" in capsys.readouterr().err
    assert main(["run", str(path), "--shape", "N=two"]) == 1
    assert "a size that is not a number; write x=1,3,224,224" in capsys.readouterr().err
    assert main(["benchmark", str(path), "--repeats", "0"]) == 1
    assert "repeats is 0; pass at least 1" in capsys.readouterr().err


def test_commands_tell_what_is_wrong_with_their_arguments(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out.startswith("calor-onnx 0.")
    for text in ("image", "=x.npy", "image="):
        assert main(["run", str(path), "--input", text]) == 1
        assert f"--input {text} needs a name and a value" in capsys.readouterr().err
    rows = path.with_name("rows.onnx")
    onnx.save(
        onnx.parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 17]>
            rows (float[N, M] x) => (float[N, 1] y) <float[3, 1] w = {1.0, 2.0, 3.0}>
            { [last] y = MatMul (x, w) }"""),
        rows,
    )
    assert main(["run", str(rows), "--device", "numpy"]) == 1
    told = capsys.readouterr().err
    assert "in last (MatMul" in told
    assert "random: x [1, 16]; give shapes by --shape x=1,16" in told
    assert main(["run", str(rows), "--device", "numpy", "--shape", "M=3"]) == 0
    source = path.with_suffix(".py")
    source.write_text("mine = 1\n")
    written = [str(path), "--device", "numpy", "--to", "python", "--output", str(source)]
    assert main(written) == 1
    assert "net.py would be overwritten; pass --force" in capsys.readouterr().err
    assert source.read_text() == "mine = 1\n"
    assert main([*written, "--force"]) == 0
    assert "class Model" in source.read_text()


@pytest.mark.parametrize("module", ["no_such_module", "no.such.module", "importlib", "email.none"])
def test_a_module_that_cannot_be_run_is_told(module: str) -> None:
    with pytest.raises(InputError, match=f"no module '{module}' to run"):
        _check_module(module)


def test_a_program_runs_with_calor_for_onnxruntime(path: Path) -> None:
    program = path.parent / "program.py"
    program.write_text(
        "import sys, onnxruntime\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "print(session.device.name, len(session.run(None, {'image': "
        "__import__('numpy').zeros((1, 3, 8, 8), 'f')})))\n"
    )
    command = [sys.executable, "-m", "calor_onnx", "run-program", "--device", "numpy"]
    made = subprocess.run(
        [*command, program, path], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert made.stdout.split() == ["numpy:0", "2"]
