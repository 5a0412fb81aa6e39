"""Bundles: made from a cache or by running a program, and used without a cache of one's own."""

import subprocess
import sys

import pytest

from calor_interpreter.device import LanesDevice
from calor_kernel.__main__ import main
from calor_kernel.device.kernels import Kernels
from calor_kernel.device.storage import Lines

from .test_images import dense


def test_a_cache_becomes_a_bundle(own_cache, tmp_path, monkeypatch, capsys):
    Kernels(LanesDevice()).load([dense(4), dense(8)])
    Lines(own_cache / "tuning" / "x.lines").put("key", {"work": "name"})
    bundle = tmp_path / "bundle"
    assert main(["bundle", str(bundle)]) == 0
    assert "2 kernels" in capsys.readouterr().out
    assert main(["bundle", str(bundle)]) == 0
    assert "2 kernels" in capsys.readouterr().out
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setenv("CALOR_BUNDLES", str(bundle))
    kernels = Kernels(LanesDevice())
    kernels.load([dense(8), dense(4)])
    assert (kernels.compiled, kernels.found) == (0, 2)
    assert not (tmp_path / "empty").exists()
    assert Lines(None, [bundle / "tuning" / "x.lines"]).get("key") == {"work": "name"}


PROGRAM = """
import numpy as np
from calor_kernel.runtime.backend import KernelBackend
from calor_interpreter.device import LanesDevice
from calor.backends.device import device_of
import calor
with calor.device(device_of(KernelBackend("bundled", lambda index: LanesDevice()), 0)):
    calor.asarray(np.ones((3, 3))).T.copy().numpy()
"""


@pytest.mark.parametrize(("code", "status"), [(PROGRAM, 0), ("raise SystemExit(3)", 3)])
def test_a_program_becomes_a_bundle(tmp_path, capsys, code, status):
    command = ["bundle", str(tmp_path / "made"), "--", sys.executable, "-c", code]
    assert main(command) == status
    assert ("made: 1 kernels" in capsys.readouterr().out) == (status == 0)


def test_the_cache_is_described(own_cache):
    command = [sys.executable, "-m", "calor_kernel", "cache"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert found.stdout == f"{own_cache}: 0 kernels, 0 bytes; 0 tuning results\n"
