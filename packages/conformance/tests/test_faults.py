"""The suite catches every backend that is broken on purpose, and names what is broken."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

import numpy as np
import pytest

from calor.ops.base import TABLE
from calor_conformance import self_test
from calor_conformance.checks import process_memory
from calor_conformance.command import main
from calor_conformance.faults import FAULTS
from calor_conformance.faults.base import Broken, Fault

SEEDS = 10
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
# Where the system does not tell the size of a process, no check can look at it.
LOOKED_AT = [
    f
    for f in FAULTS
    if process_memory.resident() is not None
    or not all(p.startswith("memory/process_") for p in f.caught_by)
]
each_looked_at = pytest.mark.parametrize("fault", LOOKED_AT, ids=lambda fault: fault.name)
UNBROKEN = Fault("unbroken", "nothing is broken", Broken, ("values/add/*",), ("add",))


def missed(fault: Fault, seed: int) -> str:
    # The checks that it names are a hundredth of the time of all. Some show after others alone, as
    # a plan that is recorded once does, mostly after others of its ops.
    named = self_test.named(fault)
    finding = self_test.find(fault, seed, named)
    if finding.unmet:
        more = [c for c in self_test.asked(fault) if c.op or c in named]
        finding = self_test.find(fault, seed, more)
    if finding.unmet:
        finding = self_test.find(fault, seed)
    return self_test.line(finding) if finding.unmet else ""


@each_looked_at
def test_a_broken_backend_is_caught(fault: Fault) -> None:
    assert not missed(fault, 0)


def test_a_heap_with_free_pages_hides_no_growth() -> None:
    pages = [np.ones(1 << 16, np.uint8) for _ in range(1000)]
    # The heap's end stays in use, so that it does not shrink by itself.
    last = pages.pop()
    del pages
    for fault in LOOKED_AT:
        if fault.name == "host-memory-kept":
            assert self_test.find(fault, 0, self_test.named(fault)).unmet == ()
    assert last.all()


@pytest.mark.slow
@each_looked_at
def test_a_broken_backend_is_caught_whatever_is_drawn(fault: Fault) -> None:
    assert not [text for seed in range(SEEDS) if (text := missed(fault, seed))]


# The suite asks the reference every check; here one in 25 goes through what breaks backends.
@pytest.mark.parametrize("every", [25, pytest.param(1, marks=pytest.mark.slow)])
def test_the_reference_passes_whatever_a_fault_is_asked(every: int) -> None:
    # What users are told of a device by its name is asked of those that have an entry point.
    asked = {
        c.name: c
        for fault in FAULTS
        for c in self_test.asked(fault)
        if not c.name.startswith("memory/asked-")
    }
    found = self_test.results(Broken(), [asked[name] for name in sorted(asked)][::every])
    assert not [(r.name, r.detail) for r in found if r.outcome not in ("passed", "impossible")]


def test_faults_have_names_and_sentences_of_their_own() -> None:
    for texts in ([f.name for f in FAULTS], [f.about for f in FAULTS]):
        assert [text for text, n in Counter(texts).items() if n > 1] == []


@every_fault
def test_what_must_catch_a_fault_is_asked(fault: Fault) -> None:
    asked = self_test.asked(fault)
    assert fault.caught_by
    assert set(fault.ops) <= set(TABLE)
    assert not [c.name for c in asked if c.kind in self_test.SEARCHES]
    for pattern in fault.caught_by:
        assert any(fnmatchcase(c.name, pattern) for c in asked), pattern


def test_what_is_not_caught_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(self_test, "FAULTS", (UNBROKEN,))
    monkeypatch.setattr(self_test, "CONTRACTS", ())
    assert main(["self-test"]) == 1
    said = capsys.readouterr().out
    assert "NOT CAUGHT by values/add/*: nothing is broken" in said
    assert said.endswith("1 broken backends: 0 caught, 1 not\n")


def test_what_is_caught_under_another_name_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (leak,) = (f for f in FAULTS if f.name == "leak")
    elsewhere = Fault("elsewhere", "each call leaks", leak.make, ("values/add/*",), ("add",))
    monkeypatch.setattr(self_test, "FAULTS", (elsewhere,))
    monkeypatch.setattr(self_test, "CONTRACTS", ("memory",))
    assert main(["self-test"]) == 1
    assert "memory/no_leak_of_ops" in capsys.readouterr().out


def test_the_table_names_the_checks_that_caught(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (fault,) = (f for f in FAULTS if f.name == "ties-take-the-last")
    monkeypatch.setattr(self_test, "FAULTS", (fault,))
    monkeypatch.setattr(self_test, "CONTRACTS", ())
    assert main(["self-test", "--seeds", "2"]) == 0
    first, second, total = capsys.readouterr().out.splitlines()
    assert first.startswith("ties-take-the-last ")
    assert first.endswith(" values/argmax-ties/float32")
    assert second.startswith("ties-take-the-last (seed 1) ")
    assert total == "2 broken backends: 2 caught, 0 not"
