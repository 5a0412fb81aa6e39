"""Several devices as one: each operation runs where it is supported, and where it costs least.

``calor.device("router:cuda,cpu")`` is a device like any other. A program is cut between its members
by what they support and by what its operations and the transfers between them cost, which is
measured on the devices. `explain` tells which part runs where and why; `strict` refuses programs
that leave the first member.

>>> import calor
>>> with calor.device("router:numpy"):
...     print(calor.sum(calor.ones((2, 3))).item())
6.0
"""

from calor_router.explaining import explain
from calor_router.strictness import strict
from calor_router.told import Placement

__all__ = ["Placement", "explain", "strict"]
