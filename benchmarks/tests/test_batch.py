"""Plans of many benchmarks: what a line says, who runs where and when, and what is cut off."""

import os
from pathlib import Path

import pytest

import batch

PLANS = sorted(Path(batch.__file__).parent.glob("plans/*.txt"))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_plans_are_read_whole(plan: Path) -> None:
    """Every line that is no comment is a job, and starts a program of this folder."""
    text = plan.read_text("utf-8")
    names = ("out", "first", "second", "third", "last", "minutes")
    jobs = batch.read(text, {name: name for name in names})
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(jobs) == len(lines) > 0
    for job in jobs:
        program = job.command.partition("python ")[2].split()[0]
        assert (batch.ROOT / program).is_file()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 - name", "CORES GPU NAME COMMAND"),
        ("one - name true", "CORES GPU NAME COMMAND"),
        ("0 - name true", "CORES GPU NAME COMMAND"),
        ("1 - name echo {seed}", "--set seed=VALUE"),
        ("1 - name true\n1 - name false", "one name: name"),
    ],
)
def test_wrong_lines_say_what_is_wrong(text: str, said: str) -> None:
    """A line that cannot be run is an error before anything starts."""
    with pytest.raises(batch.PlanError, match=said):
        batch.read(text, {})


def test_jobs_hold_processors_of_their_own(tmp_path: Path) -> None:
    """Jobs that fit run beside each other, on different processors and the GPU that they name."""
    tell = "taskset -cp $$ | sed 's/.*: //'; echo ${CUDA_VISIBLE_DEVICES-none}"
    jobs = [
        batch.Job(1, "1", "a", tell),
        batch.Job(1, "-", "b", tell),
        batch.Job(1, "0", "c", "exit 3"),
    ]
    cores = set(sorted(os.sched_getaffinity(0))[:2])
    assert batch.run(jobs, tmp_path, 60, cores) == {"a": 0, "b": 0, "c": 3}
    (first, gpu), (second, none) = ((tmp_path / f"{name}.log").read_text().split() for name in "ab")
    assert gpu == "1"
    assert none == os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    assert {int(first), int(second)} <= cores
    assert len(cores) == 1 or first != second


def test_the_end_of_the_time_ends_what_runs(tmp_path: Path) -> None:
    """A job is interrupted as by Ctrl-C, what it started ends with it, and others do not start."""
    wait = "trap 'echo told; exit 1' INT; sleep 100 & wait"
    jobs = [batch.Job(1, "-", "long", wait), batch.Job(1, "-", "late", "echo ran")]
    one = {min(os.sched_getaffinity(0))}
    assert batch.run(jobs, tmp_path, 1.0, one) == {"long": None, "late": None}
    assert (tmp_path / "long.log").read_text() == "told\n"
    assert not (tmp_path / "late.log").exists()


def test_a_job_larger_than_the_machine_is_refused(tmp_path: Path) -> None:
    """It would wait for ever."""
    with pytest.raises(batch.PlanError, match="needs 99 processors"):
        batch.run([batch.Job(99, "-", "big", "true")], tmp_path, 1.0, {0})
