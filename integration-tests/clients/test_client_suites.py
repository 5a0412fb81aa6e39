"""The comparison of a run with the peer's."""

import numpy as np
import pytest

from client_suites import count, only_calor_fails, under_our_name
from joined import in_place_of_the_peer


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("a.py::b[array_api_strict]", "a.py::b[calor]"),
        ("a.py::b[x-array_api_strict-CPU_DEVICE-float64-y]", "a.py::b[x-calor-None-float64-y]"),
        ("a.py::b[array_api_strict-device1-float32]", "a.py::b[calor-None-float32]"),
        ("a.py::b[numpy]", "a.py::b[numpy]"),
    ],
)
def test_tests_are_found_under_the_name_of_calor(theirs: str, ours: str) -> None:
    assert under_our_name(theirs) == ours


def test_what_the_peer_passes_must_not_fail() -> None:
    peer = {f"{name}[array_api_strict]": "passed" for name in "abcd"}
    peer["e[array_api_strict]"] = "failed"
    ours = {"a[calor]": "passed", "b[calor]": "failed", "c[calor]": "skipped", "e[calor]": "failed"}
    assert only_calor_fails(ours, peer) == ["b[calor]", "d[calor]"]
    assert count(ours) == {"failed": 2, "passed": 1, "skipped": 1}


def test_lists_of_libraries_get_calor_beside_the_peer() -> None:
    assert in_place_of_the_peer(["numpy", "array_api_strict"]) == ["calor"]
    rows = [("numpy", 1), ("array_api_strict", None)]
    assert in_place_of_the_peer(rows) == [("calor", None)]
    assert in_place_of_the_peer(["array_api_strict", "calor"]) == []
    # Parameters may be arrays, which are not compared.
    assert in_place_of_the_peer([np.ones(2), (np.ones(2), "float32")]) == []
