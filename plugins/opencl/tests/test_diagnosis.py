"""What ``python -m calor doctor`` says of OpenCL: what may be missing, and what to do."""

import sys
from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from calor.doctor import doctor_text
from calor_opencl import _bindings
from calor_opencl.diagnosis import diagnosis


def platform(name: str, *devices: Any) -> Any:
    return SimpleNamespace(
        name=name, version="OpenCL 3.0 ", get_devices=lambda: list(devices), devices=devices
    )


WHOLE = SimpleNamespace(
    name="Big ",
    opencl_c_version="OpenCL C 3.0 ",
    extensions="cl_khr_fp64 cl_khr_int64_base_atomics",
)
SMALL = SimpleNamespace(name="Small", opencl_c_version="OpenCL C 1.2", extensions="")


@pytest.fixture
def platforms(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the loader finds."""
    found = [platform("One", WHOLE), platform("Two", SMALL)]
    monkeypatch.setattr(cl, "get_platforms", lambda: found)
    monkeypatch.delenv("CALOR_OPENCL_PLATFORM", raising=False)
    return found


def test_what_is_there_is_told(platforms: list[Any]) -> None:
    found = dict(diagnosis())
    assert found["pyopencl"][0].isdigit()
    assert found["drivers"] == "One (OpenCL 3.0), Two (OpenCL 3.0)"
    assert found["opencl:0"] == "Big, OpenCL C 3.0"
    assert found["opencl:1"] == "Small, OpenCL C 1.2, without float64, atomics of 64 bits"


def test_platforms_that_are_left_out_are_told(
    platforms: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALOR_OPENCL_PLATFORM", "two")
    found = dict(diagnosis())
    assert found["drivers"].endswith("; CALOR_OPENCL_PLATFORM leaves out One")
    assert found["opencl:0"].startswith("Small")


def test_no_driver_is_told_with_what_to_do(
    platforms: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    platforms.clear()
    assert "apt-get install pocl-opencl-icd" in dict(diagnosis())["drivers"]

    def refused() -> Any:
        raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(cl, "get_platforms", refused)
    assert "apt-get install pocl-opencl-icd" in dict(diagnosis())["drivers"]


def test_a_library_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.setattr(_bindings, "devices", lambda: [][0])
    found = dict(diagnosis())
    assert found["drivers"].startswith("it fails: ModuleNotFoundError")
    assert set(found) == {"pyopencl", "drivers"}


def test_the_doctor_says_it(platforms: list[Any]) -> None:
    lines = doctor_text()[0].splitlines()
    assert any(line.split() == ["opencl", "found"] for line in lines)
