"""Blocks of IP addresses: `cidr("10.0.0.0/8")` and the functions on them.

Source: k8s.io/apiserver/pkg/cel/cidr.go and library/cidr.go, Go's net/netip.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from policies.dra.cel.declarations import Function, Library, function, member
from policies.dra.cel.errors import NO_OVERLOAD, CelRuntimeError
from policies.dra.cel.libraries.ips import IP, IP_TYPE, Address, AddressError
from policies.dra.cel.libraries.printing import quoted_text
from policies.dra.cel.types import BOOL, INT, STRING, Type, opaque
from policies.kubernetes.quantities import INT64_MAX

__all__ = ["CIDR", "LIBRARY"]

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
            return _read(text)
        except AddressError as error:
            raise CelRuntimeError(f"{_FAILED}{error}") from error

    def __str__(self) -> str:
        """The address in its canonical text, and the length."""
        return f"{self.address}/{self.length}"

    def contains(self, address: IP) -> bool:
        """True if an address is in the block; one of the other family never is."""
        shift = self.address.bits - self.length
        return self.address.bits == address.bits and self.address.number >> shift == address.number >> shift


def _read(text: str) -> CIDR:
    """What Go's net/netip.ParsePrefix reads, without the two kinds of addresses that Kubernetes refuses."""
    before, slash, length = text.rpartition("/")
    if not slash:
        raise _error(text, "no '/'")
    try:
        address = Address.read(before)
    except AddressError as error:
        raise _error(text, str(error)) from error
    if address.has_zone:
        raise _error(text, "IPv6 zones cannot be present in a prefix")
    if _LENGTH.fullmatch(length) is None or len(length) > len(str(INT64_MAX)) or int(length) > INT64_MAX:
        raise _error(text, f"bad bits after slash: {quoted_text(length)}")
    if int(length) > address.bits:
        raise _error(text, "prefix length out of range")
    if address.is_ipv4_in_ipv6:
        raise AddressError(f"IPv4-mapped IPv6 address {quoted_text(text)} is not allowed")
    return CIDR(IP(address.number, address.bits), int(length))


def _error(text: str, message: str) -> AddressError:
    return AddressError(f"{_FAILED}netip.ParsePrefix({quoted_text(text)}): {message}")


def _is_cidr(text: str) -> bool:
    try:
        CIDR.read(text)
    except CelRuntimeError:
        return False
    return True


def _contains_ip(block: CIDR, address: IP) -> bool:
    return block.contains(address)


def _contains_ip_text(block: CIDR, text: str) -> bool:
    try:
        address = IP.read(text)
    except CelRuntimeError as error:
        raise CelRuntimeError(NO_OVERLOAD) from error
    return block.contains(address)


def _contains_cidr(block: CIDR, other: CIDR) -> bool:
    return block.length <= other.length and block.contains(other.address)


def _contains_cidr_text(block: CIDR, text: str) -> bool:
    return _contains_cidr(block, CIDR.read(text))


def _ip(block: CIDR) -> IP:
    return block.address


def _prefix_length(block: CIDR) -> int:
    return block.length


def _mask(block: CIDR) -> CIDR:
    shift = block.address.bits - block.length
    return CIDR(IP(block.address.number >> shift << shift, block.address.bits), block.length)


LIBRARY = Library(
    functions=(
        Function("cidr", (function("string_to_cidr", (STRING,), CIDR_TYPE, CIDR.read),)),
        Function(
            "containsIP",
            (
                member("cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, _contains_ip_text),
                member("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, _contains_ip),
            ),
        ),
        Function(
            "containsCIDR",
            (
                member("cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL, _contains_cidr_text),
                member("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, _contains_cidr),
            ),
        ),
        Function("ip", (member("cidr_ip", (CIDR_TYPE,), IP_TYPE, _ip),)),
        Function("prefixLength", (member("cidr_prefix_length", (CIDR_TYPE,), INT, _prefix_length),)),
        Function("masked", (member("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, _mask),)),
        Function("isCIDR", (function("is_cidr", (STRING,), BOOL, _is_cidr),)),
        Function("string", (function("cidr_to_string", (CIDR_TYPE,), STRING, str),)),
    ),
    type_names=(CIDR_TYPE,),
)
