"""Lines that are written together: none is lost, and all keep their order."""

import asyncio
import io
import json
import logging
import subprocess
import sys

import pytest

from webhook.server.logs import MOST_WAITING, JSONFormatter, LineHandler


@pytest.fixture
def stream():
    return io.StringIO()


@pytest.fixture
def log(stream):
    """A logger with its own handler; `log(text, may_wait)`."""
    handler = LineHandler(stream)
    handler.setFormatter(JSONFormatter())
    logger = logging.getLogger("lines that wait")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)

    def write(text, *, may_wait):
        logger.info(text, extra={"may_wait": True} if may_wait else {})

    yield write
    logger.removeHandler(handler)
    handler.close()


def messages(stream):
    return [json.loads(line)["message"] for line in stream.getvalue().splitlines()]


async def test_line_that_may_wait_is_written_a_moment_later(log, stream, until):
    log("a", may_wait=True)
    assert messages(stream) == []
    await until(lambda: messages(stream) == ["a"])


async def test_lines_after_that_wait_again(log, stream, until):
    log("a", may_wait=True)
    await until(lambda: messages(stream) == ["a"])
    log("b", may_wait=True)
    assert messages(stream) == ["a"]
    await until(lambda: messages(stream) == ["a", "b"])


async def test_line_that_may_not_wait_is_written_at_once_after_the_others(log, stream):
    for text in "ab":
        log(text, may_wait=True)
    log("c", may_wait=False)
    assert messages(stream) == ["a", "b", "c"]


def test_no_line_waits_without_an_event_loop(log, stream):
    log("a", may_wait=True)
    assert messages(stream) == ["a"]


async def test_line_of_a_thread_keeps_its_place(log, stream):
    log("a", may_wait=True)
    await asyncio.to_thread(log, "b", may_wait=False)
    assert messages(stream) == ["a", "b"]


async def test_number_of_lines_that_wait_is_bounded(log, stream):
    texts = [str(number) for number in range(MOST_WAITING)]
    for text in texts:
        assert messages(stream) == []
        log(text, may_wait=True)
    assert messages(stream) == texts


async def test_record_that_cannot_be_formatted_keeps_no_other_back(log, stream, monkeypatch):
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log("a", may_wait=True)
    log(None, may_wait=True)
    monkeypatch.setattr(JSONFormatter, "format", lambda _self, record: json.dumps({"message": record.msg + ""}))
    log("b", may_wait=False)
    assert messages(stream) == ["a", "b"]


CODE = """\
import asyncio, logging
from webhook.server.logs import configure

async def main():
    logging.getLogger("n").info("last", extra={"may_wait": True})
    raise SystemExit(3)

configure()
asyncio.run(main())
"""


def test_lines_that_wait_are_written_when_the_process_ends():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stderr)["message"]) == (3, "last")
