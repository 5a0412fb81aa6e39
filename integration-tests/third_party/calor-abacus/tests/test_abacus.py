"""The abacus as a user meets it; what its ops compute is for calor-conformance to say."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import UnsupportedError


@pytest.fixture(autouse=True)
def abacus() -> Any:
    with calor.device("abacus") as device:
        yield device


def test_it_computes_in_memory_of_the_c_library() -> None:
    x = calor.asarray([[1.0, -2.0], [3.0, 4.0]])
    assert (x @ x + 1).tolist() == [[-4.0, -9.0], [16.0, 11.0]]
    assert calor.relu(x).tolist() == [[1.0, 0.0], [3.0, 4.0]]


def test_it_stores_no_other_dtype_and_says_so() -> None:
    with pytest.raises(UnsupportedError, match="stores no float64"):
        calor.asarray(np.zeros(3))


def test_the_end_of_a_process_is_silent() -> None:
    program = "import calor; x = calor.ones(3, device='abacus') + 1; calor.eval(x)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
