"""Rows that later passes find in the last cache."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from calor.dtypes import float32, int32
from calor_interpreter.device import MANY_UNITS
from calor_kernel.contract.work import Input, View
from calor_kernel.library.reduce.cooperative_rows import read_again
from calor_kernel.library.reduce.job import Axes, Layout, Placed


def problem(terms, caches, shared=0, readings=3):
    """Return rows of so many terms, and a line of numbers with a stride of ``shared`` by rows."""
    rows = View((256, terms), (terms, 1), float32)
    line = View((256, terms), (shared, 1), int32)
    kept, along = Axes((256,), ((terms,), (shared,))), Axes((terms,), ((1,), (1,)))
    return SimpleNamespace(
        job=SimpleNamespace(sources=(Placed(Input(0), rows), Placed(Input(1), line))),
        along=(True, True),
        layout=Layout(kept, along),
        schedule=SimpleNamespace(count=readings),
        info=replace(MANY_UNITS, cores=128, caches=caches),
    )


CACHE = (1 << 17, 40 << 20)


@pytest.mark.parametrize(
    ("given", "again"),
    [
        (problem(50257, CACHE), True),
        (problem(50257, CACHE, shared=50257), False),
        (problem(5000, CACHE), False),
        (problem(128256, CACHE), False),
        (problem(50257, CACHE, readings=1), False),
        (problem(50257, CACHE[:1]), False),
    ],
    ids=["a shared line", "two operands", "short", "long", "one reading", "a cache of a core"],
)
def test_rows_that_the_last_cache_holds(given, again):
    """A line that all rows share is there once."""
    assert read_again(given) == again
