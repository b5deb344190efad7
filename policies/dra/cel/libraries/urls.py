"""URLs: `url("https://example.com/a?b=c")` and the functions on them.

Source: k8s.io/apiserver/pkg/cel/url.go and library/urls.go, Go's net/url.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from policies.dra.cel.declarations import Function, Library, function, member
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.url_texts import (
    Part,
    UrlError,
    UrlParts,
    check_request_uri,
    decode,
    read_url,
    unescape,
)
from policies.dra.cel.types import BOOL, STRING, Type, list_of, map_of
from policies.dra.cel.values import Map

__all__ = ["LIBRARY", "URL"]

URL_TYPE = Type("kubernetes.URL", kind="object")
"""The type of URLs; expressions cannot name it."""

_MOST_PARAMETERS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class URL:
    """An absolute URI or an absolute path."""

    cel_type: ClassVar[Type] = URL_TYPE

    parts: UrlParts
    text: str = field(init=False)
    """The canonical text of the URL."""

    def __post_init__(self) -> None:
        """Spell it."""
        object.__setattr__(self, "text", str(self.parts))

    def __str__(self) -> str:
        """The canonical text of the URL."""
        return self.text

    @staticmethod
    def read(text: str) -> URL:
        """The URL that a text denotes.

        Raises:
            CelRuntimeError: the text is invalid.
        """
        try:
            check_request_uri(text)
            return URL(read_url(text))
        except UrlError as error:
            raise CelRuntimeError(f"URL parse error during conversion from string: {error}") from error

    def __eq__(self, other: object) -> bool:
        """True if both are URLs and spelled the same."""
        return self.text == other.text if isinstance(other, URL) else NotImplemented

    def __hash__(self) -> int:
        """Equal URLs have equal hashes."""
        return hash(self.text)


def _is_url(text: str) -> bool:
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def _scheme(url: URL) -> str:
    return url.parts.scheme


def _host(url: URL) -> str:
    return decode(url.parts.host)


def _hostname(url: URL) -> str:
    name = _host_and_port(url)[0]
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def _port(url: URL) -> str:
    return _host_and_port(url)[1]


def _host_and_port(url: URL) -> tuple[str, str]:
    name, colon, port = _host(url).rpartition(":")
    if colon and (not port or (port.isascii() and port.isdigit())):
        return name, port
    return _host(url), ""


def _escaped_path(url: URL) -> str:
    return url.parts.escaped_path()


def _query(url: URL) -> Map:
    """The parameters; those that cannot be read are left out, and beyond 10,000 all of them are."""
    query = url.parts.query
    values: dict[str, list[str]] = {}
    parameters = query.split("&") if query.count("&") < _MOST_PARAMETERS else []
    for parameter in parameters:
        if not parameter or ";" in parameter:
            continue
        key, _, value = parameter.partition("=")
        try:
            read = decode(unescape(key, Part.QUERY)), decode(unescape(value, Part.QUERY))
        except UrlError:
            continue
        values.setdefault(read[0], []).append(read[1])
    return Map({key: tuple(listed) for key, listed in values.items()})


LIBRARY = Library(
    functions=(
        Function("url", (function("string_to_url", (STRING,), URL_TYPE, URL.read),)),
        Function("getScheme", (member("url_get_scheme", (URL_TYPE,), STRING, _scheme),)),
        Function("getHost", (member("url_get_host", (URL_TYPE,), STRING, _host),)),
        Function("getHostname", (member("url_get_hostname", (URL_TYPE,), STRING, _hostname),)),
        Function("getPort", (member("url_get_port", (URL_TYPE,), STRING, _port),)),
        Function("getEscapedPath", (member("url_get_escaped_path", (URL_TYPE,), STRING, _escaped_path),)),
        Function("getQuery", (member("url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), _query),)),
        Function("isURL", (function("is_url_string", (STRING,), BOOL, _is_url),)),
    )
)
