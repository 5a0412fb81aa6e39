"""Time suites with the sources of an earlier revision and with those of this tree, in turns.

    python benchmarks/compare_trees.py SUITES --before REVISION --device NAME --json FILE

Each run is a process of its own that imports the sources of one tree, and the trees take turns. A
case's time is the least of the medians of its runs. Cases whose ratio is further from 1 than
`--within` are measured again, without most others, before they are reported as slower or faster.
The exit status is 1 if a case is still slower, if it fails, or if only one tree runs it.

The runs share an empty cache, unless CALOR_CACHE_DIR names one. Stored results of tuning would
change the choices of one tree only: the tree whose kernels have the stored names.
"""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

from harness import report  # noqa: E402


@dataclass
class Compared:
    """A case: the medians of its runs in seconds, of the earlier tree and of this one."""

    suite: str
    case: str
    before: list[float] = field(default_factory=list)
    after: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The earlier tree's least time over this one's: above 1, this tree is faster."""
        return min(self.before) / min(self.after)

    @property
    def spread(self) -> float:
        """How far the runs of one tree lie apart: the greater of the two quotients, less 1."""
        return max(max(times) / min(times) for times in (self.before, self.after)) - 1


@dataclass(frozen=True)
class Tree:
    """A checkout, and how its suites are run."""

    root: Path
    options: tuple[str, ...]
    cache: Path

    def run(self, suite: str, only: Sequence[str]) -> dict[str, Any]:
        """Return what `run.py` of the tree writes of a suite."""
        sources = [*self.root.glob("packages/*/src"), *self.root.glob("plugins/*/src")]
        paths = os.pathsep.join(map(str, sorted(sources)))
        given = {"CALOR_CACHE_DIR": str(self.cache), **os.environ}
        environment = {**given, "PYTHONPATH": paths}
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "result.json"
            command = [sys.executable, str(self.root / "benchmarks" / "run.py"), suite]
            command += [*self.options, "--json", str(written)]
            if only:
                command += ["--only", ",".join(only)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if not written.exists():
                raise SystemExit(f"{shlex.join(command)} wrote nothing:\n{done.stderr[-2000:]}")
            made: dict[str, Any] = json.loads(written.read_text("utf-8"))
            return made


@contextmanager
def checkout(before: str) -> Iterator[Path]:
    """Yield a folder with the sources of a revision, or the folder itself if one is given."""
    if Path(before).is_dir():
        yield Path(before).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), before], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure(
    trees: tuple[Tree, Tree],
    suite: str,
    rounds: int,
    only: Sequence[str],
    found: dict[str, Compared],
) -> list[str]:
    """Add runs of a suite, the trees in turns; return what failed or differed."""
    wrong: list[str] = []
    for turn in range(rounds):
        for index in (0, 1) if turn % 2 == 0 else (1, 0):
            result = trees[index].run(suite, only)
            name = ("before", "after")[index]
            wrong += [f"{name}: {line}" for line in result["failures"] + result["disagreements"]]
            for row in result["rows"]:
                case = found.setdefault(row["case"], Compared(suite, row["case"]))
                (case.before, case.after)[index].append(row["ours_s"])
    return wrong


def texts_of(cases: Sequence[Compared]) -> list[str]:
    """Return texts for `--only`, which has commas between them, that name at least these cases."""
    return [max(case.case.split(","), key=len) for case in cases]


def compare(trees: tuple[Tree, Tree], suite: str, options: argparse.Namespace) -> Any:
    """Return the cases of a suite that both trees run, and what is wrong with the others."""
    found: dict[str, Compared] = {}
    wrong = measure(trees, suite, options.rounds, options.only, found)
    both = [case for case in found.values() if case.before and case.after]
    wrong += [f"only one tree runs {name}" for name, c in found.items() if c not in both]
    for _ in range(options.again):
        apart = [case for case in both if abs(math.log(case.ratio)) > math.log1p(options.within)]
        if not apart:
            break
        wrong += measure(trees, suite, 2, texts_of(apart), found)
    return both, list(dict.fromkeys(wrong))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", metavar="SUITES", help="names of suites, with commas")
    parser.add_argument("--before", required=True, help="a revision of git, or a folder")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="where calor runs")
    parser.add_argument("--only", default="", metavar="TEXTS", help="only cases with these texts")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of each run")
    parser.add_argument("--repeats", type=int, default=9, metavar="N", help="samples of a run")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each tree")
    parser.add_argument("--within", type=float, default=0.02, help="the difference that is noise")
    parser.add_argument(
        "--again", type=int, default=3, metavar="N", help="times of measuring again"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the cases and the setting")
    options = parser.parse_args(arguments)
    options.only = [text for text in options.only.split(",") if text]
    return options


def main(arguments: list[str] | None = None) -> int:
    """Compare the trees; 0 when no case of this tree is slower and all agree."""
    options = parse(arguments)
    told = ["--device", options.device, "--repeats", str(options.repeats)]
    if options.threads is not None:
        told += ["--threads", str(options.threads)]
    cases: list[Compared] = []
    wrong: list[str] = []
    with checkout(options.before) as before, tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        trees = Tree(before, tuple(told), cache), Tree(ROOT, tuple(told), cache)
        for suite in options.suites.split(","):
            both, failed = compare(trees, suite, options)
            cases += both
            wrong += failed
            mean = mean_of(both)
            print(f"{suite}: {mean:.3f} (geometric mean of {len(both)}; above 1: now faster)")
            for case in sorted(both, key=lambda case: case.ratio):
                if abs(math.log(case.ratio)) > math.log1p(options.within):
                    times = " and ".join(report.seconds(min(t)) for t in (case.before, case.after))
                    apart = f"runs {100 * case.spread:.0f} % apart"
                    print(f"  {case.case}: {case.ratio:.3f} ({times}; {apart})", flush=True)
            if options.json:
                given = sys.argv[1:] if arguments is None else arguments
                command = shlex.join(["python", "benchmarks/compare_trees.py", *given])
                write(options, command, cases, wrong)
    print("\n".join(f"WRONG: {line}" for line in wrong))
    slower = [case for case in cases if case.ratio < 1 / (1 + options.within)]
    return 1 if wrong or slower else 0


def mean_of(cases: Sequence[Compared]) -> float:
    """Return the geometric mean of the ratios."""
    return math.exp(sum(math.log(c.ratio) for c in cases) / len(cases)) if cases else math.nan


def write(
    options: argparse.Namespace, command: str, cases: Sequence[Compared], wrong: Sequence[str]
) -> None:
    """Write what was found until now, and the setting."""
    suites = dict.fromkeys(case.suite for case in cases)
    of = {suite: [case for case in cases if case.suite == suite] for suite in suites}
    document = {
        **report.setting(command, options.device, [], options.threads),
        "geometric_mean": {suite: mean_of(its) for suite, its in of.items()},
        "cases": [{**asdict(c), "ratio": c.ratio, "spread": c.spread} for c in cases],
        "wrong": list(wrong),
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main())
