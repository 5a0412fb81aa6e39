"""Messages of a stream: the requests of a session, over one WebSocket, answered in their order.

A message of a client is a head, and a frame as in the body of the request that it stands for; an
answer is the status that the request would have, and the frame of its body.
"""

from __future__ import annotations

import struct
from typing import Final

# Kind, number of the request or the contents, offset of the piece.
ASK: Final = struct.Struct("<BQQ")
STATUS: Final = struct.Struct("<H")
# The kinds: commands, a piece that is sent, one that is fetched, and the first piece of contents
# that are sent, which says in the place of its offset how many bytes they have.
COMMANDS: Final = 1
PUT: Final = 2
GET: Final = 3
FIRST: Final = 4
# The subprotocol of the handshake.
PROTOCOL: Final = "calor-1"
# So often a client hears of its server at least, while that one works for it, in seconds.
HEARTBEAT: Final = 20.0
