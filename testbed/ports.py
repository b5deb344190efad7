"""Ports and addresses of this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from urllib.parse import urlsplit

__all__ = ["address_towards", "free_ports"]


def free_ports(count: int) -> list[int]:
    """Different ports that are free at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def address_towards(url: str) -> str:
    """The address at which the host of a URL can reach this machine, without address translation."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(address)  # a datagram socket sends nothing to connect
        found = str(datagrams.getsockname()[0])
    return "127.0.0.1" if ipaddress.ip_address(found).is_loopback else found
