"""Are the fusers found where the package is installed, and are there fewer launches by them?"""

import subprocess
import sys

import numpy as np

import calor
from calor.plugins.discovery import fusers
from calor_fusion.plugin import calor_fusers
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.runtime.backend import KernelBackend


def test_each_is_found():
    found = {name: make().name for name, make in calor_fusers().items()}
    assert found == {name: name for name in ("elementwise", "products", "rows")}
    assert {"elementwise", "rows"} <= fusers().keys()


def test_nothing_heavy_is_imported():
    program = "import sys, calor_fusion.plugin; print('calor_kernel' in sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "False"


def _launches(function, array, **options):
    backend = KernelBackend("lanes", lambda index: LanesDevice(ONE_UNIT), **options)
    with calor.device("numpy"):
        graph = calor.trace(function, calor.zeros(array.shape))
    executable = backend.compile(0, graph)
    (made,) = executable([backend.upload(0, array)])
    found = np.array(backend.download(0, made, graph.output_specs[0]))
    return found, sum(map(len, executable.base.recording.launches))


def test_a_backend_takes_what_is_installed():
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    chain, one = _launches(lambda x: calor.exp(-x) + x, x)
    plain, several = _launches(lambda x: calor.exp(-x) + x, x, fusers=())
    np.testing.assert_array_equal(chain, plain)
    assert (one, several) == (1, 3)


def test_a_row_with_its_reduction_is_one_launch():
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    made, launches = _launches(lambda x: calor.sqrt((x * x).sum(axis=-1)), x)
    np.testing.assert_allclose(made, np.sqrt((x * x).sum(axis=-1)), rtol=1e-6)
    assert launches == 1
