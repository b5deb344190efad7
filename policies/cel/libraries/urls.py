"""URLs: their texts as Go's net/url reads them, and the functions on them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import ClassVar

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import CelRuntimeError
from policies.cel.kinds import quoted_text
from policies.cel.libraries.ips import Address, AddressError
from policies.cel.types import BOOL, STRING, Type, list_of, map_of
from policies.cel.values import Map

_UNRESERVED = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"
_LAST_HIGH_DIGIT_OF_ASCII = ord("7")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_INVALID = re.compile("[\udc80-\udcff]")


class Part(Enum):
    """A part of a URL that has rules of its own."""

    PATH = auto()
    HOST = auto()
    ZONE = auto()
    USER = auto()
    QUERY = auto()
    FRAGMENT = auto()


_ALLOWED = {
    Part.PATH: _UNRESERVED + b"$&+,/:;=@",
    Part.HOST: _UNRESERVED + b"!$&'()*+,;=:[]<>\"",
    Part.ZONE: _UNRESERVED + b"!$&'()*+,;=:[]<>\"",
    Part.USER: _UNRESERVED + b"$&+,;=",
    Part.QUERY: _UNRESERVED,
    Part.FRAGMENT: _UNRESERVED + b"$&+,/:;=?@!()*",
}
_NOT_ALLOWED = {part: re.compile(rb"[^" + re.escape(allowed) + rb"]") for part, allowed in _ALLOWED.items()}
_NOT_ALLOWED_ESCAPED = {
    part: re.compile(rb"[^" + re.escape(allowed + b"!$&'()*+,;=:@[]%") + rb"]") for part, allowed in _ALLOWED.items()
}
_SUSPECT = {part: re.compile(rb"%") for part in Part}
_SUSPECT[Part.HOST] = _SUSPECT[Part.ZONE] = re.compile(rb"[^" + re.escape(_ALLOWED[Part.HOST]) + rb"\x80-\xff]")


class UrlError(ValueError):
    """A text is not a URL."""


def unescape(text: str, part: Part) -> bytes:
    """The bytes that a text stands for.

    Raises:
        UrlError: A `%` has no two hexadecimal digits behind it, or may not stand here, as other characters in a host.
    """
    written = text.encode(errors="surrogateescape")
    for suspect in _SUSPECT[part].finditer(written):
        if suspect[0] == b"%":
            _check(written[suspect.start() : suspect.start() + 3], part)
        else:
            raise UrlError(f"invalid character {quoted_text(suspect[0].decode())} in host name")
    if part is Part.QUERY:
        written = written.replace(b"+", b" ")
    return _ESCAPE.sub(_byte, written)


def _check(escaped: bytes, part: Part) -> None:
    match = _ESCAPE.fullmatch(escaped)
    if match is not None:
        if escaped == b"%25" or part not in {Part.HOST, Part.ZONE}:
            return
        if part is Part.HOST and escaped[1] > _LAST_HIGH_DIGIT_OF_ASCII:
            return
        if part is Part.ZONE and (_byte(match) == b" " or _byte(match) in _ALLOWED[Part.HOST]):
            return
    raise UrlError(f"invalid URL escape {quoted_text(escaped.decode(errors='surrogateescape'))}")


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes((int(match[1], 16),))


def escape(data: bytes, part: Part) -> str:
    """The text that stands for bytes."""
    return _NOT_ALLOWED[part].sub(lambda match: b"%%%02X" % match[0][0], data).decode()


def is_validly_escaped(text: str, part: Part) -> bool:
    """True if a text may stay as it was written."""
    return _NOT_ALLOWED_ESCAPED[part].search(text.encode()) is None


def decode(data: bytes) -> str:
    """Bytes as text; each byte that is not UTF-8 becomes one replacement character, as cel-go counts them."""
    return _INVALID.sub("\ufffd", data.decode(errors="surrogateescape"))


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USERINFO = re.compile(r"[A-Za-z0-9\-._~:!$&'()*+,;=%@]*")
_PORT = re.compile(r"(:[0-9]*)?")
_IPV4_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlParts:
    """The parts of a URL; what is not escaped is bytes."""

    scheme: str = ""
    opaque: str = ""
    """The rest after the scheme, if it is not a path."""
    authority: _Authority | None = None
    """None without `//`."""
    path: bytes = b""
    written_path: str = ""
    query: str = ""
    has_query: bool = False
    fragment: bytes = b""
    written_fragment: str = ""

    @property
    def host(self) -> bytes:
        """Host and port."""
        return self.authority.host if self.authority else b""

    def escaped_path(self) -> str:
        """The path as written if it is validly escaped, else escaped again."""
        if self.path == b"*" or is_validly_escaped(self.written_path, Part.PATH):
            return self.written_path
        return escape(self.path, Part.PATH)

    def escaped_fragment(self) -> str:
        """The fragment as written if it is validly escaped, else escaped again."""
        if is_validly_escaped(self.written_fragment, Part.FRAGMENT):
            return self.written_fragment
        return escape(self.fragment, Part.FRAGMENT)

    def __str__(self) -> str:
        """The whole URL; two are equal when this is."""
        scheme = f"{self.scheme}:" if self.scheme else ""
        query = f"?{self.query}" if self.has_query else ""
        fragment = f"#{self.escaped_fragment()}" if self.fragment else ""
        if self.opaque:
            return f"{scheme}{self.opaque}{query}{fragment}"
        return f"{scheme}{self._authority_text()}{self.escaped_path()}{query}{fragment}"

    def _authority_text(self) -> str:
        if self.authority is None:
            return ""
        is_named = self.host != b"" or self.authority.user is not None
        if not is_named and not (self.scheme and self.path):
            return ""
        user = f"{self.authority.user}@" if self.authority.user is not None else ""
        return f"//{user}{escape(self.host, Part.HOST)}"


@dataclass(frozen=True, slots=True)
class _Authority:
    host: bytes
    user: str | None
    """The text before the `@`, escaped again; None without `@`."""


def check_request_uri(text: str) -> None:
    """Refuse a text that is neither an absolute URI nor an absolute path.

    Raises:
        UrlError: With the words of Go's url.ParseRequestURI.
    """
    if not text:
        raise UrlError('parse "": empty url')
    try:
        _read(text, is_request=True)
    except UrlError as error:
        raise UrlError(f"parse {quoted_text(text)}: {error}") from error


def read_url(text: str) -> UrlParts:
    """The parts of a URL that passed `check_request_uri`; only this function separates the fragment.

    Raises:
        UrlError: With the words of Go's url.Parse.
    """
    before, _, fragment = text.partition("#")
    try:
        parts = _read(before, is_request=False)
    except UrlError as error:
        raise UrlError(f"parse {quoted_text(before)}: {error}") from error
    try:
        data = unescape(fragment, Part.FRAGMENT)
    except UrlError as error:
        raise UrlError(f"parse {quoted_text(text)}: {error}") from error
    return replace(parts, fragment=data, written_fragment=fragment)


def _read(text: str, *, is_request: bool) -> UrlParts:
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if text == "*":
        return UrlParts(path=b"*", written_path="*")
    match = _SCHEME.match(text)
    if match is None and text.startswith(":"):
        raise UrlError("missing protocol scheme")
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    rest, mark, query = rest.partition("?")
    has_query = mark != ""
    if not rest.startswith("/"):
        if not scheme:
            raise UrlError("invalid URI for request")
        return UrlParts(scheme=scheme, opaque=rest, query=query, has_query=has_query)
    authority = None
    has_authority = scheme or not (is_request or rest.startswith("///"))
    if has_authority and rest.startswith("//"):
        before, slash, after = rest[2:].partition("/")
        authority, rest = _authority(scheme, before), slash + after
    return UrlParts(
        scheme=scheme,
        authority=authority,
        path=unescape(rest, Part.PATH),
        written_path=rest,
        query=query,
        has_query=has_query,
    )


def _authority(scheme: str, text: str) -> _Authority:
    userinfo, at, host = text.rpartition("@")
    data = _bracketed_host(host) if "[" in host else _host(scheme, host)
    if not at:
        return _Authority(data, None)
    if _USERINFO.fullmatch(userinfo) is None:
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    user = escape(unescape(name, Part.USER), Part.USER) + colon + escape(unescape(password, Part.USER), Part.USER)
    return _Authority(data, user)


def _bracketed_host(text: str) -> bytes:
    """A host that is an IPv6 address."""
    if text.rindex("[") > 0:
        raise UrlError("invalid IP-literal")
    closing = text.rfind("]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    name, port = text[1:closing], text[closing + 1 :]
    _check_port(port)
    address, percent, zone = name.partition("%25")
    data = unescape(address, Part.HOST) + unescape(percent + zone, Part.ZONE)
    try:
        read = Address.read(data.decode(errors="surrogateescape"))
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from error
    if read.bits == _IPV4_BITS:
        raise UrlError("invalid IP-literal")
    return b"[" + data + b"]" + port.encode()


def _host(scheme: str, text: str) -> bytes:
    """A host that is a name or an IPv4 address; only other schemes than HTTP's may have colons in it."""
    split = str.partition if scheme in {"http", "https"} else str.rpartition
    _, colon, port = split(text, ":")
    if colon:
        _check_port(colon + port)
    return unescape(text, Part.HOST)


def _check_port(text: str) -> None:
    if _PORT.fullmatch(text) is None:
        raise UrlError(f"invalid port {quoted_text(text)} after host")


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


def _url_host(url: URL) -> str:
    return decode(url.parts.host)


def _hostname(url: URL) -> str:
    name = _host_and_port(url)[0]
    return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def _host_and_port(url: URL) -> tuple[str, str]:
    name, colon, port = _url_host(url).rpartition(":")
    if colon and (not port or (port.isascii() and port.isdigit())):
        return name, port
    return _url_host(url), ""


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


LIBRARY: tuple[Overload, ...] = (
    function("url", "string_to_url", (STRING,), URL_TYPE, URL.read),
    member("getScheme", "url_get_scheme", (URL_TYPE,), STRING, lambda url: url.parts.scheme),
    member("getHost", "url_get_host", (URL_TYPE,), STRING, _url_host),
    member("getHostname", "url_get_hostname", (URL_TYPE,), STRING, _hostname),
    member("getPort", "url_get_port", (URL_TYPE,), STRING, lambda url: _host_and_port(url)[1]),
    member("getEscapedPath", "url_get_escaped_path", (URL_TYPE,), STRING, lambda url: url.parts.escaped_path()),
    member("getQuery", "url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), _query),
    function("isURL", "is_url_string", (STRING,), BOOL, _is_url),
)
