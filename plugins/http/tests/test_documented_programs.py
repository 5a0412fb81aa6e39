"""The programs of the pages run over loopback, and compute what a device of this machine does."""

from __future__ import annotations

import runpy
import socket
from pathlib import Path

import pytest

import calor
import calor_http
from calor_http.server.local import LocalServer

PROGRAMS = Path(__file__).parents[3] / "docs" / "programs"


def _main(name):
    return runpy.run_path(str(PROGRAMS / f"{name}.py"))["main"]


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_a_model_in_two_halves():
    run, ports = _main("split_model"), (_free_port(), _free_port())
    peers = [f"http://127.0.0.1:{port}" for port in ports]
    with (
        LocalServer("numpy", port=ports[0], peers=peers[1:]) as first,
        LocalServer("numpy", port=ports[1], peers=peers[:1]) as second,
    ):
        names = [f"{server.address}/numpy" for server in (first, second)]
        got = run(*names, steps=20)
        for name in names:
            calor_http.close(name)
    assert got == pytest.approx(run("numpy", "numpy", steps=20), rel=1e-5)
    assert got < 0.5


def test_a_model_on_a_server(tmp_path):
    run = _main("train_remotely")
    with LocalServer("numpy") as server:
        name = f"{server.address}/numpy"
        got = run(name, tmp_path / "there.safetensors", steps=20)
        calor_http.close(name)
    assert got == pytest.approx(run("numpy", tmp_path / "here.safetensors", steps=20), rel=1e-5)
    there, here = (calor.load(tmp_path / f"{place}.safetensors") for place in ("there", "here"))
    assert there.keys() == here.keys()
    assert all(calor.allclose(there[key], here[key], rtol=1e-5) for key in here)
