"""Tests of remote devices leave none behind: their servers are gone, and others wait for them."""

from collections.abc import Iterator

import pytest

from calor.local import local


@pytest.fixture(autouse=True)
def no_traces_of_servers_that_are_gone() -> Iterator[None]:
    yield
    for device in [d for d in local.traces if d.name.startswith(("http://", "https://"))]:
        del local.traces[device]
