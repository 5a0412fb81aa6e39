"""Every op, with every dtype that it takes, gives what the oracle gives."""

from __future__ import annotations

import pytest

from calor.dtypes import DType

from .device import judge, numpy_of, put
from .language import Case, covering
from .tables import CASES


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    full = metafunc.config.getoption("--full", default=False)
    made = list(covering(CASES, full))
    names = [f"{c.label}-{dtype.name}" for c, dtype in made]
    metafunc.parametrize(("row", "dtype"), made, ids=names)


def test_value(row: Case, dtype: DType) -> None:
    arrays = row.draw(dtype)
    judge(row, dtype, arrays, numpy_of(row.call(*put(arrays), dtype=dtype)))
