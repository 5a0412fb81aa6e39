"""Which devices the conformance suite is asked of, and how a served one is opened."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from proving import DEVICES, SERVED, base_name, lent


def test_a_served_device_is_that_of_a_server() -> None:
    program = "import sys, calor; print(calor.ones(3, device=sys.argv[1]).sum().item())"
    with lent(sys.executable, f"{SERVED}numpy", dict(os.environ)) as name:
        assert name.startswith("http://127.0.0.1:")
        assert name.endswith("/numpy")
        command = [sys.executable, "-c", program, name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "3.0\n"
    with lent(sys.executable, "strict:numpy", {}) as name:
        assert name == "strict:numpy"


def test_a_server_that_does_not_start_is_told() -> None:
    with (
        pytest.raises(RuntimeError, match="no server lends nothing"),
        lent(sys.executable, f"{SERVED}nothing", dict(os.environ)),
    ):
        pass


def test_each_device_has_a_backend() -> None:
    assert f"{SERVED}numpy" in DEVICES
    assert base_name(f"{SERVED}numpy") == "numpy"
    assert base_name("router:cpu,numpy") == "cpu"
    assert base_name("strict:numpy") == "numpy"
    assert base_name("interpreter:1") == "interpreter"
