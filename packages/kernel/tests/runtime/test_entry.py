"""What does not load is told by a typed error, and leaves other backends alone."""

import sys

import pytest

from calor.errors import PluginError
from calor_kernel.runtime.entry import lazy_backend


def test_a_library_that_is_missing(tmp_path, monkeypatch):
    package = tmp_path / "broken_device"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text("import library_that_nobody_has\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_device", raising=False)
    backend = lazy_backend("broken", "broken_device", "driver:Device", "driver:count")
    with pytest.raises(PluginError, match=r"library_that_nobody_has.*calor\[broken\]") as caught:
        backend.enumerate()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
