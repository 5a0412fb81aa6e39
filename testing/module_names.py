"""The lint of module names: words of house slang, and the term to use instead of each.

Requirements: a reader who knows compilers and GPUs understands a module's name without this
repository's history, so names come from `docs/kernels/glossary.md`. A module that still has an old
name is an exception with the term it will get; an exception without its module is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

# Words of a name, which underscores separate.
BANNED = {
    "across": "direct_channel_vectors",
    "acrossing": "direct_channel_vectors_launch",
    "along": "row_windows",
    "aside": "unfinished or pending",
    "bands": "fragment_rows",
    "box": "tma or tile",
    "boxed": "warpgroup_tma_launch",
    "boxes": "tma",
    "divided": "split_k_two_pass",
    "dots": "dot_products, or gemv for a product with few rows",
    "few": "gemv, or the number that is meant",
    "gathered": "implicit_gemm",
    "growing": "fusion_groups",
    "held": "register, or parameters of a module",
    "keeping": "caching",
    "kept": "cache",
    "kinds": "reduction_ops, or the objects that have kinds",
    "narrowing": "small_width_launch, or conversion of dtypes",
    "patch": "simt or tile",
    "patches": "simt",
    "place": "pixel, position or operand",
    "places": "pixels, positions or operands",
    "placing": "job",
    "quick": "fast_path, or quicksort",
    "rowing": "rows_launch, or depthwise_launch",
    "rowwise": "depthwise",
    "seen": "probe",
    "shifted": "direct_rows",
    "shifting": "direct_rows_launch",
    "short": "fast_path",
    "square": "warp_mma",
    "squares": "warp_mma",
    "team": "cooperative",
    "teams": "simt, or cooperative",
    "tiling": "tiles_launch",
    "transposed": "register_a, or operand_transpose",
    "tried": "probe",
    "turned": "operand_transpose",
    "turns": "locks",
    "unfolding": "im2col",
    "waves": "wave_quantization",
    "written": "tma_store",
}

# Modules that still have an old name: the path below the repository, and the name to give.
# None is left: a new module has a name of the field from the start.
EXCEPTIONS: dict[str, str] = {}


def modules(root: Path) -> list[Path]:
    """Return the modules of all distributions, relative to the root."""
    found = (root.glob(f"{folder}/*/src/**/*.py") for folder in ("packages", "plugins"))
    return sorted(path.relative_to(root) for paths in found for path in paths)


def launched_sibling(path: Path, siblings: Iterable[str]) -> str | None:
    """Return the module whose launches a gerund names: `rows` for `rowing`."""
    if "library" not in path.parts or not path.stem.endswith("ing"):
        return None
    stem = path.stem.removesuffix("ing")
    forms = {stem, f"{stem}s", f"{stem}e", f"{stem}es"}
    if stem[-2:-1] == stem[-1:]:
        forms |= {stem[:-1], f"{stem[:-1]}s"}
    return next((name for name in sorted(siblings) if name in forms), None)


def slang(paths: Iterable[Path], banned: Mapping[str, str] = BANNED) -> dict[str, str]:
    """Return the modules whose names break the rule, and what each message says."""
    paths = list(paths)
    folders: dict[Path, set[str]] = {}
    for path in paths:
        folders.setdefault(path.parent, set()).add(path.stem)
    wrong = {}
    for path in paths:
        words = [word for word in path.stem.strip("_").split("_") if word in banned]
        sibling = launched_sibling(path, folders[path.parent] - {path.stem})
        if words:
            terms = "; ".join(f"{word}: use {banned[word]}" for word in words)
            wrong[path.as_posix()] = f"{path.as_posix()}: {terms}"
        elif sibling:
            wrong[path.as_posix()] = f"{path.as_posix()}: use {sibling}_launch"
    return wrong
