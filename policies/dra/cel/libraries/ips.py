"""IP addresses: `ip("10.0.0.1")` and the functions on them.

Source: k8s.io/apiserver/pkg/cel/ip.go and library/ip.go, Go's net/netip.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import ClassVar

from policies.dra.cel.declarations import Function, Library, function, member
from policies.dra.cel.errors import CelRuntimeError
from policies.dra.cel.libraries.addresses import Address, AddressError
from policies.dra.cel.libraries.quoting import quoted
from policies.dra.cel.types import BOOL, INT, STRING, Type, opaque

__all__ = ["IP", "IP_TYPE", "LIBRARY"]

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
        """The address that a text says.

        Raises:
            CelRuntimeError: It says none that Kubernetes takes.
        """
        try:
            address = Address.read(text)
        except AddressError as error:
            message = f"IP Address {quoted(text)} parse error during conversion from string: {error}"
            raise CelRuntimeError(message) from error
        if address.has_zone:
            raise CelRuntimeError(f"IP address {quoted(text)} with zone value is not allowed")
        if address.is_ipv4_in_ipv6:
            raise CelRuntimeError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
        return IP(address.number, address.bits)

    def __str__(self) -> str:
        """The canonical text."""
        return str(IPv4Address(self.number) if self.is_ipv4 else IPv6Address(self.number))

    @property
    def is_ipv4(self) -> bool:
        """Whether it is of the older family."""
        return self.bits == _IPV4_BITS

    def starts_with(self, prefix: int, length: int) -> bool:
        """Whether its first bits are these."""
        return self.number >> (self.bits - length) == prefix


def _is_ip(text: str) -> bool:
    try:
        IP.read(text)
    except CelRuntimeError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(IP.read(text)) == text


def _family(address: IP) -> int:
    return 4 if address.is_ipv4 else 6


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


LIBRARY = Library(
    functions=(
        Function("ip", (function("string_to_ip", (STRING,), IP_TYPE, IP.read),)),
        Function("family", (member("ip_family", (IP_TYPE,), INT, _family),)),
        Function("ip.isCanonical", (function("ip_is_canonical", (STRING,), BOOL, _is_canonical),)),
        Function("isUnspecified", (member("ip_is_unspecified", (IP_TYPE,), BOOL, _is_unspecified),)),
        Function("isLoopback", (member("ip_is_loopback", (IP_TYPE,), BOOL, _is_loopback),)),
        Function(
            "isLinkLocalMulticast",
            (member("ip_is_link_local_multicast", (IP_TYPE,), BOOL, _is_link_local_multicast),),
        ),
        Function(
            "isLinkLocalUnicast",
            (member("ip_is_link_local_unicast", (IP_TYPE,), BOOL, _is_link_local_unicast),),
        ),
        Function("isGlobalUnicast", (member("ip_is_global_unicast", (IP_TYPE,), BOOL, _is_global_unicast),)),
        Function("isIP", (function("is_ip", (STRING,), BOOL, _is_ip),)),
        Function("string", (function("ip_to_string", (IP_TYPE,), STRING, str),)),
    ),
    type_names=(IP_TYPE,),
)
