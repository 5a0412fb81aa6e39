"""These tests run on the reference device."""

from collections.abc import Iterator

import pytest

import calor


@pytest.fixture(autouse=True)
def reference_device() -> Iterator[None]:
    with calor.device("numpy"):
        yield
