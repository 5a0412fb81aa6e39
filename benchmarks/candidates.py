"""Time every candidate of the tuner for the cases of a suite, and compare what they compute.

    python benchmarks/candidates.py SUITE --device NAME --only TEXTS --json FILE

The tuner stops where a time is good enough, and takes what it compares nothing with unless asked.
This times all candidates of each problem that a case meets, in turns, in another order each round,
by the device's clock, and says which results differ from those of the first choice. So it shows
whether the first choice is the best one, what a device would gain by tuning, and a candidate that
is wrong, for which the exit status is 1.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from calor.errors import CalorError, CompileError, OutOfMemoryError  # noqa: E402
from calor_kernel.contract.work import Work  # noqa: E402
from calor_kernel.planning.values import Task  # noqa: E402
from calor_kernel.runtime.autotune import Trial, Tuner, compare, title_of  # noqa: E402
from harness import report, runner  # noqa: E402


@dataclass
class Row:
    """A candidate of a case: its time, the first choice's beside it, and what is wrong with it."""

    case: str
    op: str
    candidate: str
    group: int
    seconds: float | None
    ratio: float | None
    problem: str = ""


class Met:
    """The tasks with several candidates that are planned while this is entered."""

    def __init__(self) -> None:
        self.tasks: list[tuple[Any, Task]] = []

    def __enter__(self) -> "Met":
        self._was = Tuner.choose

        tasks = self.tasks

        def choose(self: Tuner, task: Task) -> Work:
            if len(task.works) > 1:
                tasks.append((self.engine, task))
            return task.works[0]

        Tuner.choose = choose  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        Tuner.choose = self._was  # type: ignore[method-assign]


def rows_of(case: str, engine: Any, task: Task, rounds: int) -> Iterator[Row]:
    """Yield a row for each candidate of a task."""
    trial = Trial(engine, task)
    works, first = list(task.works), None
    times: list[list[float]] = [[] for _ in works]
    problems = [""] * len(works)
    try:
        for number, work in enumerate(works):
            try:
                times[number].append(trial.time(work, inf))
                made = trial.results()
                first = made if first is None else first
                compare(task, work, made, first)
            except (CompileError, OutOfMemoryError) as error:
                problems[number] = f"dropped out: {error}".splitlines()[0]
            except CalorError as error:
                problems[number] = str(error)
        able = [number for number, found in enumerate(times) if found]
        for _ in range(rounds - 1):
            random.shuffle(able)
            for number in able:
                times[number].append(trial.time(works[number], inf))
    finally:
        trial.close()
    medians = [statistics.median(found) if found else None for found in times]
    for work, median, problem in zip(works, medians, problems, strict=True):
        ratio = medians[0] / median if median and medians[0] else None
        yield Row(case, task.op, title_of(work), work.group, median, ratio, problem)


def line(row: Row) -> str:
    """Return a row as it is printed."""
    took = "-" if row.seconds is None else report.seconds(row.seconds)
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    return f"{row.case}  {row.op}  {row.group}  {row.candidate}  {took}  {ratio}  {row.problem}"


def main(arguments: list[str] | None = None) -> int:
    """Time the candidates; 1 where one computes something else than the first choice."""
    given = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", metavar="SUITE")
    parser.add_argument("--device", metavar="NAME", default="cpu")
    parser.add_argument("--only", metavar="TEXTS", default="", help="cases with one of these")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    # Lowerings make candidates where somebody times them; a device reads this when it is opened.
    os.environ["CALOR_TUNE"] = "on"
    only = [text for text in options.only.split(",") if text]
    cases = runner.load_suite(options.suite, options.device, (), only)
    command = shlex.join(["python", "benchmarks/candidates.py", *given])
    setting = report.setting(command, options.device, [], None)
    rows: list[Row] = []
    for case in cases:
        with Met() as met:
            case.ours()()
        for engine, task in met.tasks:
            for row in rows_of(case.name, engine, task, options.rounds):
                print(line(row), flush=True)
                rows.append(row)
        if options.json:
            text = json.dumps({**setting, "rows": [asdict(row) for row in rows]}, indent=1)
            options.json.write_text(text + "\n", "utf-8")
    wrong = [row for row in rows if row.problem and row.seconds is not None]
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
