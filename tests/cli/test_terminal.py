"""Colours only in terminals, and no tracebacks for closed pipes."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest


@pytest.fixture
def misspelt(write, pod):
    return write("pod.yaml", pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"}))


def test_colours_are_for_terminals(on_a_terminal, cluster, misspelt):
    written = on_a_terminal("review", "--cluster", cluster, misspelt)
    assert "\x1b[1mPod team-a/train\x1b[0m  \x1b[32m\x1b[1madmitted\x1b[0m, converted" in written
    assert "\x1b[33m\x1b[1mWarning:\x1b[0m Write" in written
    assert "\x1b[31m-        nvidia.com/gpu: 1\x1b[0m" in written
    assert "\x1b[32m+  resourceClaims:\x1b[0m" in written


def test_no_color_is_respected(on_a_terminal, cluster, misspelt):
    written = on_a_terminal("review", "--cluster", cluster, misspelt, NO_COLOR="1")
    assert "Pod team-a/train  admitted, converted" in written
    assert "\x1b" not in written


def test_empty_no_color_is_not_set(on_a_terminal):
    assert "\x1b[" in on_a_terminal("rules", NO_COLOR="")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_environment_decides_about_colours(on_a_terminal, environment, expected):
    assert ("\x1b[" in on_a_terminal("rules", "GA307", **environment)) is expected


def test_pipe_has_colours_if_they_are_forced(run, cluster, misspelt):
    assert "\x1b[32m\x1b[1madmitted\x1b[0m" in run("review", "--cluster", cluster, misspelt, FORCE_COLOR="1").stdout


def test_file_for_a_program_has_no_colours_even_if_they_are_forced(run, cluster, misspelt):
    for output in ("json", "yaml", "patch", "junit", "sarif", "github"):
        assert "\x1b" not in run("review", "--cluster", cluster, "-o", output, misspelt, FORCE_COLOR="1").stdout


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_lines_are_as_wide_as_the_terminal(on_a_terminal, cluster, misspelt, columns):
    arguments = ("review", "--cluster", cluster, "--no-diff", misspelt)
    written = click.unstyle(on_a_terminal(*arguments, COLUMNS=str(columns))).splitlines()
    assert columns - 20 < max(map(len, written)) <= columns
    assert all(line.startswith((" ", "Warning:", "pod.yaml:", "refers", "1 object:")) for line in written if line)


def test_line_of_the_file_is_cut_to_the_width_of_the_terminal(on_a_terminal, cluster, write, pod):
    file = write(
        "pod.yaml", json.dumps(pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"}, hostname="a" * 100))
    )
    lines = click.unstyle(on_a_terminal("review", "--cluster", cluster, file, COLUMNS="60")).splitlines()
    (caret,) = (index for index, line in enumerate(lines) if line.strip() == "^")
    assert len(lines[caret - 1]) == 60
    assert lines[caret - 1][lines[caret].index("^") :].startswith('"NVIDIA-H100"')


def test_lines_in_a_pipe_are_not_wrapped(run, cluster, write, pod):
    refused = write("pod.yaml", pod(nodeSelector={"nvidia.com/gpu.count": "8"}))
    lines = run("review", "--cluster", cluster, refused, COLUMNS="60").stdout.splitlines()
    assert len(lines) == 7
    assert lines[1].endswith("how many there are; spec.nodeSelector[nvidia.com/gpu.count] [GA307]")


def test_diffs_are_not_wrapped(on_a_terminal, cluster, misspelt):
    written = click.unstyle(on_a_terminal("review", "--cluster", cluster, misspelt, COLUMNS="60"))
    assert '"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H100"}}\'' in written


def test_pipe_gets_no_colours(run, cluster, misspelt):
    done = run("review", "--cluster", cluster, misspelt)
    assert "converted" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("count", [1, 300])
def test_reader_that_goes_away_is_no_traceback(folder, write, pod, count):
    write("pods.yaml", *(pod(f"train-{number}") for number in range(count)))
    process = subprocess.Popen(
        [sys.executable, "-m", "webhook", "review", "-o", "json", "pods.yaml"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1
