"""A covering sample of the library's kernels, compiled for two architectures and run on lanes."""

from typing import Any

import numpy as np
import pytest

import calor
from calor.backends.device import device_of
from calor_kernel.runtime.backend import KernelBackend
from library_cases import CASES, flat

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
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
        assert a.dtype == b.dtype
    assert sources
    older = CudaToolchain(OLDEST)
    for source, kernel in sources:
        if "wgmma" not in source:
            assert compiled(older, source, kernel)[1:4] == b"ELF"


def test_products_on_an_older_gpu(fake: Any) -> None:
    from calor_cuda.device import CudaDevice

    fake.devices = [{**fake.devices[0], "major": 8, "minor": 0}]
    opened = CudaDevice(0)
    assert opened.toolchain.architecture == OLDEST
    assert not opened.info.has("async_matrix")
    function, operands = CASES["fragments"]
    with calor.device(device_of(KernelBackend("cuda", lambda number: opened), 0)):
        (found,) = flat(function(*map(calor.asarray, operands)))
    wanted = operands[0].astype(np.float16).astype(np.float32) @ operands[1].astype(np.float16)
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-2)
    assert any("mma.sync" in source for source in fake.sources)
