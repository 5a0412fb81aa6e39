"""Public functions of packages without a row of drawn calls, and why."""

from __future__ import annotations

from typing import Final

_OF_NN: Final = {
    "a module with rows of its own": "functional init",
    "contracts of modules ask for it": (
        "LoadError LoadReport Module ModuleDict ModuleList Parameter Sequential "
        "from_torch_state_dict load_weights parametrize save_weights"
    ),
    "it prints": "summary",
}
REASONS: Final[dict[str, str]] = {
    "calor_linalg.LinAlgError": "an error",
    "calor_linalg.lu_factor": "has a row with lu_solve",
    "calor_linalg.ldl_factor": "has a row with ldl_solve",
    "calor_linalg.matmul": "calor's, which has a row",
    "calor_linalg.tensordot": "calor's, which has a row",
    **{f"calor_nn.{name}": reason for reason, names in _OF_NN.items() for name in names.split()},
    "calor_nn.init.Init": "a type",
    "calor_nn.init.drawn": "the first values of modules, which rows of modules replace",
    "calor_numerics.random": "a module; its numbers are asked for by checks of distributions",
    "calor_numerics.signal": "a module with rows of its own",
    "calor_numerics.signal.windows": "a module with rows of its own",
}
