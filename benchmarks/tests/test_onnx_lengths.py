"""The program that times an ONNX model at many sizes."""

import json
import sys
from pathlib import Path

import onnx
import pytest

import onnx_lengths


def test_both_runtimes_meet_all_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        doubled (float[N, T] x, int64[1] length) => (float[N, T] y) {
            f = Cast <to = 1> (length)
            y = Mul (x, f)
        }""")
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    command = f"onnx_lengths.py {path} --vary T=3:6 --set N=2 --like length=T --side calor"
    monkeypatch.setattr(sys, "argv", command.split())
    assert onnx_lengths.main() == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["new_sizes_seconds"] > 0
    assert figures["peak_bytes"] > 1e6


def test_an_axis_without_a_size_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        doubled (float[N, T] x) => (float[N, T] y) { y = Add (x, x) }""")
    path = tmp_path / "model.onnx"
    onnx.save(model, str(path))
    monkeypatch.setattr(sys, "argv", f"onnx_lengths.py {path} --vary T=3:6 --side calor".split())
    with pytest.raises(SystemExit, match="'N'"):
        onnx_lengths.main()
