"""Say what a run found: a table, a JSON file that carries the whole setting, and a plot."""

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.runner import PACKAGES, BenchmarkError, Result

SIBLINGS = "calor"
# What devices of calor stand on.
DRIVERS = ("llvmlite", "pyopencl", "cupy-cuda13x", "cuda-bindings", "nvidia-cuda-nvrtc")


def seconds(value: float | None) -> str:
    """A time with the unit that gives it one to three digits before the point."""
    if value is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def table(result: Result) -> str:
    """The rows in columns, the geometric means, and what was not run or did not agree."""
    lines = [("case", "peer", "calor", "peer's", "ratio", "floor")]
    for row in result.rows:
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        times = (seconds(row.ours_s), seconds(row.peer_s), ratio, seconds(row.floor_s))
        lines.append((row.case, row.peer or "-", *times))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    texts = [
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    for peer, mean in result.means().items():
        texts.append(f"geometric mean of the ratios beside {peer}: {mean:.2f} (above 1: faster)")
    texts += [f"not run: {line}" for line in result.not_run]
    texts += [f"DISAGREES: {line}" for line in result.disagreements]
    return "\n".join(texts)


def processor() -> str:
    """The model of the CPU, as far as the system tells."""
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions(peers: Sequence[str]) -> dict[str, str]:
    """The versions of Python, of every installed project of calor, and of the peers."""
    ours = sorted(
        {
            name
            for item in metadata.distributions()
            if (name := item.metadata["Name"]) == SIBLINGS or name.startswith(f"{SIBLINGS}-")
        }
    )
    there = {item.metadata["Name"] for item in metadata.distributions()}
    drivers = [name for name in DRIVERS if name in there]
    names = dict.fromkeys([*ours, "numpy", *drivers, *(PACKAGES[peer] for peer in peers)])
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def description(device: str) -> str:
    """What a device of calor says that it is."""
    import calor

    return calor.device(device).device.info.description


def setting(command: str, device: str, peers: Sequence[str], threads: int | None) -> dict[str, Any]:
    """Everything that a reader needs to run the same thing again."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "device": device,
        "description": description(device),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "threads": threads,
        "versions": versions(peers),
    }


def write_json(path: Path, result: Result, setting: Mapping[str, Any]) -> None:
    document = {
        **setting,
        "geometric_mean": result.means(),
        "rows": [asdict(row) for row in result.rows],
        "not_run": result.not_run,
        "disagreements": result.disagreements,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def write_plot(path: Path, result: Result, setting: Mapping[str, Any]) -> None:
    """Bars of the ratios on a logarithmic axis, one group of bars for each case."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BenchmarkError("--plot needs matplotlib. pip install matplotlib") from error
    ratios: dict[str, dict[str, float]] = {}
    for row in result.rows:
        if row.peer is not None and row.ratio is not None:
            ratios.setdefault(row.peer, {})[row.case] = row.ratio
    if not ratios:
        raise BenchmarkError("--plot draws ratios, and no case ran beside a peer. Use --peers")
    cases = list(dict.fromkeys(row.case for row in result.rows))
    figure = Figure(figsize=(8, 1.5 + 0.3 * len(cases) * len(ratios)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(ratios)
    for index, (peer, values) in enumerate(ratios.items()):
        places = [cases.index(case) + index * height for case in values]
        bars = axes.barh(places, list(values.values()), height, label=f"beside {peer}")
        axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(cases))], cases)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel("peer's time / calor's time (right of 1: calor is faster)")
    axes.set_title(f"{result.rows[0].suite} on {setting['device']}, {setting['cpu']}", fontsize=9)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
