"""The devices that the plugin enters: graphs on interpreted kernels, with all checks."""

import subprocess
import sys

import numpy as np
import pytest

import calor
from calor.errors import DeviceError
from calor_interpreter.devices import diagnosis


@pytest.mark.parametrize("name", ["interpreter", "interpreter:1"])
def test_graphs_run_with_checks(name):
    x = calor.asarray(np.arange(12, dtype=np.float32).reshape(3, 4), device=name)
    result = calor.softmax(x @ x.T, axis=-1)
    assert result.device.name == (name if ":" in name else f"{name}:0")
    expected = calor.softmax(calor.asarray(x.numpy(), device="numpy") @ x.numpy().T, axis=-1)
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)


def test_devices_are_like_a_processor_and_like_a_gpu():
    planes = [calor.ones(3, device=f"interpreter:{i}").device.info.description for i in range(2)]
    assert "one unit" in planes[0]
    assert "planes of 8" in planes[1]
    assert [text for _, text in diagnosis()[1:]] == planes


def test_number_without_a_device():
    with pytest.raises(DeviceError, match="has 2 devices"):
        calor.ones(3, device="interpreter:2")


def test_entry_module_imports_nothing_heavy():
    program = "import sys, calor_interpreter.plugin; sys.exit('calor_kernel' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
