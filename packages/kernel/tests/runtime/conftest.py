"""Nothing of these tests is read from or left in the user's cache."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Keep everything in the test's own directory."""
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CALOR_BUNDLES", raising=False)
    return tmp_path / "cache"
