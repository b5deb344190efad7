"""The line that shows what a command does."""

from __future__ import annotations

import io

import pytest

from webhook.cli.progress import Progress, current_progress

ERASE = "\r\x1b[2K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")


def test_nothing_is_drawn_in_the_first_two_seconds():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    progress.show("reading pods")
    clock.now = 1.9
    progress.draw()
    assert terminal.getvalue() == ""


def test_text_is_drawn_over_the_one_before():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    for text in ("reading pods: 500", "reading pods: 1,000"):
        progress.show(text)
        progress.draw()
    assert terminal.getvalue() == f"{ERASE}reading pods: 500{ERASE}reading pods: 1,000"


def test_same_text_is_drawn_once():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show("reading pods")
    progress.draw()
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}reading pods"


def test_function_is_called_for_the_text():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show(lambda: "reading the cluster")
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}reading the cluster"


def test_items_are_counted():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    for _ in zip(progress.count("reviewing", range(5000)), range(1200), strict=False):
        pass
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}reviewing: 1,201 of 5,000"


def test_items_that_are_counted_have_a_rate_and_the_time_that_is_left():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    for number, _ in enumerate(progress.count("reviewing", range(5000))):
        clock.now = number / 100
        if number == 1000:
            break
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}reviewing: 1,001 of 5,000, 40 s left, 100 a second"


@pytest.mark.parametrize(
    ("total", "seconds", "expected"),
    [
        (None, 10, "reading pods: 31, 3 a second"),
        (1000, 60, "reading pods: 31 of 1,000, 32 min left, 30 a minute"),
        (None, 0.5, "reading pods: 31"),
        (30, 10, "reading pods: 31 of 30, 3 a second"),
    ],
)
def test_rate_is_that_since_the_first_item(total, seconds, expected):
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show_count("reading pods", 1, total)
    clock.now += seconds
    progress.show_count("reading pods", 31, total)
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}{expected}"


def test_printed_line_stands_above_what_is_drawn(capsys):
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show("reading pods")
    progress.draw()
    progress.print_line("Warning: no nodes")
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}reading pods{ERASE}{ERASE}reading pods"
    assert capsys.readouterr().err == "Warning: no nodes\n"


def test_code_of_a_command_shows_what_it_does_in_the_line_of_the_command():
    outside = current_progress()
    with Progress(Terminal(), clock=Clock()) as progress:
        assert current_progress() is progress
    assert current_progress() is outside


def test_line_fits_the_terminal():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show("x" * 100)
    progress.draw()
    assert terminal.getvalue() == ERASE + "x" * 59


def test_line_has_no_characters_that_a_terminal_obeys():
    terminal, clock = Terminal(), Clock()
    progress = Progress(terminal, clock=clock)
    clock.now = 2.0
    progress.show("waiting: \x1b[31mgpu\n")
    progress.draw()
    assert terminal.getvalue() == f"{ERASE}waiting:  [31mgpu "


def test_line_is_erased_at_the_end():
    terminal, clock = Terminal(), Clock()
    with Progress(terminal, clock=clock) as progress:
        clock.now = 2.0
        progress.show("reading pods")
        progress.draw()
    assert terminal.getvalue().endswith(ERASE)


def test_command_that_was_quick_erases_nothing():
    terminal = Terminal()
    with Progress(terminal, clock=Clock()) as progress:
        progress.show("reading pods")
    assert terminal.getvalue() == ""


def test_line_is_drawn_without_further_calls():
    terminal, clock = Terminal(), Clock()
    with Progress(terminal, clock=clock) as progress:
        progress.show("reading pods")
        clock.now = 2.0
        while not terminal.getvalue():
            pass
    assert terminal.getvalue() == f"{ERASE}reading pods{ERASE}"


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()], ids=["no terminal", "dumb"])
def test_nothing_is_drawn_where_no_line_can_be_erased(stream, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with Progress(stream, clock=lambda: 5.0) as progress:
        progress.show("reading pods")
        assert progress._thread is None
    assert stream.getvalue() == ""
