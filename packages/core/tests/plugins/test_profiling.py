"""calor.profile: what a device did, as a table, a trace and the course of its memory."""

import json
import re

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, CalorError, UnsupportedError
from calor.plugins.discovery import get_device


def present():
    names = []
    for name in ("numpy", "cpu"):
        try:
            get_device(name)
        except CalorError:
            continue
        names.append(name)
    return names


@pytest.fixture(params=present())
def on(request):
    with calor.device(request.param):
        yield request.param


def test_a_profile_has_the_work_of_its_context_alone(on, tmp_path):
    x = calor.asarray(np.ones((64, 32), np.float32))
    pending = x + 1
    with calor.profile() as profile:
        step = calor.jit(lambda x: calor.tanh(x).sum())
        for _ in range(3):
            step(pending)
    calor.eval(x * 3)
    covered = [name for event in profile.events for name in event.covers]
    assert covered.count("tanh") == 3
    assert "add" not in covered
    assert "mul" not in covered
    assert all(event.seconds > 0 for event in profile.events)
    starts = [event.start for event in profile.events]
    assert starts == sorted(starts)
    assert starts[0] >= 0
    assert profile.seconds == sum(event.seconds for event in profile.events)

    header, *rows, foot = profile.table().splitlines()
    assert header.split()[:5] == ["op", "blueprint", "calls", "ms", "share"]
    assert re.fullmatch(rf"{len(profile.events)} launches, [\d.]+ ms, at most .* in use", foot)
    assert sum(float(row.split("%")[0].split()[-1]) for row in rows) == pytest.approx(100, abs=1)
    assert len(profile.table(rows=1).splitlines()) == 3

    profile.chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    assert len([e for e in trace if e["ph"] == "X"]) == len(profile.events)
    assert [e["args"]["bytes in use"] for e in trace if e["ph"] == "C"] == [
        sample.in_use for sample in profile.memory
    ]


def test_the_course_of_memory_shows_what_lives(on):
    with calor.profile() as profile:
        kept = calor.full((256, 256), 2.0) * 2
        calor.eval(kept)
        other = kept + 1
        calor.eval(other)
    assert profile.memory[-1].in_use - profile.memory[0].in_use >= kept.nbytes + other.nbytes
    assert profile.peak_bytes >= profile.memory[-1].in_use
    lines = profile.memory_timeline(rows=3).splitlines()
    assert 2 <= len(lines) <= 3
    assert any("█" * 40 in line for line in lines)


def test_one_profile_at_a_time_and_none_where_times_are_unknown(on):
    with calor.profile(), pytest.raises(ArgumentError, match="another profile"), calor.profile():
        pass
    with calor.profile() as again:
        pass
    assert again.events == []
    with pytest.raises(UnsupportedError, match="calor.timeit measures"), calor.profile("null"):
        pass
