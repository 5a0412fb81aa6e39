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

from harness.cases import Case
from harness.runner import PACKAGES, BenchmarkError, Result, Row, devices_beside, open_device

SIBLINGS = "calor"
# The width of a time.
_TIME = len("12.5 ms")
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


class Table:
    """The rows of a run in columns, each line as soon as its case is measured."""

    def __init__(self, cases: Sequence[Case], peers: Sequence[str]) -> None:
        longest = max(len(case.name) for case in cases)
        self.widths = (longest, max(map(len, ("peer", *peers))), *(_TIME,) * 4)

    def header(self) -> str:
        """The names of the columns."""
        return self._line("case", "peer", "calor", "peer's", "ratio", "floor")

    def line(self, row: Row) -> str:
        """A row."""
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        times = (seconds(row.ours_s), seconds(row.peer_s), ratio, seconds(row.floor_s))
        return self._line(row.case, row.peer or "-", *times)

    def _line(self, *cells: str) -> str:
        return "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, self.widths, strict=True))
        ).rstrip()


def summary(result: Result) -> str:
    """The geometric means, and what was not run, failed or did not agree."""
    texts = [
        f"geometric mean of the ratios beside {peer}: {mean:.2f} (above 1: faster)"
        for peer, mean in result.means().items()
    ]
    texts += [f"not run: {line}" for line in result.not_run]
    texts += [f"FAILED: {line}" for line in result.failures]
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
    names = dict.fromkeys(
        [*ours, "numpy", *drivers, *(PACKAGES[p] for p in peers if p in PACKAGES)]
    )
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in names}}


def setting(command: str, device: str, peers: Sequence[str], threads: int | None) -> dict[str, Any]:
    """Everything that a reader needs to run the same thing again."""
    beside = {peer: open_device(name) for peer, name in devices_beside(peers).items()}
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "device": device,
        "description": open_device(device),
        **({"beside": beside} if beside else {}),
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
        "failures": result.failures,
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
