"""Checks of files that a device keeps, and of failures inside control flow.

Each passes on the reference, and fails where a rule is broken: a cache whose files are not compared
with their digests, and reads that take the nearest place instead of an error.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import calor
from calor.plugins.discovery import get_device
from calor.reference import indexing
from calor_conformance.checks.base import Place
from calor_conformance.checks.damaged_caches import damaged_caches
from calor_conformance.checks.failing_loops import failing_loops
from reference_failures import failures

LOOPS = [check.name for check in failing_loops()]
REFUSED = "stored/caches-refused"
CACHES = {check.name: check for check in damaged_caches()}


@pytest.mark.parametrize("name", [*LOOPS, *CACHES])
def test_the_reference_passes(name: str) -> None:
    assert failures(name, 3) == []


@pytest.mark.parametrize("name", LOOPS)
def test_the_nearest_place_is_no_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def nearest(indices: Any, size: int, axis: int = 0) -> Any:
        return np.clip(indices, 0, size - 1)

    monkeypatch.setattr(indexing, "_checked", nearest)
    assert any("no error was raised" in told for told in failures(name, 3))


@pytest.mark.skipif(find_spec("calor_cpu") is None, reason="a device with a cache")
@pytest.mark.parametrize("name", [name for name in CACHES if name != REFUSED])
def test_files_that_nobody_compares_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_kernel.device import storage

    device = get_device("cpu")

    def asked() -> None:
        for seed in range(5):
            CACHES[name].run(Place(device, device, seed))

    with calor.device(device):
        CACHES[name].run(Place(device, device))
        monkeypatch.setattr(storage, "_digest", lambda key, data: bytes(32))
        with pytest.raises(Exception, match=r".+"):
            asked()


@pytest.mark.skipif(find_spec("calor_cpu") is None, reason="a device with a cache")
def test_what_a_driver_refuses_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from calor_kernel.device.kernels import Kernels

    device = get_device("cpu")
    monkeypatch.setattr(Kernels, "_accepted", Kernels._loaded)
    with calor.device(device), pytest.raises(Exception, match=r".+"):
        CACHES[REFUSED].run(Place(device, device))
