"""Writes the pages of the API reference from the code.

Requirements: the reference follows the code, so a new public name, module or project appears in it
without a change here. What is public is what a package names in `__all__`; the modules among these
names have a page of their own, everything else is grouped by the module that defines it. `TOPICS`
only says which of those groups share a page.
"""

import importlib
import inspect
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

# Pages of `calor`: a title, and what the names of the defining modules begin with.
TOPICS = {
    "The tensor": ("calor.tensor.",),
    "Making tensors": (
        "calor.functions.creation",
        "calor.functions.conversion",
        "calor.functions.ranges",
        "calor.device_selection",
    ),
    "Element by element": (
        "calor.functions.elementwise",
        "calor.functions.signs",
        "calor.functions.bits",
        "calor.functions.rounding",
        "calor.functions.complex_parts",
        "calor.functions.circular",
        "calor.functions.special",
        "calor.functions.transcendental",
        "calor.functions.error_functions",
        "calor.functions.logarithms",
        "calor.functions.signals",
        "calor.functions.logic",
    ),
    "Shapes, joining, indexing": (
        "calor.functions.manipulation",
        "calor.functions.repeating",
        "calor.functions.joining",
        "calor.functions.indexing",
    ),
    "Reductions, sorting, comparing": (
        "calor.functions.reductions",
        "calor.functions.statistics",
        "calor.functions.searching",
        "calor.functions.sorting",
        "calor.functions.sets",
        "calor.functions.utility",
    ),
    "Products of matrices": ("calor.functions.linear_algebra",),
    "Activations": ("calor.functions.activation",),
    "Gradients, jit, control flow": ("calor.transforms.", "calor.recording.records"),
    "dtypes": ("calor.dtypes", "calor.functions.data_types", "calor.functions.inspection"),
}
REST = "Files, devices, timing"
OP_TABLE_HEAD = """# The op table

After this page you know every operation that a device is asked for. A row of the kind *composite*
is defined by smaller ones: a device that does not take it whole gets those. All others are
primitives.
[](../extending/ops.md) explains what a row is.
"""
# What comes first on the page of a package; the rest follows by name.
FIRST = {"calor_nn": ("module", "containers", "linear", "conv"), "calor_train": ("learner",)}
# Modules that no package names, and that somebody outside calor still imports from.
UNNAMED = ("calor.errors", "calor_train.plots")
EXTENDING = (
    "calor.ops.base",
    "calor.ops.rules",
    "calor.specs",
    "calor.graph.graph",
    "calor.graph.op",
    "calor.graph.attributes",
    "calor.backends.protocol",
    "calor.backends.capabilities",
    "calor.backends.buffer",
    "calor.backends.op_table",
    "calor.backends.device",
    "calor.plugins.hooks",
)
KERNELS = (
    "calor_kernel.language",
    "calor_kernel.contract.work",
    "calor_kernel.contract.fuser",
    "calor_kernel.printers",
    "calor_kernel.ir.nodes",
    "calor_kernel.ir.types",
    "calor_kernel.contract.info",
    "calor_kernel.device.protocol",
    "calor_kernel.runtime.backend",
    "calor_kernel.runtime.entry",
    "calor_kernel.device.diagnosis",
    "calor_kernel.errors",
)


def packages(root: Path) -> Iterator[str]:
    """The import names of the projects, in the order of their folders."""
    for folder in ("packages", "plugins"):
        for path in sorted(root.glob(f"{folder}/*/pyproject.toml")):
            name: str = tomllib.loads(path.read_text("utf-8"))["project"]["name"]
            yield name.replace("-", "_")


def directive(name: str, *options: str) -> str:
    """A directive of autodoc within Markdown."""
    body = "".join(f"   {option}\n" for option in options)
    return f"```{{eval-rst}}\n.. {name}\n{body}```\n"


def entry(package: str, name: str, thing: Any) -> str:
    """The directive that documents one public function or class."""
    if not inspect.isclass(thing):
        return directive(f"autofunction:: {package}.{name}")
    if thing.__name__ != name:
        # Autodoc would only say that this name is an alias of another.
        text = inspect.cleandoc(thing.__doc__ or "").splitlines()
        return directive(f"py:class:: {package}.{name}{inspect.signature(thing)}", "", *text)
    inherited = (":inherited-members:",) if thing.__name__ == "Tensor" else ()
    options = (":members:", ":exclude-members: extra_repr", *inherited)
    return directive(f"autoclass:: {package}.{name}", *options)


def sentence(module: str) -> str:
    """The first sentence of a module's docstring, as a heading."""
    text = (importlib.import_module(module).__doc__ or module).partition("\n")[0]
    return text.partition(". ")[0].rstrip(".").replace("``", "`")


def groups(package: ModuleType) -> dict[str, list[str]]:
    """The public functions and classes by the module that defines them, in order of its lines."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in package.__all__:
        thing = getattr(package, name)
        if inspect.isclass(thing) or inspect.isroutine(thing):
            line = inspect.getsourcelines(thing)[1]
            found.setdefault(thing.__module__, []).append((line, name))
    return {module: [name for _, name in sorted(pairs)] for module, pairs in found.items()}


def sections(package: ModuleType, modules: Iterable[str], names: dict[str, list[str]]) -> str:
    """The sections of a page, one for each defining module."""
    modules = list(modules)
    parts = []
    for module in modules:
        # The one section of a page needs no heading of its own.
        parts.append(f"{'## ' if len(modules) > 1 else ''}{sentence(module)}\n")
        parts += [entry(package.__name__, n, getattr(package, n)) for n in names[module]]
    return "\n".join(parts)


def constants(package: ModuleType) -> str:
    """A table of what is neither a function, a class nor a module."""
    rows = []
    for name in package.__all__:
        thing = getattr(package, name)
        if not (callable(thing) or inspect.ismodule(thing) or name.startswith("_")):
            rows.append(f"| `{package.__name__}.{name}` | `{thing!r}` |")
    if not rows:
        return ""
    return "\n".join(["## Constants and dtypes\n", "| name | value |", "| --- | --- |", *rows, ""])


def topic_of(module: str) -> str:
    fitting = [title for title, starts in TOPICS.items() if module.startswith(starts)]
    return fitting[0] if fitting else REST


def core_pages(package: ModuleType) -> dict[str, str]:
    """The pages of `calor`, by title."""
    names = groups(package)
    pages = {}
    for title in (*TOPICS, REST):
        modules = [m for m in names if topic_of(m) == title]
        starts = TOPICS.get(title, ())
        modules.sort(key=lambda m: ([i for i, s in enumerate(starts) if m.startswith(s)], m))
        text = sections(package, modules, names)
        if title == "dtypes":
            text += constants(package)
        if text:
            pages[title] = f"# {title}\n\n{text}"
    return pages


def package_page(package: ModuleType) -> str:
    """The page of a package whose names are grouped by the modules that define them."""
    names = groups(package)
    first = [f"{package.__name__}.{module}" for module in FIRST.get(package.__name__, ())]
    # What a package only passes on comes last.
    own = f"{package.__name__}."
    modules = sorted(
        names,
        key=lambda m: (not m.startswith(own), first.index(m) if m in first else len(first), m),
    )
    head = f"# {package.__name__}\n\n" + directive(f"automodule:: {package.__name__}") + "\n"
    return head + sections(package, modules, names) + constants(package)


def module_page(name: str) -> str:
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):
        return package_page(module)
    return f"# {name}\n\n" + directive(f"automodule:: {name}", ":members:", ":show-inheritance:")


def op_table() -> str:
    """The table of all rows: what a device implements, and what is decomposed for it."""
    from calor.ops.base import table

    rows = table()
    lines = [OP_TABLE_HEAD, "| op | attributes | gradient | kind |", "| --- | --- | --- | --- |"]
    for name in sorted(n for n in rows if "." not in n and n != "input"):
        row = rows[name]
        given = inspect.signature(row.rule).parameters.values()
        attributes = [f"`{p.name}`" for p in given if p.kind is p.KEYWORD_ONLY]
        gradient = row.no_gradient or ("yes" if row.vjp or row.decompose else "")
        kind = "primitive" if row.decompose is None else "composite"
        lines.append(f"| `{name}` | {', '.join(attributes)} | {gradient} | {kind} |")
    return "\n".join(lines) + "\n"


def toctree(title: str, names: Iterable[str]) -> str:
    return "\n".join([f"## {title}\n", "```{toctree}", ":maxdepth: 1\n", *names, "```\n"])


def file_name(title: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def write_pages(folder: Path, root: Path) -> None:
    """Write the reference's pages into `folder`, and remove those that nothing has any more."""
    folder.mkdir(exist_ok=True)
    imported = [importlib.import_module(name) for name in packages(root)]
    core = importlib.import_module("calor")
    others = [package for package in imported if package is not core]
    topics = {file_name(title): text for title, text in core_pages(core).items()}
    modules = [
        getattr(package, name).__name__
        for package in imported
        for name in package.__all__
        if inspect.ismodule(getattr(package, name))
    ]
    pages = topics | {
        name: module_page(name) for name in (*modules, *UNNAMED, *EXTENDING, *KERNELS)
    }
    pages |= {package.__name__: package_page(package) for package in others}
    pages["op-table"] = op_table()
    pages["index"] = "\n".join(
        [
            "# API reference\n",
            toctree("calor", topics),
            toctree("Modules", [*modules, *UNNAMED]),
            toctree("Other packages", [package.__name__ for package in others]),
            toctree("For those who extend calor", ["op-table", *EXTENDING]),
            toctree("For those who write kernels and devices", KERNELS),
        ]
    )
    files = {folder / f"{name}.md": text for name, text in pages.items()}
    for old in set(folder.glob("*.md")) - set(files):
        old.unlink()
    for path, text in files.items():
        # Sphinx reads again only what changed, and it judges that by the file's time.
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")


def draw_example(path: Path) -> None:
    """Draw the graph that the page on graphs shows."""
    import calor

    def f(x: Any, scale: float) -> Any:
        return calor.tanh(x * scale).sum()

    with calor.device("numpy"):
        calor.trace(calor.grad(f), calor.ones(2), 0.5).draw(path)
