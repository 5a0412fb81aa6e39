"""What ``python -m calor doctor`` says of GPUs: each thing that may be missing, and what to do."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

import calor_cuda.diagnosis as under_test
from calor.doctor import doctor_text
from calor.errors import DeviceError
from calor_cuda.bindings import failure
from calor_cuda.diagnosis import diagnosis
from imitated_cuda import H200, CudaError
from imitated_nccl import Nccl


@pytest.fixture
def rows(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, str]]:
    """What is found on the imitated driver."""
    Nccl(fake).install(monkeypatch)
    return lambda: dict(diagnosis())


def test_what_is_there_is_told_with_its_version(fake: Any, rows: Any) -> None:
    found = rows()
    assert found["driver"] == "of CUDA 13.0; CuPy is for CUDA 13.0, and calls it"
    assert found["cuda:0"].startswith("NVIDIA H200, imitated, compute capability 9.0, kernels")
    assert found["cuda:0"].endswith("compiled for sm_90a")
    assert found["NVRTC"][0].isdigit()
    assert "NCCL" not in found


def test_several_gpus_are_told_with_their_connections(fake: Any, rows: Any) -> None:
    fake.devices = [H200] * 3
    fake.apart = {(2, 1)}
    found = rows()
    assert found["NCCL"] == "2.28.9"
    assert found["cuda:0, cuda:1"] == "they reach each other's memory"
    assert found["cuda:1, cuda:2"] == "the driver copies over the host"
    sys.modules["cupy.cuda.nccl"].available = False  # type: ignore[attr-defined]
    assert "pip install nvidia-nccl-cu13" in rows()["NCCL"]


def test_an_architecture_that_does_not_fit_is_told(fake: Any, rows: Any) -> None:
    fake.devices = [{**H200, "major": 7, "minor": 5}, {**H200, "major": 99}]
    found = rows()
    assert found["cuda:0"].endswith("7.5: too old, from 8.0 on; calor-opencl runs on it")
    assert "newer than NVRTC" in found["cuda:1"]
    assert "pip install -U nvidia-cuda-nvrtc" in found["cuda:1"]


def _fails(code: int) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        raise CudaError(code)

    return call


DRIVERS: list[tuple[str, Any, str]] = [
    ("driverGetVersion", lambda: 0, "there is none; install the GPU's driver"),
    ("driverGetVersion", lambda: 12080, "of CUDA 12.8; CuPy is for CUDA 13.0: .*calor-cuda.cu12"),
    ("getDeviceCount", _fails(35), "there is no driver, or one that is older"),
    ("getDeviceCount", _fails(100), "the driver finds no GPU"),
    ("getDeviceCount", _fails(803), "of different versions"),
]


@pytest.mark.parametrize(("name", "answer", "words"), DRIVERS, ids=[w for *_, w in DRIVERS])
def test_a_driver_that_does_not_work_is_told(
    fake: Any, rows: Any, monkeypatch: pytest.MonkeyPatch, name: str, answer: Any, words: str
) -> None:
    import re

    monkeypatch.setattr(fake.runtime, name, answer)
    assert re.search(words, rows()["driver"])


def test_packages_that_are_missing_or_twice_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        def __init__(self, name: str) -> None:
            self.name, self.version = name, "14.2.0"

    for names, words in (
        ((), "pip install"),
        (("cupy-cuda13x",), "cupy-cuda13x 14.2.0"),
        (("cupy-cuda12x", "cupy-cuda13x"), "they share files; uninstall all of them"),
    ):
        monkeypatch.setattr(under_test, "distributions", lambda names=names: map(Found, names))
        assert words in dict(diagnosis())["CuPy"]
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", None)
    assert 'pip install "calor-cuda[cu13]"' in dict(diagnosis())["driver"]


def test_the_doctor_says_it_and_nothing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.api", None)
    text, _ = doctor_text()
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["cuda", "found"])
    assert lines[start + 1].startswith("CuPy")
    assert any(line.startswith("driver") and "not installed" in line for line in lines[start:])


def test_a_device_that_is_not_there_leads_to_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    from calor.backends.device import device_of
    from calor_kernel.runtime.backend import KernelBackend

    def opened(number: int) -> Any:
        raise AssertionError

    with pytest.raises(DeviceError, match="python -m calor doctor what is missing"):
        device_of(KernelBackend("cuda", opened, lambda: 0), 0)


@pytest.mark.parametrize(
    ("code", "words"),
    [(209, "no image of a kernel for this architecture"), (222, "older than the compiler")],
)
def test_images_that_do_not_fit_are_typed(code: int, words: str) -> None:
    error = failure(code, "loading kernel 'exp'", number=1)
    assert type(error) is DeviceError
    assert words in str(error)
    assert str(error).startswith("cuda:1: ")
    assert "python -m calor doctor" in str(error)
