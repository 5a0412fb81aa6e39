"""Sessions beside each other, for those that keep one processor busy.

A type checker, a build of wheels, pip and Sphinx each compute in one process. Two sessions of them
take the time of the longer one where there are two processors.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import nox

from projects import ROOT

Timer = Callable[[str], AbstractContextManager[None]]


class DidNotPassError(Exception):
    """A session ended with an error; its text has been printed."""


def run_beside(session: nox.Session, asked: Mapping[str, Sequence[str]], timer: Timer) -> None:
    """Run sessions, as many at a time as there are processors, the first ones first.

    ``asked``: the arguments of each, by name. Each is a process of nox. What it prints appears when
    it has ended, and ``timer(name)`` is entered while it runs.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = {name: pool.submit(_run, session, name, asked[name], timer) for name in asked}
    failed = [name for name, run in runs.items() if run.exception() is not None]
    if failed:
        session.error(f"did not pass: {', '.join(failed)}")


def _run(session: nox.Session, name: str, arguments: Sequence[str], timer: Timer) -> None:
    command = [sys.executable, "-m", "nox", "--session", name, "--", *arguments]
    with timer(name):
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        session.log(f"{name} ended:\n{done.stdout}")
        if done.returncode:
            raise DidNotPassError(name)
