"""Print the test files that a change can reach, one on each line; nothing where it reaches none.

    python tools/changed_tests.py [BASE]

What changed is what differs from where this branch left ``BASE`` (main), committed or not. A test
file is picked if it can load a file that changed (``file_graph``), or looks at files itself. All
are picked where another file than Python's changed, or one that every run loads; fragments of the
changelog and pages apart, which no test loads but those that look at files.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path

from file_graph import FileGraph

ROOT = Path(__file__).parents[1]
# A test that names one of these looks at files that it does not load.
LOOKS = {"exec_module", "getsource", "glob", "iterdir", "open", "read_bytes", "read_text", "rglob"}
NO_TEST_LOADS = ("changes/*", "docs/*.md", ".github/*", "README.md", "CONTRIBUTING.md")


def changed_files(base: str, root: Path = ROOT) -> list[Path]:
    """Return the files that differ from where HEAD left a base, those unknown to git included."""

    def git(*arguments: str) -> list[str]:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    (start,) = git("merge-base", "HEAD", base)
    names = git("diff", "--name-only", "--no-renames", start)
    return [root / name for name in {*names, *git("ls-files", "--others", "--exclude-standard")}]


def picked(root: Path, changed: Collection[Path]) -> list[Path]:
    """Return the test files that a change of these files can reach."""
    graph = FileGraph(root)
    tests = [path for path in graph.edges if path.name.startswith("test_") and _collected(path)]
    everywhere, python = always(graph), {path for path in changed if path.suffix == ".py"}
    others = set(changed) - python
    # A file that is gone has no place in the graph, so that nobody knows who loaded it.
    if any(_asks_all(root, p) for p in others) or python & everywhere or python - set(graph.edges):
        return tests
    looks = {path for path in graph.edges if "src" not in path.parts and _looks(path)}
    found = []
    for path in tests if changed else []:
        reached = graph.reached(path)
        if reached & python or reached & looks:
            found.append(path)
    return found


def _collected(path: Path) -> bool:
    """Return whether the unit session runs a file: no wheels and no projects of others."""
    return not {"third_party", "wheels"} & set(path.parts)


def _asks_all(root: Path, path: Path) -> bool:
    name = path.relative_to(root).as_posix()
    return not any(fnmatch(name, pattern) for pattern in NO_TEST_LOADS)


def always(graph: FileGraph) -> set[Path]:
    """Return the files that every run of pytest loads."""
    conftest = graph.root / "conftest.py"
    text = conftest.read_text("utf-8") if conftest.exists() else ""
    plugins = [graph.modules[word] for word in re.findall(r"\w+", text) if word in graph.modules]
    hooks = [path for name, path in graph.modules.items() if name.endswith(".pytest_plugin")]
    return {conftest, *plugins, *hooks}


def _looks(path: Path) -> bool:
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    words = (getattr(node, "attr", None) or getattr(node, "id", None) for node in nodes)
    return not LOOKS.isdisjoint(words)


def main(arguments: list[str]) -> None:
    """Print the test files."""
    base = arguments[0] if arguments else "main"
    for path in picked(ROOT, changed_files(base)):
        print(path.relative_to(ROOT).as_posix())


if __name__ == "__main__":
    main(sys.argv[1:])
