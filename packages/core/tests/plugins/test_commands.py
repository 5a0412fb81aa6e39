"""The command line, as a user runs it."""

import subprocess
import sys

import pytest

import calor
from calor.__main__ import main
from calor.errors import PluginError
from calor.plugins import doctor
from calor.plugins.discovery import registry
from calor.plugins.entries import Entry


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "calor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_devices_lists_the_reference() -> None:
    done = run("devices")
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["device", "description", "dtypes", "in", "use", "limit", "state"]
    assert any(row.startswith("numpy:0 ") and row.endswith("ready") for row in rows)


def test_doctor_names_versions_and_settings() -> None:
    done = run("doctor")
    assert done.returncode == 0, done.stdout
    for part in ("numpy", "ml_dtypes", "pluggy", "CALOR_DEVICE", "everything loads"):
        assert part in done.stdout


def test_features_of_a_device(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--features", "numpy"]) == 0
    assert "host_views" in capsys.readouterr().out


def test_an_unknown_device_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--features", "wgpu"]) == 1
    assert 'pip install "calor[wgpu]"' in capsys.readouterr().err


def test_doctor_says_why_a_plugin_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def load(self) -> object:
            raise OSError("libacme.so is missing")

    entry = Entry("acme", "1", "calor-acme", "0.3", Broken())  # type: ignore[arg-type]
    monkeypatch.setattr(registry, "_entries", {"acme": [entry]})
    text, status = doctor.doctor_text()
    assert status == 1
    assert "libacme.so is missing" in text
    assert "calor-acme 0.3" in text
    with pytest.raises(PluginError, match=r"libacme\.so is missing"):
        calor.zeros(2, device="acme")


def test_memory_figures_limit_and_recovery() -> None:
    with calor.device("numpy"):
        kept = calor.ones((1000,))
        figures = calor.memory()
        calor.set_memory_limit(figures.in_use + 10_000)
        try:
            with pytest.raises(calor.errors.OutOfMemoryError, match="limit"):
                calor.eval(calor.ones((100_000,)) * 2)
            assert (kept * 2).sum().item() == 2000.0
        finally:
            calor.set_memory_limit(None)
        calor.synchronize()
        assert calor.memory().peak >= figures.in_use
    with pytest.raises(calor.errors.ArgumentError, match="number of bytes"):
        calor.set_memory_limit(-1)
