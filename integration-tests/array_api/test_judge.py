"""The judgement of a run: reasons, the peer, and lists that grew old."""

import pytest

from judge import ListError, judge, read_list

LIST = """
# Comments and empty lines are not read.
a.py::one[x # y]  # the first reason
a.py::two  # the second reason
"""


def test_a_list_is_read_with_its_reasons() -> None:
    assert read_list(LIST) == {
        "a.py::one[x # y]": "the first reason",
        "a.py::two": "the second reason",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.py::one", "line 1 has no reason"),
        ("a.py::one  #  ", "line 1 has no reason"),
        ("a.py::one # too close", "line 1 has no reason"),
        ("a.py::one  # why\na.py::one  # again", "line 2 lists 'a.py::one' a second time"),
    ],
)
def test_a_line_without_a_reason_is_refused(text: str, message: str) -> None:
    with pytest.raises(ListError, match=message):
        read_list(text)


def test_failures_are_told_apart_by_list_and_peer() -> None:
    outcomes = {"one": "failed", "two": "passed", "three": "failed", "four": "error"}
    peer = {"one": "passed", "two": "passed", "three": "failed", "four": "passed"}
    verdict = judge(outcomes, {"one": "known", "two": "known", "five": "known"}, peer)
    assert verdict.counts == {"total": 4, "failed": 2, "passed": 1, "error": 1}
    assert verdict.failures == {"four": None, "one": "known", "three": None}
    assert verdict.unlisted == ["four", "three"]
    assert verdict.only_here == ["four", "one"]
    assert verdict.passed_though_listed == ["two"]
    assert verdict.unknown == ["five"]


def test_without_a_peer_nothing_fails_here_alone() -> None:
    assert judge({"one": "failed"}, {}).only_here == []
