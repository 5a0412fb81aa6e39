"""Do orders of sums have each sum once, and do neighbours share a factor?"""

from itertools import pairwise

import pytest

from calor_kernel.library.gemm.simt_plan import ORDERS, numbers

SIZES = [(8, 16), (8, 8), (12, 4), (4, 4)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_each_sum_is_there_once(order, size):
    found = numbers(order, *size)
    assert set(found) == {(i, j) for i in range(size[0]) for j in range(size[1])}
    assert list(found.values()) == list(range(size[0] * size[1]))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("order", sorted(set(ORDERS) - {"rows"}))
def test_neighbours_share_a_factor(order, size):
    places = list(numbers(order, *size))
    alone = [(p, q) for p, q in pairwise(places) if p[0] != q[0] and p[1] != q[1]]
    assert alone == []
