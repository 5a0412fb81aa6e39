"""The quickstart as a user starts it."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import calor
from calor_train import quickstart

FILES = {
    "weights.safetensors",
    "curves.png",
    "confusion.png",
    "predictions.png",
    "history.csv",
    "results.json",
}


def start(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "calor_train.quickstart", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "CALOR_DEVICE": "numpy"},
        check=False,
    )


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """What a run of one epoch says, and its folder."""
    folder = tmp_path_factory.mktemp("quickstart")
    return start("--epochs", 1, "--seed", 5, "--device", "numpy", "--output", folder), folder


@pytest.mark.slow
def test_it_learns_to_read_digits(tmp_path):
    folder = tmp_path
    process = start("--epochs", 8, "--device", "numpy", "--output", folder)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stdout.startswith("computing on numpy:0: NumPy ")
    assert {path.name for path in folder.iterdir()} == FILES
    for name in ("curves.png", "confusion.png", "predictions.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert f"{folder / name}" in process.stdout
    results = json.loads((folder / "results.json").read_text("utf-8"))
    assert results["right"] >= 0.98 * results["held_out"] == 0.98 * 360
    share = f"{100 * results['right'] / 360:.2f} %"
    assert f"held-out digits classified correctly: {share}" in process.stdout
    assert f"loaded in a new process: {share}, the same classes" in process.stdout
    assert len((folder / "history.csv").read_text("utf-8").splitlines()) == 9


def test_the_new_process_notices_other_weights(begun, tmp_path):
    _, folder = begun
    state = dict(calor.read_safetensors(folder / "weights.safetensors"))
    last = [name for name in state if name.endswith("bias")][-1]
    state[last] = state[last] + np.linspace(0, 50, 10, dtype=np.float32)
    calor.write_safetensors(tmp_path / "weights.safetensors", state)
    (tmp_path / "results.json").write_bytes((folder / "results.json").read_bytes())
    process = start("--check", "--output", tmp_path)
    assert process.returncode == 3
    assert "OTHER CLASSES THAN BEFORE" in process.stdout


def test_too_little_training_is_a_failure(begun):
    process, folder = begun
    assert process.returncode == 1, process.stdout + process.stderr
    assert process.stdout.startswith("computing on numpy:0: NumPy ")
    assert "below the goal of 98 %" in process.stdout
    assert {path.name for path in folder.iterdir()} == FILES
    for name in ("curves.png", "confusion.png", "predictions.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
        assert f"{folder / name}" in process.stdout
    right = json.loads((folder / "results.json").read_text("utf-8"))["right"]
    share = f"{100 * right / 360:.2f} %"
    assert f"held-out digits classified correctly: {share}" in process.stdout
    assert f"loaded in a new process: {share}, the same classes" in process.stdout
    assert len((folder / "history.csv").read_text("utf-8").splitlines()) == 2


def test_the_held_out_digits_are_of_all_classes_and_none_is_learned_from():
    (images, classes), (_, held_classes) = quickstart.digits()
    assert images.shape == (1437, 1, 8, 8)
    assert np.bincount(held_classes).tolist() == [36, 36, 35, 37, 36, 37, 36, 36, 35, 36]
    assert np.bincount(np.concatenate([classes, held_classes])).sum() == 1797
    assert images.dtype == np.float32
    assert 0.0 == images.min() < images.max() == 1.0


def test_shifted_images_are_moved_by_at_most_one_pixel():
    images = np.zeros((200, 1, 8, 8), np.float32)
    images[:, 0, 4, 4] = 1.0
    moved, classes = quickstart.shifted((images, np.arange(200)), np.random.default_rng(0))
    assert moved.shape == images.shape
    assert classes.tolist() == list(range(200))
    places = {tuple(np.argwhere(image[0])[0].tolist()) for image in moved}
    assert places == {(i, j) for i in (3, 4, 5) for j in (3, 4, 5)}
    assert (moved.sum((1, 2, 3)) == 1.0).all()


@pytest.mark.parametrize(
    ("absent", "names"),
    [(["sklearn"], "scikit-learn"), (["sklearn", "matplotlib"], "scikit-learn and matplotlib")],
)
def test_missing_packages_are_named(absent, names, monkeypatch, capsys):
    find = quickstart.importlib.util.find_spec
    monkeypatch.setattr(
        quickstart.importlib.util, "find_spec", lambda n: None if n in absent else find(n)
    )
    assert quickstart.main([]) == 2
    assert (
        f'the quickstart needs {names}: pip install "calor-train[quickstart]"'
        in capsys.readouterr().err
    )


def test_an_unknown_device_is_an_error_that_says_what_there_is(tmp_path):
    with pytest.raises(calor.errors.DeviceError, match='no device "abacus"'):
        quickstart.main(["--device", "abacus", "--output", str(tmp_path)])
