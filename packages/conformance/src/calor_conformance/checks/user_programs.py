"""Programs as users have them in files: errors and warnings name lines outside of calor's packages.

The source of a program is made with the check, and its code says that it is of a file of that name.
"""

from __future__ import annotations

from typing import Any, Final

FILE: Final = "/home/user/drawn_program.py"


def of_user(source: str, *, file: str = FILE, **names: Any) -> dict[str, Any]:
    """Run a program as if it were a file of a user.

    Parameters
    ----------
    source : str
        The program.
    file : str, optional
        The name of its file; a device that tells errors late may tell lines of an earlier program
        of the same file.
    **names : object
        The names that it finds.

    Returns
    -------
    dict of str to object
        Its names afterwards.
    """
    space = {"__name__": "drawn_program", **names}
    exec(compile(source, file, "exec"), space)
    return space


def line(number: int, file: str = FILE) -> str:
    """Return how a line of the program is told."""
    return f"{file}:{number}"
