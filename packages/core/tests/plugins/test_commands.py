"""The command line, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import calor
from calor.__main__ import main
from calor.backends.protocol import Tuned
from calor.config import Config
from calor.plugins.discovery import get_device
from calor.units import bytes_text

from .distributions import backend_module, write_distribution


def run(
    *arguments: str, path: tuple[Path, ...] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [*map(str, path), *([inherited] if inherited else [])]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CALOR_")}
    environment |= {"PYTHONPATH": os.pathsep.join(paths)} | variables
    command = [sys.executable, "-m", "calor", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=120
    )


def cells(text: str, first: str) -> list[str]:
    """The cells of the table row that begins with a word."""
    (row,) = [line for line in text.splitlines() if line.split("  ")[0] == first]
    return [cell.strip() for cell in row.split("  ") if cell.strip()]


def test_devices_is_a_table() -> None:
    done = run("devices")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[0].split() == [
        "name",
        "description",
        "dtypes",
        "memory",
        "state",
    ]
    _, description, dtypes, memory, state = cells(done.stdout, "numpy:0")
    assert description.startswith("NumPy ")
    assert (dtypes, memory, state) == ("all 17", "0 B of no limit", "ready")
    assert cells(done.stdout, "null:0")[-1] == "tool"
    assert cells(done.stdout, "strict:…")[-1] == "ready"


NARROW = """
    from dataclasses import replace
    from calor.backends.null import NullBackend
    from calor.backends.protocol import FULL, MemoryFigures
    from calor.dtypes import float32, int8
    from calor.plugins import hookimpl

    class Moon(NullBackend):
        name = "moon"

        def info(self, index):
            described = f"Moon number {index}"
            dtypes = {float32: FULL, int8: FULL}
            return replace(super().info(index), description=described, dtypes=dtypes)

        def enumerate(self):
            return 2

        def memory(self, index):
            return MemoryFigures(1536, 4096, 1 << 30)

    class Nothing(NullBackend):
        name = "nothing"

        def enumerate(self):
            return 0

    @hookimpl
    def calor_backends():
        return {"moon": Moon, "nothing": Nothing}

    @hookimpl
    def calor_device_schemes():
        return {"orbit:": lambda text: None}
"""


@pytest.fixture
def working(tmp_path: Path) -> Path:
    entries = dict.fromkeys(("moon", "nothing", "orbit"), "fake_moon")
    return write_distribution(tmp_path, "calor-moon", entries, {"fake_moon": NARROW})


@pytest.fixture
def failing(tmp_path: Path) -> Path:
    return write_distribution(tmp_path, "calor-bad", {"bad": "fake_bad"}, {"fake_bad": "1 / 0"})


def test_devices_of_plugins_are_listed(working: Path, failing: Path) -> None:
    done = run("devices", path=(working, failing))
    assert done.returncode == 1
    assert cells(done.stdout, "moon:1") == [
        "moon:1",
        "Moon number 1",
        "float32, int8",
        "1.5 KiB of 1.0 GiB",
        "ready",
    ]
    assert cells(done.stdout, "nothing")[-1] == "none"
    assert cells(done.stdout, "orbit:…")[-1] == "ready"
    assert cells(done.stdout, "bad") == ["bad", "see below", "failed"]
    assert '\nbad: plugin "bad" of calor-bad 1.0 does not load: ZeroDivisionError' in done.stdout
    assert cells(done.stdout, "numpy:0")[-1] == "ready"


def test_features_of_a_device() -> None:
    done = run("devices", "--features", "numpy")
    assert done.returncode == 0
    assert cells(done.stdout, "host_views")[1] == "full"
    done = run("devices", "--features", "absent")
    assert done.returncode == 1
    message = (
        r'no device "absent"; installed: numpy(, [\w-]+)*; python -m calor devices says more\n'
    )
    assert re.fullmatch(message, done.stderr)


def test_doctor_of_a_sound_installation(working: Path) -> None:
    done = run("doctor", path=(working,), CALOR_DEVICE="moon:1", CALOR_MOON_SPEED="9")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith(f"Python {sys.version.split()[0]} on ")
    assert cells(done.stdout, "calor-moon") == ["calor-moon", "1.0"]
    assert cells(done.stdout, "moon") == ["moon", "calor-moon 1.0", "ready"]
    assert cells(done.stdout, "CALOR_DEVICE") == ["CALOR_DEVICE", "moon:1", "the default device"]
    assert cells(done.stdout, "CALOR_MOON_SPEED")[2] == "not read by calor itself"
    for name in ("numpy", "ml_dtypes", "pluggy"):
        assert len(cells(done.stdout, name)) == 2
    assert "CALOR_DEVICE chooses moon:1" in done.stdout
    assert done.stdout.endswith("\n\neverything loads\n")


def test_doctor_says_what_fails_and_why(tmp_path: Path, working: Path, failing: Path) -> None:
    twice = write_distribution(
        tmp_path, "acme", {"moon": "fake_acme"}, {"fake_acme": backend_module("moon")}
    )
    newer = write_distribution(
        tmp_path, "calor-new", {"new": "fake_new"}, {"fake_new": ""}, api="2"
    )
    done = run("doctor", path=(working, failing, twice, newer), CALOR_EAGR="1")
    assert done.returncode == 1
    assert done.stdout.endswith("\n\nsomething is wrong, see above\n")
    assert 'plugin "bad" of calor-bad 1.0 does not load: ZeroDivisionError' in done.stdout
    assert "claimed by" in done.stdout
    assert "this calor speaks version 1: pip install --upgrade calor" in done.stdout
    assert cells(done.stdout, "CALOR_EAGR")[2] == "not read by calor itself; CALOR_EAGER?"
    assert cells(done.stdout, "numpy:0")[-1] == "ready"


def test_doctor_tries_the_default_device() -> None:
    done = run("doctor", CALOR_DEVICE="absent")
    assert done.returncode == 1
    assert 'CALOR_DEVICE=absent fails: no device "absent"' in done.stdout


PREFERRED = {
    "nothing": (None, 'the default device is numpy:0, the reference; pip install "calor[cpu]"'),
    "the cpu": ("null", "the default device is null:0, as it is installed"),
    "a cpu that fails": ("absent:7", 'cpu, the default, fails: no device "absent"'),
}


@pytest.mark.parametrize("there", PREFERRED)
def test_doctor_says_which_device_is_the_default(
    there: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, told = PREFERRED[there]
    monkeypatch.setattr("calor.doctor.config", Config(device=None))
    monkeypatch.setattr(
        "calor.doctor.preferred_device", lambda: None if name is None else get_device(name)
    )
    assert main(["doctor"]) == int(there == "a cpu that fails")
    assert told in capsys.readouterr().out


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "devices" in capsys.readouterr().err


SIZES = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 20: "1.0 MiB", 3 << 40: "3.0 TiB"}


@pytest.mark.parametrize("count", SIZES)
def test_sizes_for_people(count: int) -> None:
    assert bytes_text(count) == SIZES[count]


def test_new_backend_says_where_its_templates_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = "calor_conformance"

    def absent(name: str) -> None:
        raise ModuleNotFoundError(name=missing)

    monkeypatch.setattr("calor.__main__.import_module", absent)
    assert main(["new-backend", "acme"]) == 1
    assert capsys.readouterr().err == (
        "the templates of a project are in another package: pip install calor-conformance\n"
    )
    # What that package itself misses is no reason to install it.
    missing = "pytest"
    with pytest.raises(ModuleNotFoundError):
        main(["new-backend", "acme"])


def test_tune_runs_a_script_on_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "program.py"
    script.write_text("import sys, calor\nprint(sys.argv[1:], calor.ones(2).device)\n", "utf-8")
    assert main(["tune", "--device", "numpy", str(script)]) == 1
    assert capsys.readouterr().err == (
        "numpy:0 has one way to do each operation, so nothing is tuned\n"
    )
    assert main(["tune", str(tmp_path / "missing.py")]) == 1
    assert "tune: there is no script" in capsys.readouterr().err


def test_tune_reports_what_the_device_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def tuning(index: int, seconds: float) -> Iterator[Tuned]:
        yield Tuned(problems=2, timed=int(seconds), changed=1)

    monkeypatch.setattr(get_device("null").backend, "tuning", tuning)
    script = tmp_path / "program.py"
    script.write_text("import sys, calor\nprint(sys.argv[1:], calor.ones(2).device)\n", "utf-8")
    command = ["tune", "--device", "null", "--seconds", "7", str(script), "a", "--b"]
    assert main(command) == 0
    assert capsys.readouterr().out == (
        "['a', '--b'] null:0\n"
        "null:0: problems: 2; candidates timed: 7, in 0.0 s; "
        "problems with a faster kernel than the first choice: 1\n"
    )


def test_tune_exports_what_is_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bundle.json"
    assert main(["tune"]) == 1
    assert "name a script to tune, or a file to --export" in capsys.readouterr().err
    assert main(["tune", "--device", "numpy", "--export", str(file)]) == 1
    assert "numpy:0 has one way" in capsys.readouterr().err
    assert not file.exists()
    bundle = {"form": 1, "choices": {"b": ["x", 2.0], "a": ["y", 1.5]}}
    monkeypatch.setattr(get_device("null").backend, "bundle", lambda index: bundle)
    assert main(["tune", "--device", "null", "--export", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}: 2 choices for null:0\n"
    assert json.loads(file.read_text("utf-8")) == bundle


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"calor {calor.__version__}\n"
