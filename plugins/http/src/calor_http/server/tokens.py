"""The tokens that a server knows: their hashes, names, quotas and ends, as the operator wrote them.

Requirements: a token itself is stored nowhere and told nowhere; how long a look takes tells nothing
of the tokens, since hashes are compared; a file that changes is read again while the server runs,
and one that is wrong changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Final

from calor.errors import ArgumentError
from calor_http.errors import TokenExpiredError
from calor_http.server.quotas import Account, Quota, number_of, quota_fields
from calor_http.server.refusals import Refused

_log = logging.getLogger("calor_http")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_BEARER: Final = "Bearer "
EVERYBODY: Final = "everybody"


@dataclass(frozen=True, slots=True)
class Entry:
    """A token: its holder's name, the SHA-256 of each text that is valid, its quota, its end."""

    name: str
    hashes: tuple[str, ...]
    quota: Quota
    expires: datetime | None = None


def hash_of(token: str) -> str:
    """Return what is stored of a token: its SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_tokens(path: Path, quota: Quota) -> list[Entry]:
    """Return the tokens of a file; ArgumentError says what is wrong with it.

    Parameters
    ----------
    path : Path
        A TOML file with a table ``[tokens.NAME]`` for each token.
    quota : Quota
        What a table does not name.
    """
    try:
        mode, data = path.stat().st_mode, path.read_bytes()
        found = tomllib.loads(data.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"the tokens file {path} cannot be read: {error}") from None
    if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ArgumentError(f"others can write the tokens file {path}; chmod 600 {path}")
    tables = found.pop("tokens", None)
    if found or not isinstance(tables, dict) or not tables:
        raise ArgumentError(f"{path} has tables [tokens.NAME] and nothing else, one at least")
    entries = [_entry(path, name, table, quota) for name, table in tables.items()]
    hashes = [known for entry in entries for known in entry.hashes]
    if len({*hashes}) < len(hashes):
        raise ArgumentError(f"{path} has one token twice; make one for each name")
    return entries


def _entry(path: Path, name: str, table: Any, quota: Quota) -> Entry:
    where = f"{path}, [tokens.{name}]"
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        raise ArgumentError(f"{where}: a name is up to 64 letters, digits and . _ @ -")
    rest = dict(table)
    hashes = rest.pop("sha256", None)
    hashes = [hashes] if isinstance(hashes, str) else hashes
    if (
        not isinstance(hashes, list)
        or not hashes
        or not all(isinstance(known, str) and _HASH.fullmatch(known) for known in hashes)
    ):
        raise ArgumentError(
            f"{where}: sha256 is the token's hash, or a list of them; "
            f"python -m calor_http token {name} makes a token and tells its hash"
        )
    expires = _end(where, rest.pop("expires", None))
    observes = rest.pop("observes", quota.observes)
    unknown = [key for key in rest if key not in quota_fields()]
    if unknown or type(observes) is not bool:
        known = ", ".join(["sha256", "expires", "observes", *quota_fields()])
        raise ArgumentError(f"{where}: {', '.join(unknown) or 'observes'} is wrong; keys: {known}")
    try:
        numbers = {key: number_of(key, value) for key, value in rest.items()}
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}") from None
    return Entry(name, tuple(hashes), replace(quota, observes=observes, **numbers), expires)


def _end(where: str, value: Any) -> datetime | None:
    if value is None:
        return None
    if type(value) is date:
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ArgumentError(f"{where}: expires is a date such as 2027-01-31, without quotes")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


class Keyring:
    """Whom a server lets in.

    Parameters
    ----------
    entries : sequence of Entry or None
        The tokens; None lets everybody in, as one.
    quota : Quota, optional
        What everybody may use where there are no tokens.
    path : Path, optional
        The file of the tokens, which is read again when it changes.
    """

    def __init__(
        self, entries: list[Entry] | None, quota: Quota | None = None, path: Path | None = None
    ) -> None:
        self._quota = quota or Quota()
        self._path = path
        self._stamp = self._stamped()
        self._open: Account | None = None
        self._known: Mapping[str, tuple[Account, Entry]] = {}
        self.accounts: dict[str, Account] = {}
        if entries is None:
            self._open = Account(EVERYBODY, replace(self._quota, observes=True))
            self.accounts[EVERYBODY] = self._open
        else:
            self._take(entries)

    @property
    def wanted(self) -> bool:
        """Whether a token is needed."""
        return self._open is None

    def account(self, header: str) -> Account:
        """Return the account of a request by its header ``Authorization``.

        Raises
        ------
        Refused
            If the token is missing or wrong.
        TokenExpiredError
            If its time is over.
        """
        if self._open is not None:
            return self._open
        if not header.startswith(_BEARER):
            raise Refused
        found = self._known.get(hash_of(header[len(_BEARER) :]))
        if found is None:
            raise Refused
        account, entry = found
        if entry.expires is not None and datetime.now(UTC) >= entry.expires:
            raise TokenExpiredError(
                f"token {entry.name!r} expired at {entry.expires:%Y-%m-%d %H:%M} "
                f"{entry.expires.tzname()}; ask the server's operator for a new one"
            )
        return account

    def refresh(self) -> None:
        """Read the file again if it changed; one that is wrong is told in the log."""
        stamp = self._stamped()
        if self._path is None or stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._take(read_tokens(self._path, self._quota))
        except ArgumentError as error:
            _log.error("the tokens stay as they were: %s", error)

    def _take(self, entries: list[Entry]) -> None:
        known: dict[str, tuple[Account, Entry]] = {}
        for entry in entries:
            account = self.accounts.get(entry.name)
            if account is None:
                account = self.accounts[entry.name] = Account(entry.name, entry.quota)
            else:
                account.give(entry.quota)
            known.update((digest, (account, entry)) for digest in entry.hashes)
        # Of a token that was taken back, the sessions end with their leases.
        names = {entry.name for entry in entries}
        for name in [name for name, a in self.accounts.items() if name not in names]:
            if not self.accounts[name].sessions:
                del self.accounts[name]
        self._known = known

    def _stamped(self) -> Any:
        try:
            told = self._path.stat() if self._path else None
        except OSError:
            return None
        return told and (told.st_mtime_ns, told.st_size, told.st_ino)


def keyring_of(token: str | None, quota: Quota | None = None, name: str = "client") -> Keyring:
    """Return a keyring of one token, which observes; without one, everybody gets in."""
    if token is None:
        return Keyring(None, quota)
    given = replace(quota or Quota(), observes=True)
    return Keyring([Entry(name, (hash_of(token),), given)])


def new_token(name: str) -> str:
    """Return a new token as its holder and the operator need it: the text, and the table."""
    token = secrets.token_urlsafe(32)
    return (
        f"# For the client, to be told once: CALOR_HTTP_TOKEN={token}\n"
        f"# For the tokens file:\n"
        f'[tokens."{name}"]\n'
        f'sha256 = "{hash_of(token)}"'
    )
