"""Time the epochs of the quickstart on a device, in turns with the reference.

    python benchmarks/quickstart_epochs.py --device cpu --json FILE

Each device trains the quickstart's network in one process, an epoch of each after the other, so
that what else the machine does meanwhile meets both. The first epoch of each, in which functions
are traced and kernels compiled, is told apart. An epoch is 1,437 images learned from in batches of
64, and 360 held out.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def main() -> int:
    """Train in turns and print the seconds per epoch and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--beside", default="numpy", help="the other device (%(default)s)")
    parser.add_argument("--epochs", type=int, default=20, help="of each, timed (%(default)s)")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    seconds = train_in_turns([options.device, options.beside], options.epochs + 1)
    found: dict[str, dict[str, float]] = {}
    for name, (first, *others) in seconds.items():
        found[name] = {
            "first_s": first,
            "least_s": min(others),
            "median_s": statistics.median(others),
        }
        print(
            f"{name:10} first epoch {first:.3f} s, then {min(others):.4f} s at least, "
            f"{found[name]['median_s']:.4f} s in the median"
        )
    ours, other = found[options.device], found[options.beside]
    ratios = {key: other[key] / ours[key] for key in ("least_s", "median_s")}
    print(
        f"{options.device} is {ratios['least_s']:.1f} times as fast by the least, "
        f"{ratios['median_s']:.1f} by the medians"
    )
    if options.json:
        from harness import report

        command = " ".join(["python", "benchmarks/quickstart_epochs.py", *sys.argv[1:]])
        setting = report.setting(command, options.device, [], None)
        document = {
            **setting,
            "suite": "quickstart_epochs",
            "seconds": seconds,
            "summary": found,
            "ratio": ratios,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def train_in_turns(devices: list[str], epochs: int) -> dict[str, list[float]]:
    """Return the seconds of each epoch by device."""
    from threadpoolctl import threadpool_limits

    import calor
    from calor_train import quickstart

    data = quickstart.digits()
    runs: dict[str, Any] = {}
    for name in devices:
        with calor.device(name):
            runs[name] = quickstart.prepare(data, epochs, seed=0)
            runs[name][0].display.mode = "quiet"
    seconds: dict[str, list[float]] = {name: [] for name in devices}
    # As the quickstart does it.
    with threadpool_limits(1, user_api="blas"):
        for _ in range(epochs):
            for name, (learner, train, valid) in runs.items():
                seconds[name].append(learner.fit(train, valid, epochs=1)[-1]["seconds"])
    return seconds


if __name__ == "__main__":
    sys.exit(main())
