"""What the tests of printed texts share: kernels whose text is kept, and one of one operation."""

from __future__ import annotations

from typing import Any

import pytest

from calor_kernel.language import kernel
from kernel_cases import cube_sum_case
from kernel_products import product_case


def kept_cases(units: int) -> pytest.MarkDecorator:
    """Return the rows of a test of texts that are kept, of cubes of so many units."""
    cases = [cube_sum_case(units), product_case()]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@kernel
def arithmetic(x: Any, y: Any, *, function: Any, width: int = 1) -> None:
    y.store(0, function(x.load(0, width)))
