"""A covering sample of the library's kernels, compiled for two architectures and run on lanes."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor_kernel.runtime.backend import KernelBackend
from library_cases import CASES, assert_near, flat

OLDEST = "sm_80"


@pytest.mark.parametrize("name", CASES)
def test_a_family(imitated: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    function, operands = CASES[name]
    from calor_cuda.toolchain import CudaToolchain

    sources: list[tuple[str, str]] = []
    compiled = CudaToolchain.compile

    def kept(self: CudaToolchain, source: str, name: str) -> bytes:
        sources.append((source, name))
        return compiled(self, source, name)

    monkeypatch.setattr(CudaToolchain, "compile", kept)
    found = {}
    device = device_of(KernelBackend("cuda", lambda number: imitated), 0)
    for place in ("numpy", device):
        with calor.device(place):
            found[place] = flat(function(*map(calor.asarray, operands)))
    for a, b in zip(found[device], found["numpy"], strict=True):
        assert_near(name, a, b)
    assert sources
    older = CudaToolchain(OLDEST)
    for source, kernel in sources:
        if "wgmma" not in source:
            assert compiled(older, source, kernel)[1:4] == b"ELF"


@pytest.mark.parametrize("name", ["fragments", "attention by mma"])
def test_products_on_an_older_gpu(fake: Any, name: str) -> None:
    from calor_cuda.device import CudaDevice

    fake.devices = [{**fake.devices[0], "major": 8, "minor": 0}]
    opened = CudaDevice(0)
    assert opened.toolchain.architecture == OLDEST
    assert not opened.info.has("async_matrix")
    function, operands = CASES[name]
    found = []
    for place in ("numpy", device_of(KernelBackend("cuda", lambda number: opened), 0)):
        with calor.device(place):
            found += flat(function(*map(calor.asarray, operands)))
    np.testing.assert_allclose(found[1], found[0], rtol=5e-2, atol=2e-2 * np.abs(found[0]).max())
    assert any("mma.sync" in source for source in fake.sources)
    assert not any("wgmma" in source for source in fake.sources)
