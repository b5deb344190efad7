"""Bearer tokens: what the `Authorization` header of a call holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["LARGEST_TOKEN", "BadToken", "bearer_token"]

LARGEST_TOKEN = 16 * 1024
"""Characters. Tokens of service accounts have about a thousand, those of people with hundreds of groups some ten thousand."""


class BadToken(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A header that holds no token that anybody could have been given. Its text is one plain sentence."""


def bearer_token(request: web.Request) -> str:
    """The token of a call, in printable ASCII; empty where the call has no `Authorization` header.

    Raises:
        BadToken: There is something else, or more than one.
    """
    headers = request.headers.getall(hdrs.AUTHORIZATION, [])
    if not headers:
        return ""
    scheme, _, token = headers[0].strip().partition(" ")
    token = token.strip()
    if len(headers) > 1 or scheme.lower() != "bearer" or not _could_be_one(token):
        raise BadToken("The Authorization header holds no bearer token; send one, as in Authorization: Bearer TOKEN.")
    if len(token) > LARGEST_TOKEN:
        raise BadToken(
            "The bearer token is longer than 16 KiB, and no cluster makes such; send the one you were given."
        )
    return token


def _could_be_one(token: str) -> bool:
    return bool(token) and token.isascii() and token.isprintable() and " " not in token
