"""Reads a tutorial and does what it says, block by block, as a reader would.

A block ``console`` holds commands after ``$ `` and what they print; ``pycon`` a session of Python.
A block ``python`` that begins with ``# PATH`` holds definitions that go into that file, in the
place of those that have their name, else above the last of all, the table. One with ``# PATH, in
NAME`` holds lines of a dictionary. What is printed is compared with the rest of the block, in which
``...`` stands for anything. A command ends with status 0 unless the page shows that it fails.
"""

from __future__ import annotations

import ast
import doctest
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .projects import Environment

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLACE = re.compile(r"# (?P<path>\S+\.py)(, in (?P<name>\w+))?\n")
# What a reader does once for the whole environment; the test has one.
PREPARED = ("python -m venv .venv", ". .venv/bin/activate", "pip install calor calor-conformance")
MODULES = {"pytest": "pytest", "calor-conformance": "calor_conformance"}


@dataclass(frozen=True)
class Block:
    """A block of a page, with the number of its first line."""

    language: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page that name a language."""
    for found in BLOCK.finditer(page):
        yield Block(found[1], found[2], page.count("\n", 0, found.start()) + 1)


class Reader:
    """Somebody who follows a page in an empty folder."""

    def __init__(self, folder: Path, environment: Environment) -> None:
        self.folder = folder
        self.environment = environment
        # The lines that the reader wrote, and the commands that were run.
        self.written: list[str] = []
        self.commands: list[str] = []

    def follow(self, block: Block) -> None:
        """Do what a block says; AssertionError when something else is printed."""
        getattr(self, f"_{block.language}")(block)

    def _console(self, block: Block) -> None:
        for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = step.partition("\n")
            where = f"line {block.line}: {command}"
            said, status = self._command(command)
            _compare(said, expected, where)
            assert (status == 0) is ("failed" not in expected), f"{where} ended with {status}"

    def _command(self, command: str) -> tuple[str, int]:
        """Return what a command of the page prints, and its status."""
        self.commands.append(command)
        first, *arguments = shlex.split(command)
        if command in PREPARED:
            return "", 0
        if first == "cd":
            self.folder /= arguments[0]
            return "", 0
        if first == "export":
            name, _, value = arguments[0].partition("=")
            self.environment.exported[name] = value
            return "", 0
        if command == 'pip install -e ".[test]"':
            self.environment.install(self.folder)
            return "", 0
        if first == "python":
            first, arguments = arguments[1], arguments[2:]
        else:
            first = MODULES[first]
        if first == "pytest":
            arguments = ["-q", "-p", "no:cacheprovider", *arguments]
        done = self.environment.run(first, arguments, self.folder)
        return done.stdout, done.returncode

    def _pycon(self, block: Block) -> None:
        session = self.folder / "session.txt"
        session.write_text(block.text, "utf-8")
        code = (
            "import doctest, sys;"
            "failed, _ = doctest.testfile('session.txt', False, encoding='utf-8',"
            " optionflags=doctest.ELLIPSIS); sys.exit(failed)"
        )
        done = self.environment.start(["-c", code], self.folder)
        session.unlink()
        assert done.returncode == 0, f"line {block.line}:\n{done.stdout}"

    def _python(self, block: Block) -> None:
        place = PLACE.match(block.text)
        assert place is not None, f"line {block.line}: the block does not name its file"
        path, text = self.folder / place["path"], block.text[place.end() :]
        self.written += [line for line in text.splitlines() if line.strip()]
        source = path.read_text("utf-8")
        change = with_lines if place["name"] else with_definitions
        path.write_text(change(source, text), "utf-8")


def with_lines(source: str, text: str) -> str:
    """Return a module in which lines of a dictionary are replaced by those with the same key."""
    for line in text.splitlines():
        key = line.partition(":")[0]
        source, count = re.subn(f"^{re.escape(key)}:.*$", lambda _, n=line: n, source, flags=re.M)
        assert count == 1, f"{key} is there {count} times"
    return source


def with_definitions(source: str, text: str) -> str:
    """Return a module with new definitions: in the place of the old, or above the next or last."""
    waiting: list[str] = []
    for node in ast.parse(text).body:
        part = ast.get_source_segment(text, node) or ""
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = _after_imports(source, part)
            continue
        there = _lines_of(source, _name(node))
        if there is None:
            waiting.append(part)
            continue
        source = _with_part(source, "\n\n\n".join([*waiting, part]), *there)
        waiting = []
    if waiting:
        last = ast.parse(source).body[-1].lineno - 1
        source = _with_part(source, "\n\n\n".join([*waiting, ""]), last, last)
    return source


def _with_part(source: str, part: str, start: int, stop: int) -> str:
    """Return a text with a part in the place of lines; nothing is removed where they are none."""
    lines = source.splitlines()
    return "\n".join([*lines[:start], part, *lines[stop:], ""])


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign):
        node = ast.Assign([node.target], node.value or ast.Constant(None))
    if isinstance(node, ast.Assign):
        (target,) = node.targets
        assert isinstance(target, ast.Name)
        return target.id
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    return node.name


def _lines_of(source: str, name: str) -> tuple[int, int] | None:
    for node in ast.parse(source).body:
        named = isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef)
        if named and _name(node) == name:
            return node.lineno - 1, node.end_lineno or node.lineno
    return None


def _after_imports(source: str, part: str) -> str:
    imports = [n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom)]
    lines = source.splitlines()
    lines.insert(imports[-1].end_lineno or 0, part)
    return "\n".join([*lines, ""])


def _compare(said: str, expected: str, where: str) -> None:
    """Compare what was printed with what the page says; nothing is compared with nothing."""
    if not expected.strip():
        return
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    fits = doctest.OutputChecker().check_output(expected, said, flags)
    assert fits, f"{where} printed\n{said}\nand the page says\n{expected}"
