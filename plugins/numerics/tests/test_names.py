"""The names of the distribution: what type checkers read is what programs find."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import calor
import calor_numerics
import calor_numerics.random
import calor_numerics.signal
from calor.late import LATE, RANDOM


def test_late_names_are_those_that_type_checkers_read() -> None:
    source = ast.parse(inspect.getsource(calor_numerics))
    (block,) = (part for part in source.body if isinstance(part, ast.If))
    read = {
        alias.name: part.module
        for part in block.body
        if isinstance(part, ast.ImportFrom)
        for alias in part.names
    }
    assert read == {name: home for name, home in LATE.items() if home.startswith("calor_numerics.")}
    assert sorted(calor_numerics.__all__) == sorted([*read, "random", "signal"])
    assert sorted(calor_numerics.random.__all__) == sorted(RANDOM)


def test_a_name_is_one_function_however_it_is_reached() -> None:
    for name in ("diag", "nansum"):
        assert getattr(calor_numerics, name) is getattr(calor, name)
        assert name in dir(calor)
        assert name in dir(calor_numerics)
    assert calor.signal is calor_numerics.signal
    assert calor.random.gamma is calor_numerics.random.rejection.gamma
    assert "gamma" in dir(calor.random)


MISSING = """
import sys
sys.modules["calor_numerics"] = None
import calor
from calor import *
assert add and not hasattr(calor, "diag") and not hasattr(calor.random, "gamma")
print({"diag", "signal"} <= set(dir(calor)), "gamma" in dir(calor.random))
"""


def test_without_the_distribution_programs_can_ask_for_a_name() -> None:
    command = [sys.executable, "-c", MISSING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_a_name_of_nothing_is_an_attribute_error() -> None:
    for module in (calor_numerics, calor.random):
        assert not hasattr(module, "no_such_function")
