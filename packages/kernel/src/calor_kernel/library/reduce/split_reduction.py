"""Division of long reductions among cubes.

Requirements: the division depends on sizes and the kind of device alone, never on the number of
cores, so that results are the same on all of them. A part is some microseconds of work. Small
reductions stay whole, since joining costs a launch.
"""

from __future__ import annotations

from typing import Final

from calor_kernel.contract.choices import greatest, least
from calor_kernel.contract.info import DeviceInfo

# Minimum of bytes of a divided reduction, and bytes of a part. On a GPU a launch costs the host as
# much as a cube needs to read this.
_WHOLE: Final = 1 << 19
_LEAST, _MOST = 1 << 16, 1 << 20
# Sufficient numbers of cubes, of one unit and of many.
_ENOUGH, _ENOUGH_TEAMS = 32, 512


def divided(info: DeviceInfo, cubes: int, total: int, places: int, each: int) -> tuple[int, int]:
    """Return the number of parts of each cube's work, and the positions of a part.

    ``total``: bytes that all cubes read. A cube's work is ``places`` positions of ``each`` bytes.
    Undivided work is (1, 0).
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
