"""Sessions that run beside each other."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import beside

SESSIONS = """
import nox

@nox.session(venv_backend="none")
def good(session):
    session.log(f"asked for {session.posargs}")

@nox.session(venv_backend="none")
def bad(session):
    session.error("a reason")
"""


def test_all_run_and_those_that_fail_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noxfile.py").write_text(SESSIONS)
    monkeypatch.setattr(beside, "ROOT", tmp_path)
    told: list[str] = []
    timed: list[str] = []

    def fail(reason: str) -> None:
        raise RuntimeError(reason)

    def timer(name: str) -> AbstractContextManager[None]:
        timed.append(name)
        return nullcontext()

    session: Any = SimpleNamespace(log=told.append, error=fail)
    with pytest.raises(RuntimeError, match="^did not pass: bad$"):
        beside.run_beside(session, {"bad": [], "good": ["this"]}, timer)
    assert sorted(timed) == ["bad", "good"]
    text = "\n".join(told)
    assert "bad ended:" in text
    assert "a reason" in text
    assert "asked for ['this']" in text
