"""Write the tables and plots of `docs/performance.md`: `python tools/performance_page.py`.

`python tools/performance_page.py check` says whether they are what the result files under
`benchmarks/results/` make of them; it exits with 1 if not. A new result file needs this program.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from ceiling_tables import ceilings
from generated_blocks import begin, replaced
from performance_plots import PLOTS
from performance_tables import TABLES
from streaming_tables import streaming

ALL = {**TABLES, "ceilings": ceilings, "streaming": streaming}
DOCS = Path(__file__).parents[1] / "docs"
COMMAND = "python tools/performance_page.py"


def page(text: str) -> str:
    """The page with its tables made anew."""
    tables = {begin(f"{COMMAND}, {name}"): "\n".join(make()) for name, make in ALL.items()}
    return replaced(text, tables)


def files(docs: Path = DOCS) -> dict[Path, str]:
    """The text that each generated file ought to have."""
    path = docs / "performance.md"
    plots = {docs / "images" / f"performance-{name}.svg": draw() for name, draw in PLOTS.items()}
    return {path: page(path.read_text("utf-8")), **plots}


def outdated(docs: Path = DOCS) -> list[Path]:
    """The files that are not what the results make of them."""
    made = files(docs).items()
    return [path for path, text in made if not path.exists() or path.read_text("utf-8") != text]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND)
    parser.add_argument("command", nargs="?", choices=["check"], help="write nothing")
    options = parser.parse_args(arguments)
    stale = outdated()
    if options.command == "check":
        for path in stale:
            print(f"{path} is not what the results say; run {COMMAND}", file=sys.stderr)
        return int(bool(stale))
    made = files()
    for path in stale:
        path.write_text(made[path], "utf-8", newline="\n")
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
