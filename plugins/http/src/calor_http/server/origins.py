"""Pages of other sites: a server without tokens answers none of them.

Requirements: a browser on the server's machine runs the scripts of every site, and reaches
127.0.0.1. A script cannot hide its site: its requests say where it comes from, or, if the site's
name was made to lead here, whom it meant to ask.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx

from calor.errors import ArgumentError
from calor_http.connection import is_loopback


def check_origin(headers: Mapping[str, str]) -> None:
    """Raise ArgumentError for a request that a page of another site sends, by its fields."""
    for field in ("host", "origin"):
        text = headers.get(field, "")
        if not text:
            continue
        try:
            host = httpx.URL(text if field == "origin" else f"http://{text}").host
        except httpx.InvalidURL:
            host = ""
        if not is_loopback(host):
            raise ArgumentError(
                "a server without tokens answers programs of its own machine, which ask for "
                "127.0.0.1 or localhost; give it a token to serve others"
            )
