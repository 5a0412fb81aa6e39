"""A device of lanes, with a few ops of its own where a test asks for them."""

import pytest

from calor.backends.device import device_of
from calor_interpreter.device import ONE_UNIT, LanesDevice
from calor_kernel.contract.work import DENSE, LOWERINGS
from calor_kernel.planning.drafts import Drafts
from calor_kernel.planning.lowering import load_families
from calor_kernel.runtime.backend import KernelBackend

from .small_ops import SMALL


@pytest.fixture(autouse=True)
def plans_of_before(monkeypatch):
    """Find no graph that a test before planned, perhaps with other functions than the library's."""
    monkeypatch.setattr(Drafts, "key", lambda drafts, graph: None)


@pytest.fixture
def small_ops(monkeypatch):
    """Leave only the ops of SMALL, and copies."""
    load_families()
    kept = LOWERINGS["copy"]
    for table in (LOWERINGS, DENSE):
        for name in list(table):
            monkeypatch.delitem(table, name)
    monkeypatch.setitem(LOWERINGS, "copy", kept)
    monkeypatch.setitem(DENSE, "copy", frozenset())
    for name, function in SMALL.items():
        monkeypatch.setitem(LOWERINGS, name, function)
        monkeypatch.setitem(DENSE, name, None)


@pytest.fixture
def backend(small_ops):
    """Return a backend of one device like a CPU."""
    return KernelBackend("small", lambda index: LanesDevice(ONE_UNIT, checks=False), fusers=())


@pytest.fixture
def device(backend):
    """Return the backend's device."""
    return device_of(backend, 0)
