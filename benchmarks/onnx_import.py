"""How long importing an ONNX model takes, and how much memory: a network of ResNet-50's size.

    python benchmarks/onnx_import.py --device cpu --json FILE

writes the model with random weights, in one file and with its weights in another, and loads each in
new processes. ``beyond_reading_s`` is the time of ``calor_onnx.load`` less that of reading the same
bytes; ``peak_ratio`` the growth of resident memory at its highest during the load, over the bytes
of the weights; ``run_peak_mib`` that growth during the load and one run, compiling included, and
``run_device_mib`` what the device held of it at most: weights and arena.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from harness import report

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
MEGABYTE = 2**20


class Net:
    """Collects nodes and weights."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        """Add a weight, small enough that values keep their size."""
        name = f"w{len(self.weights)}"
        scale = (2 / max(int(np.prod(shape[1:])), 1)) ** 0.5
        array = (self.random.standard_normal(shape, np.float32) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def conv(self, x: str, old: int, new: int, size: int, stride: int = 1) -> str:
        """Add a convolution and a batch normalization, as exporters for training leave them."""
        made = self.add("Conv", x, self.weight(new, old, size, size), pads=[size // 2] * 4,
                        strides=[stride] * 2, kernel_shape=[size] * 2)  # fmt: skip
        parts = [self.weight(new) for _ in range(3)]
        ones = f"one{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ones(new, np.float32), ones))
        return self.add("BatchNormalization", made, *parts, ones)


def resnet50() -> onnx.ModelProto:
    """Return a network with the layers of ResNet-50 (He and others, 2015): 25.6 M weights."""
    net = Net()
    x = net.add("Relu", net.conv("image", 3, 64, 7, 2))
    x = net.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            y = net.add("Relu", net.conv(x, channels, width, 1))
            y = net.add("Relu", net.conv(y, width, width, 3, stride))
            y = net.conv(y, width, 4 * width, 1)
            if block == 0:
                x = net.conv(x, channels, 4 * width, 1, stride)
            channels = 4 * width
            x = net.add("Relu", net.add("Add", x, y))
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    logits = net.add("Gemm", x, net.weight(channels, 1000), net.weight(1000))
    image = helper.make_tensor_value_info("image", 1, ["N", 3, 224, 224])
    result = helper.make_tensor_value_info(logits, 1, ["N", 1000])
    graph = helper.make_graph(net.nodes, "resnet50", [image], [result], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resident() -> int:
    """Return the process's resident bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def highest() -> int:
    """Return the most bytes that the process had resident; getrusage tells the parent's too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this system does not tell the most memory that a process had")


def child(path: Path, device: str, run: bool) -> dict[str, Any]:
    """Load the model; in a process of its own, so that the highest memory is the load's."""
    import calor
    import calor_onnx
    import calor_onnx.operators

    calor.ones(1, device=device).numpy()
    before = resident()
    began = time.perf_counter()
    model = calor_onnx.load(path, device)
    calor.synchronize(device)
    load_s = time.perf_counter() - began
    if run:
        model(np.zeros((1, 3, 224, 224), np.float32)).numpy()
    return {
        "load_s": load_s,
        "grown": highest() - before,
        "held": calor.memory(device).peak or 0,
    }


def measured(path: Path, device: str, repeats: int, run: bool) -> dict[str, Any]:
    """Return the least of several processes."""
    command = [sys.executable, __file__, "--child", str(path), "--device", device]
    found = []
    for _ in range(repeats):
        text = subprocess.run(
            [*command, *(["--run"] if run else [])], check=True, capture_output=True, text=True
        ).stdout
        found.append(json.loads(text.splitlines()[-1]))
    return {key: min(row[key] for row in found) for key in found[0]}


def reading(paths: list[Path], repeats: int) -> float:
    """Return the seconds that reading all bytes takes, the least of several times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        for path in paths:
            path.read_bytes()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measure, and print a row for each form of the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(child(asked.child, asked.device, asked.run)))
        return
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = resnet50()
        weights = sum(len(t.raw_data) for t in model.graph.initializer)
        whole = Path(folder, "whole.onnx")
        onnx.save(model, whole)
        apart = Path(folder, "apart.onnx")
        onnx.save(model, apart, save_as_external_data=True, location="apart.bin")
        for path, files in ((whole, [whole]), (apart, [apart, Path(folder, "apart.bin")])):
            read_s = reading(files, asked.repeats)
            load = measured(path, asked.device, asked.repeats, run=False)
            once = measured(path, asked.device, asked.repeats, run=True)
            rows.append({
                "file": path.stem,
                "weights_mib": round(weights / MEGABYTE, 1),
                "reading_s": round(read_s, 3),
                "load_s": round(load["load_s"], 3),
                "beyond_reading_s": round(load["load_s"] - read_s, 3),
                "peak_ratio": round(load["grown"] / weights, 3),
                "run_peak_mib": round(once["grown"] / MEGABYTE, 1),
                "run_device_mib": round(once["held"] / MEGABYTE, 1),
            })  # fmt: skip
            print(rows[-1])
    if asked.json:
        command = shlex.join(["python", "benchmarks/onnx_import.py", *sys.argv[1:]])
        setting = report.setting(command, asked.device, (), None)
        about = {**setting, "onnx": onnx.__version__, "suite": "onnx_import", "rows": rows}
        asked.json.write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
