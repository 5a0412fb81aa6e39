"""Which files of the repository a file can load: the imports between all of its Python files.

The graph errs towards edges. Each rule adds what a file may load, whether or not it does:

- Imports count wherever they stand; importing ``a.b.c`` loads ``a`` and ``a.b`` too.
- A module that imports a name that it computes may load each module of its distribution.
- A text that is a module's name, or in tests mentions one, may be imported or run.
- A device's plugin is loaded by its name, which the text of some file says: ``"strict:cpu"`` loads
  two. A file that lists devices, or sets which one is taken, may load each of them.
- The fusers are loaded by who asks for all of them, rows of the op table by core, an importer by a
  file name that ends as it says, and a door such as ``calor.nn`` by its name.
- A module with a table of ways loads the rows that other distributions add to it.
- Core depends on no other distribution. Where one of its functions loads one, those do that say the
  function's name; what else core's texts name is for messages and for devices that it would choose
  without the tests' settings.
- A test loads the ``conftest.py`` and the ``__init__.py`` of its folder and of those above.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOTS = ("packages/*/src", "plugins/*/src", "integration-tests/*/src")
FOLDERS = (
    "benchmarks",
    "testing",
    "tools",
    "integration-tests/array_api",
    "integration-tests/clients",
)
POINTS, WAYS = "calor.plugins.v1", "calor_kernel.ways.v1"
DYNAMIC = {"__import__", "import_module", "iter_modules", "walk_packages"}
LISTS_DEVICES = {"CALOR_DEVICE", "devices", "doctor", "installed"}
DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


class FileGraph:
    """The Python files below a folder, and the edges between them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        sources = [path for pattern in ROOTS for path in sorted(root.glob(pattern))]
        self.sources = [*sources, *(root / name for name in FOLDERS if (root / name).is_dir())]
        self.modules = dict(self._modules())
        self.packages = {
            name for name, path in self.modules.items() if path.parents[1].name == "src"
        }
        self.entries = dict(self._entries(POINTS))
        self.ways = list(self._entries(WAYS))
        self.core = next((self._source(p) for n, p in self.modules.items() if n == "calor"), None)
        self.doors = self._doors()
        self.asked = dict(self._asked())
        below = ("packages", "plugins", "integration-tests", *FOLDERS)
        files = {path for name in below for path in (root / name).rglob("*.py")}
        self.edges = {path: self._loads(path) for path in sorted(files)}

    def reached(self, start: Path) -> set[Path]:
        """Return what a file can load, directly or through others, itself included."""
        found, waiting = {start}, [start]
        while waiting:
            new = self.edges.get(waiting.pop(), set()) - found
            found |= new
            waiting.extend(new)
        return found

    def _modules(self) -> Iterator[tuple[str, Path]]:
        for source in self.sources:
            for path in sorted(source.rglob("*.py")):
                parts = path.relative_to(source).with_suffix("").parts
                name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
                if name:
                    yield name, path

    def _entries(self, group: str) -> Iterator[tuple[str, Path]]:
        """Yield the names of a group of entry points, and the modules to which they refer."""
        for path in sorted(self.root.glob("*/*/pyproject.toml")):
            for name, value in _entry_points(path, group).items():
                module = value.partition(":")[0]
                if module in self.modules:
                    yield name, self.modules[module]

    def _doors(self) -> dict[str, Path]:
        """Return core's modules that put a package of another distribution in their place."""
        return {
            name.partition(".")[2]: path
            for name, path in self.modules.items()
            if name.count(".") == 1 and self._source(path) == self.core
            if "doors" in path.read_text("utf-8") and name != "calor.doors"
        }

    def _asked(self) -> Iterator[tuple[str, set[Path]]]:
        """Yield the names of core's functions that load other distributions, and what they load."""
        for path in [path for path in self.modules.values() if self._source(path) == self.core]:
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    inner = [
                        n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)
                    ]
                    found = set().union(*(self._imports(path, n) for n in inner))
                    doors = found & set(self.doors.values())
                    if doors:
                        yield node.name, doors

    def _source(self, path: Path) -> Path | None:
        return next((source for source in self.sources if source in path.parents), None)

    def _named(self, name: str) -> set[Path]:
        """Return the files that importing a name runs: each package on the way, and its module."""
        parts = name.split(".")
        prefixes = (".".join(parts[: i + 1]) for i in range(len(parts)))
        return {self.modules[prefix] for prefix in prefixes if prefix in self.modules}

    def _loads(self, path: Path) -> set[Path]:
        tree = ast.parse(path.read_text("utf-8"))
        source = self._source(path)
        documented = set(_docstrings(tree))
        found = self._conftests(path)
        if path == self.modules.get("calor"):
            found |= self._rows()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= self._imports(path, node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                if node not in documented:
                    found |= self._text(node.value, source)
            elif isinstance(node, ast.Call):
                found |= self._dynamic(node, source)
            found |= self._word(node, source)
        if source == self.core and path not in self.doors.values():
            inside = {other for other in found if self._source(other) == self.core}
            found = inside - set(self.doors.values()) | (found & self._rows())
        return found - {path}

    def _imports(self, path: Path, node: ast.Import | ast.ImportFrom) -> set[Path]:
        if isinstance(node, ast.Import):
            return set().union(*(self._named(alias.name) for alias in node.names))
        if not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            return set().union(*map(self._named, names))
        folder = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
        places = [folder, *(folder / alias.name for alias in node.names)]
        files = [file for at in places for file in (at / "__init__.py", at.with_suffix(".py"))]
        return {file for file in files if file.exists()}

    def _text(self, text: str, source: Path | None) -> set[Path]:
        found: set[Path] = set()
        if "." in text or text in self.packages:
            found |= self._named(text) | self._named(f"{text}.__main__")
        suffix = f"importer.{text.rpartition('.')[2]}"
        found.update(path for name, path in self.entries.items() if name == suffix)
        if source is None or source.name != "src":
            found.update(self._mentioned(text))
        if " " not in text:
            parts = set(re.split(r"[:,]", text))
            found.update(path for name, path in self.entries.items() if name in parts)
        return found

    def _mentioned(self, text: str) -> Iterator[Path]:
        """Yield what a program in a text imports, and the helpers of tests that it names."""
        for name in DOTTED.findall(text):
            top, _, rest = name.partition(".")
            if top in self.packages:
                yield from self._named(name)
                if top == "calor" and rest.partition(".")[0] in self.doors:
                    yield self.doors[rest.partition(".")[0]]
        if text in self.modules:
            yield self.modules[text]

    def _dynamic(self, node: ast.Call, source: Path | None) -> set[Path]:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        first = node.args[0] if node.args else None
        constant = isinstance(first, ast.Constant)
        if name == "Table" and isinstance(first, ast.Constant):
            return {path for table, path in self.ways if table == first.value}
        if name not in DYNAMIC or constant or source is None:
            return set()
        own = {name: path for name, path in self.modules.items() if self._source(path) == source}
        return {path for name, path in own.items() if not name.endswith(".__main__")}

    def _word(self, node: ast.AST, source: Path | None) -> set[Path]:
        """Return what a name, an attribute, or a text that is one word, may load."""
        word = _word_of(node)
        if isinstance(node, ast.Constant) and word not in LISTS_DEVICES:
            return set()
        if word in self.doors:
            return {self.doors[word]}
        if word in self.asked:
            return self.asked[word]
        if word == "fusers":
            return {path for name, path in self.entries.items() if name.startswith("fuser.")}
        if word in LISTS_DEVICES and (source is None or source.name != "src"):
            return set(self.entries.values())
        return set()

    def _rows(self) -> set[Path]:
        return {path for name, path in self.entries.items() if name.startswith("ops.")}

    def _conftests(self, path: Path) -> set[Path]:
        """Return what pytest loads for a file of tests: what its folder and those above bring."""
        if not path.name.startswith("test_") and path.name != "conftest.py":
            return set()
        folders = [folder for folder in path.parents if self.root in folder.parents]
        brought = [folder / name for folder in folders for name in ("__init__.py", "conftest.py")]
        return {file for file in brought if file.exists()} - {path}


def _word_of(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2]
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            yield node.value


def _entry_points(path: Path, group: str) -> dict[str, str]:
    project = tomllib.loads(path.read_text("utf-8")).get("project", {})
    return dict(project.get("entry-points", {}).get(group, {}))
