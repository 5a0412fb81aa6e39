"""Tables of bounded size: one object for each key, and memoised results.

Requirements: equal specs are one object, and so are equal signatures, as long as somebody holds
them. A program that meets a hundred thousand shapes must not keep all of them. A look-up costs as
much as that of a dictionary.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar
from weakref import ref

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MEMO_LIMIT: Final = 1024


class Interner(Generic[K, V]):
    """The one object for each key, as long as it lives.

    ``entries`` holds weak references, which a hot path may read by itself. Dead ones are swept out
    when there are twice as many entries as lived at the last time.
    """

    __slots__ = ("_lock", "_room", "entries")

    def __init__(self) -> None:
        self.entries: dict[K, ref[V]] = {}
        # Collecting garbage while it is held may run code that comes here again.
        self._lock = threading.RLock()
        self._room = 1024

    def get(self, key: K) -> V | None:
        """Return the object of a key, None when there is none."""
        reference = self.entries.get(key)
        return None if reference is None else reference()

    def add(self, key: K, make: Callable[[], V]) -> V:
        """Return the object of a key, made when there is none."""
        with self._lock:
            found = self.get(key)
            if found is None:
                found = make()
                self.entries[key] = ref(found)
                if len(self.entries) > self._room:
                    self._sweep()
            return found

    def _sweep(self) -> None:
        for key, reference in list(self.entries.items()):
            if reference() is None:
                del self.entries[key]
        self._room = 2 * max(len(self.entries), 512)

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.entries.values()))


def remember(memo: dict[K, V], key: K, value: V) -> V:
    """Keep what can be worked out again, and return it; a memo that is full is emptied first.

    Memos are plain dictionaries, whose look-ups the interpreter knows best.

    >>> memo = {}
    >>> [remember(memo, n, -n) for n in range(MEMO_LIMIT + 1)][-1]
    -1024
    >>> len(memo)
    1
    """
    if len(memo) >= MEMO_LIMIT:
        memo.clear()
    memo[key] = value
    return value
