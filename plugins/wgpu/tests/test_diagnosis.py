"""What ``python -m calor doctor`` says of wgpu: each thing that may be missing, and what to do."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from calor_wgpu import _bindings
from calor_wgpu.diagnosis import diagnosis


def adapter(device: str, *features: str) -> Any:
    info = {"device": device, "backend_type": "Vulkan", "description": "Mesa 25"}
    return SimpleNamespace(info=info, features=set(features))


def seen(monkeypatch: pytest.MonkeyPatch, *adapters: Any) -> dict[str, str]:
    monkeypatch.setattr(_bindings, "adapters", lambda: adapters)
    return dict(diagnosis())


def test_what_is_there_is_told_and_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = adapter("Big", "shader-int64", "shader-f64", "subgroup", "timestamp-query")
    found = seen(monkeypatch, whole, adapter("Small", "subgroup", "timestamp-query"))
    assert found["wgpu"][0].isdigit()
    assert found["drivers"] == "Vulkan (Mesa 25)"
    assert found["wgpu:0"] == "Big, Vulkan"
    assert found["wgpu:1"] == "Small, Vulkan, without integers of 64 bits, float64"


def test_no_driver_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALOR_WGPU_ADAPTER", raising=False)
    assert seen(monkeypatch)["drivers"].startswith("there is none of Vulkan, Metal or Direct3D 12")
    assert "apt-get install mesa-vulkan-drivers" in seen(monkeypatch)["drivers"]
    monkeypatch.setenv("CALOR_WGPU_ADAPTER", "nvidia")
    assert seen(monkeypatch)["drivers"].startswith("CALOR_WGPU_ADAPTER leaves out all but 'nvidia'")


def test_a_library_that_does_not_load_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "calor_wgpu._bindings", None)
    found = dict(diagnosis())
    assert found["drivers"].startswith("it fails: ModuleNotFoundError")
    assert set(found) == {"wgpu", "drivers"}
