"""Every example in the docstrings of calor-nn does what it shows."""

import doctest
import importlib
import pkgutil

import pytest

import calor_nn

MODULES = sorted(m.name for m in pkgutil.walk_packages(calor_nn.__path__, "calor_nn."))


@pytest.mark.parametrize("name", ["calor_nn", *MODULES])
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert not found.failed
