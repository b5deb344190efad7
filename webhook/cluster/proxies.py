"""The proxy to an API server, by the environment variables."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["proxy_for"]


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy for a URL; None for a direct connection.

    As in client-go (golang.org/x/net/http/httpproxy): HTTPS_PROXY or HTTP_PROXY in upper or lower case, and NO_PROXY with
    names, domains, addresses, networks such as 10.0.0.0/8, ports, or `*`. Python's own parser does not support networks,
    which the NO_PROXY of most clusters contains.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if host == "localhost" or _is_loopback(host):
        return None
    variable = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(variable) or environ.get(variable.lower())
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if not proxy or any(_covers(pattern.strip().lower(), host, port) for pattern in exempt.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(pattern: str, host: str, port: int) -> bool:
    if pattern == "*":
        return True
    network = _network(pattern)
    if network is not None:
        address = _address(host)
        return address is not None and address in network
    name, colon, digits = pattern.rpartition(":")
    if colon and digits.isdigit():
        if int(digits) != port:
            return False
        pattern = name.strip("[]")
    if not pattern:
        return False
    domain = pattern.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and pattern == domain)


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback
