"""What the tests of matrix products share."""

import pytest

from calor_kernel.library.matmul import gpu_ways


@pytest.fixture(autouse=True)
def gemv_of_any_size(monkeypatch):
    """Take GEMV for few multiplications too, which run on lanes quickly."""
    monkeypatch.setattr(gpu_ways, "_FEW_TERMS", 0)
