"""The models that are served, by name and version, as the operator's files have them.

Requirements: what a request names is looked up among what was found at the start, so that no part
of a request becomes a path; a folder has the form of Triton's model repositories.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from calor.backends.device import Device
from calor.errors import ArgumentError
from calor_http.model.batching import Batcher
from calor_http.model.errors import Refused
from calor_http.model.messages import Reader, Writer
from calor_http.model.programs import SUFFIXES, Served, load

_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}")
_FIRST: Final = "1"


class Entry:
    """A version of a model.

    Parameters
    ----------
    name, version : str
        Its names.
    model : Served
        The model.
    batcher : Batcher
        What runs it.
    """

    def __init__(self, name: str, version: str, model: Served, batcher: Batcher) -> None:
        self.name = name
        self.version = version
        self.versions: Sequence[str] = ()
        self.model = model
        self.batcher = batcher
        self.reader = Reader(model.inputs, model.outputs)
        self.writer = Writer(name, version, model.outputs)
        self.ready = False
        # Answers that are always the same.
        self.handlers: dict[str, Callable[..., None]] = {}


class Repository:
    """All models.

    Parameters
    ----------
    files : mapping of str to (mapping of str to Path)
        The files by name and version, as :func:`found` returns them.
    device : Device
        What they run on.
    most : int
        The most rows that are joined.
    delay : float
        How many seconds a request waits for others.
    queue : int
        The most requests that wait for a model.
    """

    def __init__(
        self,
        files: Mapping[str, Mapping[str, Path]],
        device: Device,
        *,
        most: int = 32,
        delay: float = 0.002,
        queue: int = 1024,
    ) -> None:
        self._models: dict[str, dict[str, Entry]] = {}
        for name, versions in files.items():
            made = self._models[name] = {}
            for version, path in versions.items():
                model = load(path, device)
                made[version] = Entry(name, version, model, Batcher(model, most, delay, queue))
                made[version].versions = tuple(versions)

    @property
    def entries(self) -> list[Entry]:
        """All versions of all models."""
        return [entry for versions in self._models.values() for entry in versions.values()]

    def find(self, name: str, version: str | None) -> Entry:
        """Return a version of a model, the newest for None; Refused where there is none."""
        versions = self._models.get(name)
        if versions is None:
            raise Refused(404, f"there is no model {name[:80]!r}")
        # They are in order.
        entry = versions.get(version) if version is not None else list(versions.values())[-1]
        if entry is None:
            raise Refused(
                404, f"the model {name!r} has the versions {', '.join(versions)} here, no other"
            )
        return entry

    async def warm(self) -> None:
        """Compile all models, one after the other; each is ready once it is compiled."""
        for entry in self.entries:
            await entry.batcher.warm()
            entry.ready = True

    def close(self) -> None:
        """End what runs the models."""
        for entry in self.entries:
            entry.batcher.close()


def found(
    paths: Sequence[Path], name: str | None = None, policy: str = "latest"
) -> dict[str, dict[str, Path]]:
    """Return the model files of paths by name and version, versions in order.

    Parameters
    ----------
    paths : sequence of Path
        Files; folders of versions, ``NAME/1/model.onnx``; or folders of such folders.
    name : str, optional
        The name of the model, where there is one; by default that of its file or folder.
    policy : str, optional
        Which versions: "latest", "all", or numbers with commas between.

    Returns
    -------
    dict
        For each name the files by version.

    Raises
    ------
    ArgumentError
        If there is no model at a path, or two have one name.
    """
    made: dict[str, dict[str, Path]] = {}
    for path in paths:
        for known, versions in _at(path):
            if known in made:
                raise ArgumentError(f"two models are named {known!r}; serve one of them elsewhere")
            made[known] = _chosen(known, versions, policy)
    if name is not None:
        if len(made) != 1:
            raise ArgumentError(f"--name is for one model, and there are {len(made)}")
        made = {name: next(iter(made.values()))}
    return made


def _at(path: Path) -> list[tuple[str, dict[str, Path]]]:
    if path.is_file():
        return [(path.stem, {_FIRST: path})]
    if not path.is_dir():
        raise ArgumentError(f"there is no file and no folder {path}")
    versions = _versions(path)
    if versions:
        return [(path.resolve().name, versions)]
    inner = [(folder.name, _versions(folder)) for folder in sorted(path.iterdir())]
    models = [(name, versions) for name, versions in inner if versions]
    if not models:
        raise ArgumentError(
            f"{path} has no model; a repository has the form NAME/1/model.onnx, and its versions "
            f"are numbers"
        )
    return models


def _versions(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    names = [f.name for f in folder.iterdir() if f.is_dir() and _VERSION.fullmatch(f.name)]
    return {name: _model_in(folder / name) for name in sorted(names, key=int)}


def _model_in(folder: Path) -> Path:
    files = [file for file in sorted(folder.iterdir()) if file.suffix in SUFFIXES]
    named = [file for file in files if file.stem == "model"]
    if len(named or files) != 1:
        raise ArgumentError(f"{folder} needs one model.onnx or model.calor")
    return (named or files)[0]


def _chosen(name: str, versions: Mapping[str, Path], policy: str) -> dict[str, Path]:
    if policy == "all":
        return dict(versions)
    if policy == "latest":
        newest = list(versions)[-1]
        return {newest: versions[newest]}
    wanted = [part.strip() for part in policy.split(",")]
    chosen = {version: path for version, path in versions.items() if version in wanted}
    if not chosen:
        raise ArgumentError(
            f"{name!r} has the versions {', '.join(versions)}, none of {policy!r}; --versions "
            f'takes "latest", "all", or numbers with commas between'
        )
    return chosen
