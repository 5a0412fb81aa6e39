"""What ``python -m calor doctor`` says of Metal: each thing that may be missing, and what to do."""

import platform
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from calor_metal.diagnosis import diagnosis


def metal(*gpus: tuple[str, bool]) -> Any:
    made = [
        SimpleNamespace(name=lambda n=name: n, supportsFamily_=lambda family, n=new: n)
        for name, new in gpus
    ]
    return SimpleNamespace(MTLGPUFamilyMetal3=5001, MTLCopyAllDevices=lambda: made)


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("", "Metal is a part of macOS; choose another device, such as wgpu"),
        ("14.7.1", "macOS 14.7.1: too old, from 15 on"),
        ("26.0", "macOS 26.0"),
    ],
)
def test_the_system_is_told(monkeypatch: pytest.MonkeyPatch, release: str, words: str) -> None:
    monkeypatch.setattr(platform, "mac_ver", lambda: (release, ("", "", ""), ""))
    assert dict(diagnosis(metal()))["system"].endswith(words)


def test_gpus_are_told() -> None:
    found = dict(diagnosis(metal(("Apple M4", True), ("Old", False))))
    assert found["GPU 0"] == "Apple M4"
    assert "it runs no Metal 3" in found["GPU 1"]
    assert "none" in dict(diagnosis(metal()))["GPUs"]


def test_without_pyobjc_the_doctor_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Metal", None)
    found = dict(diagnosis())
    assert set(found) == {"system", "PyObjC"}
    if not platform.mac_ver()[0]:
        assert "pip install pyobjc-framework-Metal" in found["PyObjC"]
