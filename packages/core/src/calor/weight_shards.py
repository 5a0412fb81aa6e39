"""Weights in several safetensors files: an index with a map of names to files, or a folder.

Requirements: large models come as ``model-00001-of-00003.safetensors`` beside
``model.safetensors.index.json``. They read as one file: only shards whose tensors are asked for are
opened. An index names files of its own folder and no others.

Source: https://huggingface.co/docs/safetensors, https://huggingface.co/docs/transformers/big_models
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from calor.errors import FormatError
from calor.safetensors_file import File, SafetensorsFile, is_sharded
from calor.specs import Spec
from calor.tensor.tensor import Tensor

Array = np.ndarray[Any, Any]
INDEX: Final = ".safetensors.index.json"
_FILES: Final = "*.safetensors"


class ShardedFile(Mapping[str, Array]):
    """The tensors of several safetensors files by name, as read-only host arrays.

    Parameters
    ----------
    path : str or path-like
        An index, such as ``model.safetensors.index.json``, or a folder with one. In a folder
        without an index all safetensors files are read.

    Attributes
    ----------
    path : pathlib.Path
        The index, or the folder.
    metadata : dict of str to str
        What the index says besides names, as text.
    files : dict of str to pathlib.Path
        The file of each tensor.

    Raises
    ------
    FormatError
        If there is no such file, the index cannot be read or names a file elsewhere, or a name
        occurs in two files.
    """

    def __init__(self, path: Any) -> None:
        self.path: Final = Path(path)
        self.metadata: Final[dict[str, str]] = {}
        self.files: Final[dict[str, Path]] = {}
        self._open: Final[dict[Path, SafetensorsFile]] = {}
        if not self.path.is_dir():
            self._read_index(self.path)
            return
        indices = sorted(self.path.glob(f"*{INDEX}"))
        if len(indices) == 1:
            self._read_index(indices[0])
        elif indices:
            names = ", ".join(index.name for index in indices)
            raise FormatError(f"{self.path}: the folder has several indices, {names}; name one")
        else:
            self._read_folder()

    def _read_index(self, index: Path) -> None:
        try:
            found = json.loads(index.read_text("utf-8"))
            places, said = found["weight_map"], found.get("metadata", {})
            items = list(places.items())
            self.metadata.update({str(k): str(v) for k, v in said.items()})
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"{index}: the file is no index of shards; it needs a table weight_map ({error!r})"
            ) from None
        for name, file in items:
            if not isinstance(file, str) or Path(file).name != file:
                raise FormatError(f"{index}: {file!r} of {name!r} is no file of the same folder")
            self.files[name] = index.parent / file

    def _read_folder(self) -> None:
        found = sorted(self.path.glob(_FILES))
        if not found:
            others = sorted(p.name for p in self.path.glob("*.bin")) or ["none"]
            raise FormatError(
                f"{self.path}: the folder has no safetensors files (PyTorch's: "
                f"{', '.join(others[:3])}); load those with torch.load(..., weights_only=True)"
            )
        for file in found:
            for name in self._shard(file):
                if name in self.files:
                    raise FormatError(
                        f"{self.path}: {name!r} is in {self.files[name].name} and in {file.name}"
                    )
                self.files[name] = file

    def _shard(self, file: Path) -> SafetensorsFile:
        if file not in self._open:
            try:
                self._open[file] = SafetensorsFile(file)
            except FileNotFoundError:
                raise FormatError(f"{self.path}: the shard {file.name} is missing") from None
        return self._open[file]

    def _holder(self, name: str) -> SafetensorsFile:
        shard = self._shard(self.files[name])
        if name not in shard:
            raise FormatError(
                f"{self.path}: {name!r} is not in {self.files[name].name}, where the index has it"
            )
        return shard

    @property
    def specs(self) -> dict[str, Spec]:
        """Shape and dtype of each tensor that calor can hold; it opens all files."""
        held = {name: self._holder(name).specs.get(name) for name in self.files}
        return {name: found for name, found in held.items() if found is not None}

    def __getitem__(self, name: str) -> Array:
        return self._holder(name)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def tensor(self, name: str, *, device: Any = None) -> Tensor:
        """Return a tensor of the files.

        Parameters
        ----------
        name : str
            The name of the tensor.
        device : Device or str, optional
            Where the result is. By default the current device.

        Returns
        -------
        Tensor
            The tensor.

        Raises
        ------
        KeyError
            If there is no such tensor.
        DTypeError
            If calor does not have the dtype of the tensor.
        FormatError
            If a file is missing or damaged.
        """
        return self._holder(name).tensor(name, device=device)


def read_safetensors(path: File) -> SafetensorsFile | ShardedFile:
    """Return the tensors of a safetensors file by name, mapped lazily.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, or a stream, which is read to its end. Of a model in several files the index,
        such as ``model.safetensors.index.json``, or the folder.

    Returns
    -------
    SafetensorsFile or ShardedFile
        A mapping from names to read-only host arrays; its method ``tensor`` gives tensors.

    Raises
    ------
    FormatError
        If the file breaks the rules of the format.
    DTypeError
        On access to a tensor of a dtype that calor does not have.

    References
    ----------
    https://github.com/huggingface/safetensors#format

    Examples
    --------
    >>> import calor, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> calor.write_safetensors(path, {"w": calor.ones((2, 2))})
    >>> calor.read_safetensors(path)["w"].shape
    (2, 2)
    """
    if is_sharded(path):
        return ShardedFile(path)
    return SafetensorsFile(path)
