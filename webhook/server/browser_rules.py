"""Rules for browsers: the headers of every answer, and the calls that get no data."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import hdrs, web

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HEADERS", "check_origin"]

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types gpu-admission"
)
"""Only files of this port are loaded and run, nothing is sent elsewhere, and only one function may write HTML: the one that inserts
the parts that the server renders. So a name that the templates failed to escape cannot run a script."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-store",
    hdrs.SERVER: "gpu-admission",
}
"""The headers of every answer; files replace `Cache-Control`."""

_ELSEWHERE = "This call comes from another page; open /ui of this address."


def check_origin(request: web.BaseRequest) -> None:
    """Refuse a call that a page of another origin makes.

    Browsers send `Sec-Fetch-Site`, and older ones `Origin`; a script cannot change either. Programs send neither. Without this
    check, a page of another origin could use the client certificate of the browser.

    Raises:
        web.HTTPForbidden: The text is one sentence.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get(hdrs.ORIGIN)
    if site is None and origin is not None:
        site = "same-origin" if _host_of(origin) == request.host.lower() else "cross-site"
    if site not in (None, "same-origin"):
        raise web.HTTPForbidden(text=_ELSEWHERE)


def _host_of(origin: str) -> str | None:
    """The host and port of an origin as a `Host` header has them; None if it is not one of HTTPS."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme == "https" else None
