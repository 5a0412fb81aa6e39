"""The devices of the tests: the first GPU, and one that is imitated on the host."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_contract import held
from imitated_cuda import H200, Fake, imitated_driver
from imitated_nccl import Nccl
from imitated_pycuda import ImitatedPyCuda

ABSENT = "there is no NVIDIA GPU with CuPy and a driver"
NO_COMPILER = "there is no NVRTC; pip install calor-cuda[compile]"


@pytest.fixture(scope="session")
def compiler() -> Any:
    """NVRTC's module, or a skip that says how to get it."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        pytest.skip(NO_COMPILER)
    return nvrtc


@pytest.fixture(scope="session")
def gpu() -> Iterator[Any]:
    """The first GPU, or a skip."""
    from calor_cuda.bindings import count

    if not count():
        pytest.skip(ABSENT)
    from calor_cuda.device import CudaDevice

    yield from held(CudaDevice(0))


@pytest.fixture
def fake(compiler: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """The imitated driver, in CuPy's place."""
    with imitated_driver(monkeypatch) as made:
        yield made


@pytest.fixture
def nccl(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Nccl:
    """Three imitated GPUs, and the imitated NCCL."""
    fake.devices = [H200] * 3
    made = Nccl(fake)
    made.install(monkeypatch)
    return made


@pytest.fixture
def imitated(fake: Fake) -> Any:
    """A device on the imitated driver."""
    from calor_cuda.device import CudaDevice

    return CudaDevice(0)


@pytest.fixture
def pycuda(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> ImitatedPyCuda:
    """The imitated PyCUDA, where there is no CuPy."""
    made = ImitatedPyCuda(fake)
    made.install(monkeypatch)
    return made


@pytest.fixture
def by_pycuda(pycuda: ImitatedPyCuda) -> Any:
    """A device on the imitated driver, called by PyCUDA."""
    from calor_cuda.device import CudaDevice

    return CudaDevice(0)
