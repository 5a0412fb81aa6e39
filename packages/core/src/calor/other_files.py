"""Files that other programs wrote, told by their first bytes: for `calor.load`.

Requirements: the bytes decide, not the name. No file runs code: NumPy's files of objects and
PyTorch's pickles are refused, with the way to read them.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any, Final

import numpy as np

from calor.errors import FormatError
from calor.functions.creation import asarray
from calor.gguf_file import MAGIC, GGUFFile
from calor.safetensors_file import File, bytes_of, name_of

_NPY: Final = b"\x93NUMPY"
_ZIP: Final = b"PK\x03\x04"
_EMPTY_ZIP: Final = b"PK\x05\x06"
_PICKLE: Final = b"\x80"
_PROTOCOLS: Final = (b"\2", b"\3", b"\4", b"\5")


def load_other(path: File, device: Any, begin: bytes) -> Any:
    """Return what a file of another format holds; None for a file of safetensors.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file.
    device : Device or str or None
        Where the tensors are.
    begin : bytes
        The first bytes of the file.

    Returns
    -------
    Tensor, dict of str to Tensor, or None
        A .npy file is one tensor; .npz and GGUF files are tensors by name.

    Raises
    ------
    FormatError
        If the file is a pickle, holds objects of Python, or is damaged.
    """
    if begin.startswith(MAGIC):
        file = GGUFFile(path)
        return {name: file.tensor(name, device=device) for name in file}
    if begin.startswith((_NPY, _ZIP, _EMPTY_ZIP)):
        return _numpy(path, device)
    if begin[:1] == _PICKLE and begin[1:2] in _PROTOCOLS:
        raise _pickle(path)
    return None


def _numpy(path: File, device: Any) -> Any:
    try:
        held = np.load(io.BytesIO(bytes_of(path)))
        if isinstance(held, np.ndarray):
            return asarray(held, device=device)
        if any(name.endswith("data.pkl") for name in held.zip.namelist()):
            raise _pickle(path)
        return {name: asarray(held[name], device=device) for name in held.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name_of(path)}: NumPy cannot read the file ({error})") from None


def _pickle(path: File) -> FormatError:
    return FormatError(
        f"{name_of(path)}: the file is a pickle, which may run code; open PyTorch's with "
        f"torch.load(path, weights_only=True) and give its tensors to nn.from_torch_state_dict"
    )
