"""A covering sample of the library's kernels, run on the host and compiled for three processors."""

from typing import Any

import pytest

import calor
from amd_code import WAVES, checked
from calor.backends.device import device_of
from calor_host_shim.devices import HostHipToolchain, hip_device
from calor_host_shim.hip import DEVICES
from calor_kernel.runtime.backend import KernelBackend
from library_cases import CASES, assert_near, flat

BACKEND = KernelBackend("hip", hip_device, lambda: len(DEVICES))
# What the forward pass and both gradients are made of.
HALVES = {
    "gfx90a": "v_mfma_f32_32x32x8bf16_1k",
    "gfx942": "v_mfma_f32_32x32x8_bf16",
    "gfx1100": "v_wmma_f32_16x16x16_bf16",
}
INSTRUCTIONS = {
    "attention by mma": HALVES,
    "convolution by fragments": HALVES,
    "convolution of float32 by fragments": {
        "gfx90a": "v_mfma_f32_32x32x2f32",
        "gfx942": "v_mfma_f32_32x32x2_f32",
    },
}


# These compile for a quarter of a minute and more.
SLOW = {
    "attention by mma",
    "convolution by fragments",
    "convolution by patches",
    "convolution of float32 by fragments",
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES]
)
def test_a_family(cdna: Any, clang: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("CALOR_CACHE", "0")
    # What is compiled in other processes would not be seen here.
    monkeypatch.setenv("CALOR_COMPILE_WORKERS", "0")
    function, operands = CASES[name]
    compiled = HostHipToolchain.compile
    code: dict[str, list[str]] = {processor: [] for processor in WAVES}

    def both(self: HostHipToolchain, source: str, name: str) -> bytes:
        code[self.processor].append(checked(source, name, self.processor))
        return compiled(self, source, name)

    monkeypatch.setattr(HostHipToolchain, "compile", both)
    found = {}
    places = ["numpy", *(device_of(BACKEND, number) for number in range(len(DEVICES)))]
    for place in places:
        with calor.device(place):
            found[place] = flat(function(*map(calor.asarray, operands)))
    for place in places[1:]:
        for a, b in zip(found[place], found["numpy"], strict=True):
            assert_near(name, a, b)
    assert all(code.values())
    found_in = {processor: "".join(texts) for processor, texts in code.items()}
    for processor, instruction in INSTRUCTIONS.get(name, {}).items():
        assert found_in[processor].count(instruction) >= 3, processor
    if name == "fragments":
        assert "v_mfma_f32_32x32x8_f16" in found_in["gfx942"]
        assert "v_mfma_f32_32x32x2f32" in found_in["gfx90a"]
        assert "v_wmma_f32_16x16x16_f16" in found_in["gfx1100"]
