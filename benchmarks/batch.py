"""Run many benchmarks side by side on one machine, each on processors and a GPU of its own.

    python benchmarks/batch.py benchmarks/plans/networks.txt OUT --seconds 570 --set first=1 \
        --set last=20

A plan has a command a line, after the processors that it needs, the GPU that it uses, and its
name. Commands start in that order, each as soon as enough processors are free, which stay its own.
``{out}`` and what ``--set`` gives are filled in. Each command's output is in ``OUT/NAME.log``. At
the end of the time those that still run are ended, and the others are not started: programs that
write their rows as they come lose nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

ROOT = Path(__file__).parents[1]


class PlanError(Exception):
    """A line of a plan that cannot be run."""


@dataclass(frozen=True)
class Job:
    """A command of a plan."""

    cores: int
    gpu: str
    name: str
    command: str


def read(text: str, values: Mapping[str, str]) -> list[Job]:
    """Return the jobs of a plan's text; ``values`` fill the names in braces."""
    jobs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = line.split(maxsplit=3)
        if len(parts) < 4 or not parts[0].isdigit() or not int(parts[0]):
            raise PlanError(f"line {number}: not 'CORES GPU NAME COMMAND': {line!r}")
        try:
            name, command = (part.format_map(values) for part in parts[2:])
        except KeyError as error:
            raise PlanError(f"line {number}: give --set {error.args[0]}=VALUE") from None
        jobs.append(Job(int(parts[0]), parts[1], name, command))
    twice = {job.name for job in jobs if [other.name for other in jobs].count(job.name) > 1}
    if twice:
        raise PlanError(f"several commands have one name: {', '.join(sorted(twice))}")
    return jobs


@dataclass
class Running:
    """A job's process, the processors that it holds, and when it started."""

    job: Job
    process: subprocess.Popen[bytes]
    cores: set[int]
    start: float

    def end(self) -> None:
        """Interrupt the job and all that it started, as Ctrl-C does; then end it for certain."""
        for number, patience in ((signal.SIGINT, 4.0), (signal.SIGKILL, 2.0)):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(patience)
                return
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def start(job: Job, cores: set[int], out: Path) -> Running:
    """Start a job on its processors."""
    environment = dict(os.environ)
    if job.gpu != "-":
        environment["CUDA_VISIBLE_DEVICES"] = job.gpu
    environment["OMP_NUM_THREADS"] = str(job.cores)
    with (out / f"{job.name}.log").open("wb") as log:
        process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, sorted(cores))), "bash", "-c", job.command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Running(job, process, cores, monotonic())


def run(jobs: Iterable[Job], out: Path, seconds: float, cores: set[int]) -> dict[str, int | None]:
    """Run jobs until the time is over; return the exit status of each, None of one cut off."""
    begin = monotonic()
    waiting, running, found = list(jobs), list[Running](), dict[str, int | None]()
    most = max((job.cores for job in waiting), default=0)
    if most > len(cores):
        raise PlanError(f"a command needs {most} processors, and there are {len(cores)}")
    free = set(cores)
    while (waiting or running) and monotonic() - begin < seconds:
        for one in [one for one in running if one.process.poll() is not None]:
            running.remove(one)
            free |= one.cores
            found[one.job.name] = one.process.returncode
            told = f"{one.job.name}: {one.process.returncode}"
            print(f"{told} after {monotonic() - one.start:.0f} s", flush=True)
        while waiting and waiting[0].cores <= len(free):
            job = waiting.pop(0)
            taken = set(sorted(free)[: job.cores])
            free -= taken
            running.append(start(job, taken, out))
        sleep(0.1)
    for one in running:
        one.end()
        found[one.job.name] = None
        print(f"{one.job.name}: cut off after {monotonic() - one.start:.0f} s", flush=True)
    for job in waiting:
        found[job.name] = None
        print(f"{job.name}: not started", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a plan; 0 when every command ended well, 1 when not, 2 for a wrong plan."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("plan", type=Path, help="a file of lines 'CORES GPU NAME COMMAND'")
    parser.add_argument("out", type=Path, help="a folder for logs and results")
    parser.add_argument("--seconds", type=float, default=600.0, help="how long to run")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    values = {"out": str(out), "seconds": str(options.seconds)}
    values |= dict(text.partition("=")[::2] for text in options.set)
    try:
        jobs = read(options.plan.read_text("utf-8"), values)
        found = run(jobs, out, options.seconds, set(os.sched_getaffinity(0)))
    except PlanError as error:
        print(f"error: {shlex.quote(str(options.plan))}: {error}", file=sys.stderr)
        return 2
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
