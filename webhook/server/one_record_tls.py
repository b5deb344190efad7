"""asyncio's TLS with a smaller buffer.

docs/designs/memory-of-connections.md says why the class is private to asyncio, and what was tried instead.
It imports nothing but asyncio, so that a test can run it on each Python that is supported.
"""

from __future__ import annotations

from asyncio.sslproto import SSLProtocol

__all__ = ["OneRecordTLS"]


class OneRecordTLS(SSLProtocol):
    """TLS with a buffer of one record; asyncio's own has 256 KiB, filled before the first byte."""

    max_size = 16 * 1024
