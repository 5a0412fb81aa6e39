"""Servers and routers of one process: opening and measuring wait for each other in no circle."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# A new process with no figures yet: the router measures a device which the server's threads open.
FRESH = """
import sys

import calor
from calor_http.server.local import LocalServer

lent, names = sys.argv[1:]
with LocalServer(lent) as server:
    with calor.device(names.replace("SERVER", server.address)):
        x = calor.ones((4, 4))
        print(calor.jit(lambda x: (x @ x).sum())(x).item())
"""


@pytest.mark.parametrize(
    ("lent", "names"),
    [
        ("cpu", "router:SERVER/cpu,cpu"),
        ("router:numpy", "router:SERVER/router:numpy:0,cpu"),
    ],
)
def test_a_router_measures_a_device_of_this_process(tmp_path: Path, lent: str, names: str) -> None:
    program = subprocess.run(
        [sys.executable, "-c", FRESH, lent, names],
        env={**os.environ, "CALOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert program.stdout == "64.0\n", program.stderr
