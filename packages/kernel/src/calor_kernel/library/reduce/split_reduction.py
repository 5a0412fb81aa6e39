"""Dividing long reductions among cubes.

Requirements: the division depends on sizes and the kind of device alone, never on how many cores
there are, so that results are the same on all of them; a part is some microseconds of work; what is
small stays whole, as joining costs a launch.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo

# Bytes that are read before it pays to divide, and of a part. On a GPU a launch costs the host as
# much as a cube reads in that time.
_WHOLE: Final = 1 << 19
_LEAST, _MOST = 1 << 16, 1 << 20
# Cubes that are enough, of one unit and of many.
_ENOUGH, _ENOUGH_TEAMS = 32, 512


def divided(info: DeviceInfo, cubes: int, total: int, places: int, each: int) -> tuple[int, int]:
    """Return into how many parts each cube's work is divided, and the places of a part.

    ``total``: bytes that all cubes read. A cube's work is ``places`` of ``each`` bytes. Whole work
    is (1, 0).
    """
    many = info.max_units > 1
    enough, fewest = (_ENOUGH_TEAMS, _LEAST // 4) if many else (_ENOUGH, _LEAST)
    if cubes >= enough or total <= _WHOLE:
        return 1, 0
    nbytes = least(greatest(total // (2 * enough), fewest), _MOST)
    chunk = greatest(nbytes // greatest(each, 1), 1)
    if chunk >= 64:
        chunk = chunk // 64 * 64
    parts = -(-places // chunk)
    return (parts, chunk) if parts > 1 else (1, 0)
