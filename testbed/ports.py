"""Ports and addresses of this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from urllib.parse import urlsplit

_FIRST, _END = 10_000, 32_768
"""Below the ports that Linux gives to connections: one of another test could take such a port before the server listens."""


def free_ports(count: int) -> list[int]:
    """Different ports that are free at this moment, and are given to no connection."""
    ports: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(ports) < count:
            # Not of `random`: tests seed it, so that all their processes would try the same ports.
            port = _FIRST + secrets.randbelow(_END - _FIRST)
            tried = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def address_towards(url: str) -> str:
    """The address at which the host of a URL can reach this machine, without address translation."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(address)  # a datagram socket sends nothing to connect
        found = str(datagrams.getsockname()[0])
    return "127.0.0.1" if ipaddress.ip_address(found).is_loopback else found
