"""Do servers survive? ``python benchmarks/soak.py kills disks crowd calls --out FOLDER``.

kills
    Servers of devices and of models, and clients, are killed at random moments of training,
    transfers and loading; what is begun again has the bits of an undisturbed run.
disks
    The disk of the audit log, of the kernels' cache, of the models and of a client's files is full.
crowd
    Many clients come and go for a long time: they work, vanish, and misuse what they get.
calls
    A million calls through one connection.

``bars`` of the result has what is promised, and whether it holds. It is for Linux: figures of
processes are read from /proc.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import report  # noqa: E402
from remote import Measured  # noqa: E402

PARTS = ("kills", "disks", "crowd", "calls")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/soak.py", description=str(__doc__).partition("\n")[0]
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--device", default="cpu", help="what the server has")
    parser.add_argument("--out", type=Path, required=True, help="a folder for all that is written")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=200, help="of servers, and of clients")
    parser.add_argument("--model-kills", type=int, default=40, help="of the server of models")
    parser.add_argument("--minutes", type=float, default=60.0, help="of the crowd")
    parser.add_argument("--beside", type=int, default=3, help="clients of the crowd at a time")
    parser.add_argument(
        "--pause", type=float, default=2.0, help="at most, between two births, in s"
    )
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="write the bars and the setting")
    asked = parser.parse_args(arguments)
    unknown = set(asked.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    asked.parts = asked.parts or list(PARTS)
    return asked


def run(asked: argparse.Namespace) -> dict[str, Any]:
    """Run the parts; return the result."""
    found, seen = Measured(asked.device), {}
    for part in asked.parts:
        folder = (asked.out / part).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        seen[part] = PART_OF[part](found, folder, asked)
    return {"suite": "soak", "device": asked.device, "rows": [], "bars": found.bars, **seen}


def _crowd(found: Measured, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    from soaking.crowd import Crowd, crowd

    one = Crowd(asked.device, folder, asked.seed)
    return crowd(found, one, asked.minutes, asked.beside, asked.pause)


def _kills(found: Measured, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    from soaking.kills import kills

    return kills(found, folder, asked.device, asked.seed, asked.kills, asked.model_kills)


def _disks(found: Measured, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    from soaking.disks import disks

    return disks(found, folder, asked.device)


def _calls(found: Measured, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    from soaking.calls import calls

    return calls(found, folder, asked.device, asked.calls)


PART_OF = {"kills": _kills, "disks": _disks, "crowd": _crowd, "calls": _calls}


def main() -> int:
    """Run, print and write; the status is 1 where a bar does not hold."""
    asked = parse()
    made = run(asked)
    if asked.json:
        command = shlex.join(["python", "benchmarks/soak.py", *sys.argv[1:]])
        about = report.setting(command, asked.device, (), None)
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps({**about, **made}, indent=1) + "\n", "utf-8")
    return 0 if all(bar["met"] for bar in made["bars"]) else 1


if __name__ == "__main__":
    sys.exit(main())
