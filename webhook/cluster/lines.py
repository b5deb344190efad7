"""Cutting a stream of bytes into lines."""

from __future__ import annotations

__all__ = ["LineTooLong", "Lines"]

_LONGEST = 16 * 2**20
"""Bytes. etcd takes objects up to 1.5 MiB; this is what memory is risked for, not what is to be expected."""


class LineTooLong(ValueError):  # noqa: N818 - it says what is
    """A line goes on and on. Its text says so."""


class Lines:
    """Takes bytes as they come and gives whole lines. A line may be long, and may come in many pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in `chunk`, without their ends and without empty ones.

        Raises:
            LineTooLong: a line has more than 16 MiB.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            lines.append(b"".join([*self._pieces, piece]).strip())
            self._pieces, self._length = [], 0
        self._pieces.append(rest)
        self._length += len(rest)
        if self._length > _LONGEST:
            raise LineTooLong(f"a line has more than {_LONGEST} bytes")
        return [line for line in lines if line]
