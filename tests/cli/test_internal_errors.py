"""Internal errors: one sentence, an exit code, and a traceback on request."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES

SENTENCE = (
    "Error: internal error in gpu-admission (KeyError: 'the kind'); please report it with the command, its input and "
    "the output with GPU_ADMISSION_TRACE=1 in the environment\n"
)


@pytest.fixture
def failing(monkeypatch):
    """Make `review` fail as no input makes it fail."""

    def fail(error):
        def admit(*_):
            raise error

        monkeypatch.setattr("webhook.cli.review.file_reviews.ChargedReviews.admit", admit)

    monkeypatch.delenv("GPU_ADMISSION_TRACE", raising=False)
    return fail


def test_mistake_of_ours_is_one_sentence_and_exit_code_3(invoke, write, pod, failing):
    failing(KeyError("the kind"))
    done = invoke("review", write("pod.yaml", pod()))
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr == SENTENCE


def test_trace_is_shown_on_request(invoke, write, pod, failing, monkeypatch):
    failing(KeyError("the kind"))
    monkeypatch.setenv("GPU_ADMISSION_TRACE", "1")
    done = invoke("review", write("pod.yaml", pod()))
    assert done.exit_code == 3
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith(f"KeyError: 'the kind'\n{SENTENCE}")


def test_text_of_an_exception_stays_on_its_line(invoke, write, pod, failing):
    failing(ValueError("first\n\x1b[2Jsecond"))
    done = invoke("review", write("pod.yaml", pod()))
    assert done.stderr.startswith("Error: internal error in gpu-admission (ValueError: first  [2Jsecond); ")
    assert done.stderr.count("\n") == 1


def test_exit_code_is_documented(invoke):
    reported = " ".join(invoke("review", "--help").stdout.split())
    assert (
        "3 if gpu-admission has an internal error; please report it with the output of GPU_ADMISSION_TRACE=1."
        in reported
    )


CLUSTER = ("--cluster", str(EXAMPLES / "cluster"))
COMMANDS = {
    "help": ("--help",),
    "rules": ("rules",),
    "review": ("review", *CLUSTER, str(EXAMPLES / "deployment")),
    "json": ("review", "-o", "json", str(EXAMPLES / "deployment")),
    "migrate": ("migrate", *CLUSTER, str(EXAMPLES / "deployment")),
    "usage": ("usage", *CLUSTER),
    "report": ("report", *CLUSTER, "-o", "-"),
}


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_full_disk_is_reported_in_one_sentence(run, arguments):
    with Path("/dev/full").open("w") as full:
        done = run(*arguments, stdout=full.fileno())
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "Error: cannot write the output: no space left on device",
    )
    assert "internal error" not in done.stderr


def test_full_disk_for_messages_too_ends_the_command():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "webhook", "rules"], stdout=full, stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_closed_pipe_ends_the_command_silently(run, arguments):
    read, written = os.pipe()
    os.close(read)
    done = run(*arguments, stdout=written)
    os.close(written)
    assert (done.returncode, "rror" in done.stderr) == (1, False)


@pytest.mark.parametrize(
    ("closed", "arguments", "status"),
    [(1, COMMANDS["usage"], 1), (2, COMMANDS["usage"], 1), (2, ("explain", "nothing.yaml"), 2)],
)
def test_command_without_a_stream_has_its_own_status(closed, arguments, status):
    command = ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-m", "webhook", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "rror" in done.stderr) == (status, False)
