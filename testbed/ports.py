"""Ports and addresses of this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from urllib.parse import urlsplit

__all__ = ["address_towards", "free_ports"]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on right now, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def address_towards(url: str) -> str:
    """The address under which the host of a URL can reach this machine, unless something translates addresses."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect(address)  # a datagram socket sends nothing to connect
        found = str(asked.getsockname()[0])
    return "127.0.0.1" if ipaddress.ip_address(found).is_loopback else found
