"""IP addresses and blocks of them, read as Go's net/netip reads them, and the functions on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar

from policies.cel.declarations import Overload, function, member
from policies.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.cel.kinds import quoted_text
from policies.cel.types import BOOL, INT, STRING, Type, opaque
from policies.kubernetes.quantities import INT64_MAX

_IPV4_FIELDS = 4
_LARGEST_FIELD = 255
_IPV6_BYTES = 16
_IPV6_BYTES_BEFORE_IPV4 = 12
_MOST_DIGITS_OF_GROUP = 4

_DECIDING = re.compile(r"[.:%]")
_GROUP = re.compile(r"[0-9A-Fa-f]*")


class AddressError(ValueError):
    """A text is not an address."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address, and whether a zone was written behind it."""

    number: int
    bits: int
    """32 or 128."""
    has_zone: bool = False

    @staticmethod
    def read(text: str) -> Address:
        """The address that a text denotes.

        Raises:
            AddressError: the text is invalid.

        Source: Go's net/netip.ParseAddr.
        """
        deciding = _DECIDING.search(text)
        if deciding is None:
            raise _error(text, "unable to parse IP")
        if deciding[0] == "%":
            raise _error(text, "missing IPv6 address")
        if deciding[0] == ".":
            return Address(int.from_bytes(_ipv4(text, text)), 32)
        return _ipv6(text)

    @property
    def is_ipv4_in_ipv6(self) -> bool:
        """True if it is an IPv4 address in an IPv6 one's clothes, `::ffff:1.2.3.4`."""
        return self.bits == _IPV6_BYTES * 8 and self.number >> 32 == 0xFFFF


def _error(text: str, message: str, rest: str = "") -> AddressError:
    place = f" (at {quoted_text(rest)})" if rest else ""
    return AddressError(f"ParseAddr({quoted_text(text)}): {message}{place}")


def _ipv4(whole: str, text: str) -> bytes:
    """The four bytes of an IPv4 address, which may be the end of an IPv6 one."""
    fields: list[int] = []
    digits = ""
    for index, character in enumerate(text):
        if "0" <= character <= "9":
            if digits == "0":
                raise _error(whole, "IPv4 field has octet with leading zero")
            digits += character
            if int(digits) > _LARGEST_FIELD:
                raise _error(whole, "IPv4 field has value >255")
        elif character != ".":
            raise _error(whole, "unexpected character", text[index:])
        elif not digits or index == len(text) - 1:
            raise _error(whole, "IPv4 field must have at least one digit", text[index:])
        elif len(fields) == _IPV4_FIELDS - 1:
            raise _error(whole, "IPv4 address too long")
        else:
            fields.append(int(digits))
            digits = ""
    if len(fields) < _IPV4_FIELDS - 1:
        raise _error(whole, "IPv4 address too short")
    return bytes((*fields, int(digits)))


def _ipv6(text: str) -> Address:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _error(text, "zone must be a non-empty string")
    octets, ellipsis = bytearray(), None
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
    while rest and len(octets) < _IPV6_BYTES:
        group = rest[: _GROUP.match(rest).end()]  # type: ignore[union-attr]  # it matches nothing, too
        if len(group) > _MOST_DIGITS_OF_GROUP:
            raise _error(text, "each group must have 4 or less digits", rest)
        if not group:
            raise _error(text, "each colon-separated field must have at least one digit", rest)
        if rest.startswith(".", len(group)):
            if ellipsis is None and len(octets) != _IPV6_BYTES_BEFORE_IPV4:
                raise _error(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
            if len(octets) > _IPV6_BYTES_BEFORE_IPV4:
                message = "too many hex fields to fit an embedded IPv4 at the end of the address"
                raise _error(text, message, rest)
            octets += _ipv4(text, rest)
            rest = ""
            break
        octets += int(group, 16).to_bytes(2)
        rest = rest[len(group) :]
        if rest and not rest.startswith(":"):
            raise _error(text, "unexpected character, want colon", rest)
        if rest == ":":
            raise _error(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest.startswith(":"):
            if ellipsis is not None:
                raise _error(text, "multiple :: in address", rest)
            ellipsis, rest = len(octets), rest[1:]
    if rest:
        raise _error(text, "trailing garbage after address", rest)
    missing = _IPV6_BYTES - len(octets)
    if not missing and ellipsis is not None:
        raise _error(text, "the :: must expand to at least one field of zeros")
    if missing and ellipsis is None:
        raise _error(text, "address string too short")
    zeros_at = ellipsis or 0
    octets[zeros_at:zeros_at] = bytes(missing)
    return Address(int.from_bytes(octets), _IPV6_BYTES * 8, bool(percent))


IP_TYPE = opaque("net.IP")
"""The type of addresses; expressions can name it."""

_IPV4_BITS = 32
_IPV4_BROADCAST = 0xFFFFFFFF
_LINK_LOCAL_SCOPE = 2
"""Of multicast addresses, RFC 4291."""


@dataclass(frozen=True, slots=True)
class IP:
    """An address of either family, without a zone; never an IPv4 address that is written as an IPv6 one."""

    cel_type: ClassVar[Type] = IP_TYPE

    number: int
    bits: int
    """32 or 128."""

    @staticmethod
    def read(text: str) -> IP:
        """The address that a text denotes.

        Raises:
            CelRuntimeError: the text is invalid in Kubernetes.
        """
        try:
            address = Address.read(text)
        except AddressError as error:
            message = f"IP Address {quoted_text(text)} parse error during conversion from string: {error}"
            raise CelRuntimeError(message) from error
        if address.has_zone:
            raise CelRuntimeError(f"IP address {quoted_text(text)} with zone value is not allowed")
        if address.is_ipv4_in_ipv6:
            raise CelRuntimeError(f"IPv4-mapped IPv6 address {quoted_text(text)} is not allowed")
        return IP(address.number, address.bits)

    def __str__(self) -> str:
        """The canonical text."""
        return str(IPv4Address(self.number) if self.is_ipv4 else IPv6Address(self.number))

    @property
    def is_ipv4(self) -> bool:
        """True if it is of the older family."""
        return self.bits == _IPV4_BITS

    def starts_with(self, prefix: int, length: int) -> bool:
        """True if its first bits are these."""
        return self.number >> (self.bits - length) == prefix


def _is_ip(text: str) -> bool:
    try:
        IP.read(text)
    except CelRuntimeError:
        return False
    return True


def _is_unspecified(address: IP) -> bool:
    return address.number == 0


def _is_loopback(address: IP) -> bool:
    return address.starts_with(127, 8) if address.is_ipv4 else address.number == 1


def _is_link_local_multicast(address: IP) -> bool:
    if address.is_ipv4:
        return address.starts_with(0xE00000, 24)
    return address.starts_with(0xFF, 8) and address.number >> 112 & 0xF == _LINK_LOCAL_SCOPE


def _is_link_local_unicast(address: IP) -> bool:
    return address.starts_with(0xA9FE, 16) if address.is_ipv4 else address.starts_with(0xFE80 >> 6, 10)


def _is_multicast(address: IP) -> bool:
    return address.starts_with(0xE, 4) if address.is_ipv4 else address.starts_with(0xFF, 8)


def _is_global_unicast(address: IP) -> bool:
    """Private addresses are among them."""
    if address.is_ipv4 and address.number == _IPV4_BROADCAST:
        return False
    return not (
        _is_unspecified(address) or _is_loopback(address) or _is_multicast(address) or _is_link_local_unicast(address)
    )


LIBRARY: tuple[Overload, ...] = (
    function("ip", "string_to_ip", (STRING,), IP_TYPE, IP.read),
    member("family", "ip_family", (IP_TYPE,), INT, lambda address: 4 if address.is_ipv4 else 6),
    function("ip.isCanonical", "ip_is_canonical", (STRING,), BOOL, lambda text: str(IP.read(text)) == text),
    member("isUnspecified", "ip_is_unspecified", (IP_TYPE,), BOOL, _is_unspecified),
    member("isLoopback", "ip_is_loopback", (IP_TYPE,), BOOL, _is_loopback),
    member("isLinkLocalMulticast", "ip_is_link_local_multicast", (IP_TYPE,), BOOL, _is_link_local_multicast),
    member("isLinkLocalUnicast", "ip_is_link_local_unicast", (IP_TYPE,), BOOL, _is_link_local_unicast),
    member("isGlobalUnicast", "ip_is_global_unicast", (IP_TYPE,), BOOL, _is_global_unicast),
    function("isIP", "is_ip", (STRING,), BOOL, _is_ip),
    function("string", "ip_to_string", (IP_TYPE,), STRING, str),
)


CIDR_TYPE = opaque("net.CIDR")
"""The type of blocks; expressions can name it."""

_FAILED = "network address parse error during conversion from string: "
_LENGTH = re.compile(r"[0-9]|[1-9][0-9]+")


@dataclass(frozen=True, slots=True)
class CIDR:
    """An address and the length of its prefix. Blocks that differ in the other bits are not equal."""

    cel_type: ClassVar[Type] = CIDR_TYPE

    address: IP
    length: int

    @staticmethod
    def read(text: str) -> CIDR:
        """The block that a text denotes.

        Raises:
            CelRuntimeError: the text is invalid.
        """
        try:
            return _read_cidr(text)
        except AddressError as error:
            raise CelRuntimeError(f"{_FAILED}{error}") from error

    def __str__(self) -> str:
        """The address in its canonical text, and the length."""
        return f"{self.address}/{self.length}"

    def contains(self, address: IP) -> bool:
        """True if an address is in the block; one of the other family never is."""
        shift = self.address.bits - self.length
        return self.address.bits == address.bits and self.address.number >> shift == address.number >> shift


def _read_cidr(text: str) -> CIDR:
    """Read as Go's net/netip.ParsePrefix, without the two kinds of addresses that Kubernetes refuses."""
    before, slash, length = text.rpartition("/")
    if not slash:
        raise _cidr_error(text, "no '/'")
    try:
        address = Address.read(before)
    except AddressError as error:
        raise _cidr_error(text, str(error)) from error
    if address.has_zone:
        raise _cidr_error(text, "IPv6 zones cannot be present in a prefix")
    if _LENGTH.fullmatch(length) is None or len(length) > len(str(INT64_MAX)) or int(length) > INT64_MAX:
        raise _cidr_error(text, f"bad bits after slash: {quoted_text(length)}")
    if int(length) > address.bits:
        raise _cidr_error(text, "prefix length out of range")
    if address.is_ipv4_in_ipv6:
        raise AddressError(f"IPv4-mapped IPv6 address {quoted_text(text)} is not allowed")
    return CIDR(IP(address.number, address.bits), int(length))


def _cidr_error(text: str, message: str) -> AddressError:
    return AddressError(f"{_FAILED}netip.ParsePrefix({quoted_text(text)}): {message}")


def _is_cidr(text: str) -> bool:
    try:
        CIDR.read(text)
    except CelRuntimeError:
        return False
    return True


def _contains_ip_text(block: CIDR, text: str) -> bool:
    try:
        address = IP.read(text)
    except CelRuntimeError as error:
        raise CelRuntimeError(NO_OVERLOAD) from error
    return block.contains(address)


def _contains_cidr(block: CIDR, other: CIDR) -> bool:
    return block.length <= other.length and block.contains(other.address)


def _mask(block: CIDR) -> CIDR:
    shift = block.address.bits - block.length
    return CIDR(IP(block.address.number >> shift << shift, block.address.bits), block.length)


CIDR_LIBRARY: tuple[Overload, ...] = (
    function("cidr", "string_to_cidr", (STRING,), CIDR_TYPE, CIDR.read),
    member("containsIP", "cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, _contains_ip_text),
    member("containsIP", "cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, CIDR.contains),
    member(
        "containsCIDR",
        "cidr_contains_cidr_string",
        (CIDR_TYPE, STRING),
        BOOL,
        lambda block, text: _contains_cidr(block, CIDR.read(text)),
    ),
    member("containsCIDR", "cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, _contains_cidr),
    member("ip", "cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda block: block.address),
    member("prefixLength", "cidr_prefix_length", (CIDR_TYPE,), INT, lambda block: block.length),
    member("masked", "cidr_masked", (CIDR_TYPE,), CIDR_TYPE, _mask),
    function("isCIDR", "is_cidr", (STRING,), BOOL, _is_cidr),
    function("string", "cidr_to_string", (CIDR_TYPE,), STRING, str),
)
