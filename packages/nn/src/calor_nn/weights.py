"""Weight files: safetensors, and state dicts that PyTorch made.

All layers name and shape their parameters as PyTorch does, so its state dicts load as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

import calor
from calor_nn.loading import LoadReport, load_into
from calor_nn.module import Module


def save_weights(
    module: Module,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a module's parameters and persistent buffers to a safetensors file.

    The file is written whole or not at all. A tied weight is written under each of its names, so
    that every reader finds it.

    Parameters
    ----------
    module : Module
        The module.
    path : str or PathLike
        The file, which is replaced if it exists.
    metadata : mapping of str to str, optional
        Texts for the file's header.

    Examples
    --------
    >>> from calor import nn
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> nn.save_weights(nn.Linear(2, 1), path)
    >>> print(nn.load_weights(nn.Linear(2, 1), path))
    2 loaded
    """
    state = module.state_dict()
    calor.eval(list(state.values()))
    calor.write_safetensors(path, state, metadata)


def load_weights(
    module: Module, path: str | os.PathLike[str], *, strict: bool = True
) -> LoadReport:
    """Set a module's parameters and buffers from a safetensors file.

    The file is mapped into memory, and each tensor is copied once. Values are cast to the dtype,
    and moved to the device, of the tensors that they replace.

    Parameters
    ----------
    module : Module
        The module.
    path : str or PathLike
        The file, or the index or the folder of a model in several files.
    strict : bool
        Load everything or nothing; otherwise load what fits.

    Returns
    -------
    LoadReport
        What was loaded and what did not fit.

    Raises
    ------
    LoadError
        If `strict` and a weight is missing, unexpected or misshaped; the module is unchanged.
    FormatError
        If the file is not a safetensors file.

    Examples
    --------
    >>> from calor import nn
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> nn.save_weights(nn.Linear(2, 1), path)
    >>> nn.load_weights(nn.Linear(2, 1), path).loaded
    ('weight', 'bias')
    """
    return load_into(module, calor.read_safetensors(path), strict=strict)


def from_torch_state_dict(
    module: Module, state: Mapping[str, Any], *, strict: bool = True
) -> LoadReport:
    """Set a module's parameters and buffers from a PyTorch state dict.

    PyTorch itself is not needed. Values are cast to the dtype, and moved to the device, of the
    tensors that they replace.

    Parameters
    ----------
    module : Module
        The module.
    state : mapping of str to torch.Tensor or ndarray
        The values by path, of any device and dtype.
    strict : bool
        Load everything or nothing; otherwise load what fits.

    Returns
    -------
    LoadReport
        What was loaded and what did not fit.

    Raises
    ------
    LoadError
        If `strict` and a weight is missing, unexpected or misshaped; the module is unchanged.

    Examples
    --------
    >>> from calor import nn
    >>> import numpy as np
    >>> layer = nn.Linear(2, 1)
    >>> state = {"weight": np.ones((1, 2)), "bias": np.zeros(1)}
    >>> nn.from_torch_state_dict(layer, state).loaded
    ('weight', 'bias')
    """
    return load_into(module, {k: _host(v) for k, v in state.items()}, strict=strict)


def _host(value: Any) -> Any:
    """Return a PyTorch tensor as a host array; anything else as it is."""
    if not hasattr(value, "detach") or isinstance(value, calor.Tensor):
        return np.asarray(value) if not isinstance(value, calor.Tensor) else value
    value = value.detach().cpu()
    # NumPy has no bfloat16 that PyTorch knows; float32 holds it exactly.
    if str(value.dtype) == "torch.bfloat16":
        value = value.float()
    return value.numpy()
