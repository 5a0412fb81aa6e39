"""What a dispatch costs by Vulkan: `python benchmarks/vulkan_floor.py --device NVIDIA`.

Plain Vulkan, without wgpu: a command buffer of least dispatches, by what stands between two of
them. It tells how much of a launch of the device `wgpu` is the driver's, which no kernel changes.
It needs g++, and glslangValidator and the headers of Vulkan (on Debian glslang-tools and
libvulkan-dev).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SOURCES = Path(__file__).parent / "programs"
KERNELS = {"least": "", "waits": "WAITS", "stays": "STAYS"}
HEADER = Path("vulkan/vulkan.h")


@dataclass(frozen=True)
class Row:
    """A way to order dispatches, the least nanoseconds of one, and whether they were in order."""

    way: str
    ns: float
    ordered: bool


def lacking() -> str:
    """Return what is missing to build the program, empty if nothing is."""
    programs = [name for name in ("g++", "glslangValidator") if shutil.which(name) is None]
    folders = [Path(folder) for folder in ("/usr/include", "/usr/local/include")]
    headers = [] if any((one / HEADER).exists() for one in folders) else [str(HEADER)]
    return ", ".join(programs + headers)


def build(folder: Path) -> Path:
    """Build the program in a folder, and return it."""
    header = ""
    for name, macro in KERNELS.items():
        to = folder / f"{name}.h"
        command = ["glslangValidator", "-V", "--quiet", "--vn", f"{name}_words", "-o", str(to)]
        macros = [f"-D{macro}=1"] if macro else []
        subprocess.run([*command, *macros, str(SOURCES / "vulkan_floor.comp")], check=True)
        header += to.read_text("utf-8")
    (folder / "kernels.h").write_text(header, "utf-8")
    program = folder / "floor"
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", f"-I{folder}", "-o", str(program)]
    subprocess.run(["g++", *flags, str(SOURCES / "vulkan_floor.cpp"), "-ldl"], check=True)
    return program


def measure(
    program: Path, device: str, dispatches: int = 400, runs: int = 15, cubes: Sequence[int] = (1,)
) -> tuple[str, list[Row]]:
    """Return the device's name, and a row for each way.

    ``cubes``: of kernels that wait for each other; not more than the device runs at once.
    """
    command = [str(program), device, *map(str, (dispatches, runs, *cubes))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    name, *lines = done.stdout.splitlines()
    parts = [line.split("\t") for line in lines]
    return name, [Row(way, float(ns), ordered == "yes") for way, ns, ordered in parts]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, and write it."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--device", default="", help="a text in the device's name")
    parser.add_argument("--dispatches", type=int, default=400)
    parser.add_argument("--cubes", default="1", help="of kernels that wait, such as 1,8,132")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if found := lacking():
        parser.error(f"there is no {found}; apt-get install g++ glslang-tools libvulkan-dev")
    with tempfile.TemporaryDirectory() as folder:
        cubes = [int(one) for one in options.cubes.split(",")]
        program = build(Path(folder))
        name, rows = measure(program, options.device, options.dispatches, cubes=cubes)
    print(name)
    for row in rows:
        print(f"{row.ns:10.0f} ns  {row.way}{'' if row.ordered else '  (orders nothing)'}")
    if options.json:
        text = json.dumps({"device": name, "rows": [asdict(row) for row in rows]}, indent=1)
        options.json.write_text(text + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
