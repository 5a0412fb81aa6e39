"""The imports within a package, and the circles among them, of files and of folders.

Every import counts: at the top of a module, inside a function, under ``TYPE_CHECKING``. The graph
is drawn by grimp, which reads the sources and runs nothing. Four rules say what an edge is:

- ``from a.b import c`` is an import of ``a.b.c`` if that is a module, and of ``a.b`` if not.
- An ``__init__`` is a file of its folder. It imports the modules whose names it hands out, so a
  module that imports the facade of its own package closes a circle of files.
- To import ``a.b.c`` is no import of ``a`` and ``a.b``, although Python runs their ``__init__``.
- Folders are compared level by level (``acyclic_siblings`` of import-linter): within each folder an
  import between two of its modules, folders or its ``__init__`` is an edge between these, however
  deep the files lie.

A circle is a set of files, or of siblings in one folder, each of which reaches all others by
imports: a strongly connected component of the graph.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grimp

Edges = Mapping[str, set[str]]
INIT = "__init__"


@dataclass(frozen=True)
class Import:
    """One import of a module by another: the files' module names, and where it stands."""

    importer: str
    imported: str
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.importer} imports {self.imported}"


@dataclass(frozen=True)
class Circle:
    """Modules that reach each other by imports, and the shortest way round through one of them.

    ``folder`` is the folder whose children these are, or None in a circle of files.
    """

    folder: str | None
    members: frozenset[str]
    way: tuple[Import, ...]

    def __str__(self) -> str:
        what = "files" if self.folder is None else f"children of {self.folder}"
        names = ", ".join(sorted(self.members))
        lines = "\n".join(f"    {step}" for step in self.way)
        return (
            f"{len(self.members)} {what} import each other in a circle: {names}\n"
            f"  the shortest way round:\n{lines}"
        )


class ImportGraph:
    """The imports between the files of a package that lies in a source folder."""

    def __init__(self, source: Path, package: str) -> None:
        self.source = source
        self.package = package
        with _on_path(source):
            self._graph = grimp.build_graph(package, cache_dir=None)
        self.edges: Edges = {
            name: self._graph.find_modules_directly_imported_by(name)
            for name in self._graph.modules
        }
        self.folders = sorted(n for n in self.edges if self._graph.find_children(n))

    def circles(self) -> list[Circle]:
        """Return the circles of files, then those of folders, outer folders first."""
        found = [self._circle(None, members, self.edges) for members in components(self.edges)]
        for folder in self.folders:
            edges = self._siblings(folder)
            found += [self._circle(folder, members, edges) for members in components(edges)]
        return found

    def _child(self, folder: str, name: str) -> str | None:
        """Return the child of a folder in which a module lies, None if it lies elsewhere."""
        if name == folder:
            return f"{folder}.{INIT}"
        if not name.startswith(f"{folder}."):
            return None
        return f"{folder}.{name[len(folder) + 1 :].partition('.')[0]}"

    def _siblings(self, folder: str) -> Edges:
        edges: dict[str, set[str]] = {}
        for name, imported in self.edges.items():
            child = self._child(folder, name)
            if child is not None:
                others = {self._child(folder, other) for other in imported}
                edges.setdefault(child, set()).update(o for o in others if o not in (None, child))
        return edges

    def _circle(self, folder: str | None, members: frozenset[str], edges: Edges) -> Circle:
        way = shortest_way_round(members, edges)
        steps = zip(way, (*way[1:], way[0]), strict=True)
        return Circle(folder, members, tuple(self._import(folder, a, b) for a, b in steps))

    def _import(self, folder: str | None, importer: str, imported: str) -> Import:
        """Return the first import between two files, or between files of two children."""
        if folder is None:
            pairs = [(importer, imported)]
        else:
            pairs = sorted(
                (a, b)
                for a in self.edges
                if self._child(folder, a) == importer
                for b in self.edges[a]
                if self._child(folder, b) == imported
            )
        a, b = pairs[0]
        details = self._graph.get_import_details(importer=a, imported=b)
        line = min(detail["line_number"] for detail in details)
        path = self.source.joinpath(*a.split("."))
        file = path / f"{INIT}.py" if path.is_dir() else path.with_suffix(".py")
        return Import(a, b, f"{os.path.relpath(file)}:{line}")


@contextmanager
def _on_path(source: Path) -> Iterator[None]:
    """Let a package be found in this folder first, whatever is installed."""
    sys.path.insert(0, str(source))
    try:
        yield
    finally:
        sys.path.remove(str(source))


def components(edges: Edges) -> list[frozenset[str]]:
    """Return the sets of more than one node that reach each other (Tarjan, 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            place = stack.index(node)
            if len(stack) - place > 1:
                found.append(frozenset(stack[place:]))
            del stack[place:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found, key=sorted)


def shortest_way_round(members: frozenset[str], edges: Edges) -> tuple[str, ...]:
    """Return the nodes of a shortest circle within a component, in order."""
    ways = [way for start in sorted(members) if (way := _way_round(start, members, edges))]
    return min(ways, key=len)


def _way_round(start: str, members: frozenset[str], edges: Edges) -> tuple[str, ...]:
    before: dict[str, str] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for other in sorted(edges.get(node, set()) & members):
            if other == start:
                way = [node]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return tuple(reversed(way))
            if other not in before:
                before[other] = node
                waiting.append(other)
    return ()
