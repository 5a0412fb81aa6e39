"""Steps are tuned, and their choices become a bundle that is read again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import tuned


def test_what_differs_is_told() -> None:
    one = {"work": "tall", "label": "matmul", "seconds": 1e-5, "first": 3e-5, "instead": "wide"}
    two = {**one, "first": 9e-5}
    alike = {**one, "first": 1e-5}
    found = [*tuned.differing({"a(": one, "b(": two, "c(": alike})]
    assert [line.strip() for line in found] == [
        "90.0 us, 10.0 us: wide -> tall (matmul)  b(",
        "30.0 us, 10.0 us: wide -> tall (matmul)  a(",
    ]


def test_a_step_is_timed_before_and_after_and_with_the_bundle(tmp_path: Path) -> None:
    file = tmp_path / "bundle.json"
    command = ["mini_gpt", "--size", "tiny", "--mode", "inference", "--threads", "1"]
    command += ["--seconds", "60", "--most", "2", "--repeats", "1", "--export", str(file)]
    times = tmp_path / "times.json"
    command += ["--json", str(times), "--gate", str(tmp_path / "gate")]
    environment = {**os.environ, "CALOR_CACHE_DIR": str(tmp_path / "cache")}
    made = subprocess.run(
        [sys.executable, tuned.__file__, *command],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert not made.stderr, made.stderr
    assert made.stdout.count("mini GPT inference float32, batch 3, tiny") == 2
    bundle = json.loads(file.read_text("utf-8"))
    assert f"{file}: {len(bundle['choices'])} choices" in made.stdout
    assert bundle["device"]["cores"] == 1
    document = json.loads(times.read_text("utf-8"))
    (row,) = document["rows"]
    assert row["case"] == "mini GPT inference float32, batch 3, tiny"
    assert min(row["untuned_s"], row["tuned_s"], row["bundle_s"], row["tuning"]["timed"]) > 0
    assert document["command"].startswith("python benchmarks/tuned.py mini_gpt --size tiny ")
