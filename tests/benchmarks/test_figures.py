"""Figures are ratios to a control, with an aim and a limit."""

from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks.figures import Verdict, figure_of_rounds
from benchmarks.results import read_results, write_results
from benchmarks.themes import THEMES
from tests.benchmarks.results_of_two_themes import RESULTS

CALLS, CLIENTS, FAILED = RESULTS.themes
ROUNDS = [(10, 10), (40, 10), (60, 30)]


@pytest.fixture
def check(monkeypatch):
    """Runs `check` on themes that were measured already."""

    def check(*themes):
        measured = {theme.name: theme for theme in themes}
        monkeypatch.setattr(runner, "_measure_apart", measured.__getitem__)
        return runner.check(list(measured))

    return check


def figure(rounds):
    return figure_of_rounds("pod", rounds, unit="ms", beside="bare handler", aim=2.0, limit=3.0)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2.0, Verdict.GOOD), (2.1, Verdict.FAIR), (3.0, Verdict.FAIR), (3.1, Verdict.BAD)],
)
def test_verdict_depends_on_aim_and_limit(value, expected):
    assert figure([(value, 1.0)]).verdict is expected


def test_ratio_is_the_median_of_the_ratios_of_the_rounds():
    assert figure(ROUNDS).ratio == 2.0


def test_value_and_control_are_medians():
    assert (figure(ROUNDS).value, figure(ROUNDS).control) == (40, 10)


def test_check_passes_if_only_aims_are_missed(check, capsys):
    assert check(CALLS.model_copy(update={"figures": CALLS.figures[:2]})) == 0
    assert capsys.readouterr().out == "1 within the aim, 1 aim missed, 0 over the limit\n"


def test_check_fails_over_a_limit(check):
    assert check(CALLS, CLIENTS) == 1


def test_check_fails_if_a_theme_ended_with_an_error(check, capsys):
    assert check(CLIENTS, FAILED) == 1
    assert "ended with an error: quotas" in capsys.readouterr().out


def test_theme_that_fails_is_measured_once_more(monkeypatch):
    attempts = [None, CALLS]
    monkeypatch.setattr(runner, "_results_of_process", lambda _: attempts.pop(0))
    monkeypatch.setattr(runner, "THEMES", ("calls",))
    monkeypatch.setattr("sys.argv", ["benchmarks", "check"])
    assert runner.main() == 1
    assert not attempts


def test_results_file_is_read_as_it_was_written(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.results.FOLDER", tmp_path)
    assert read_results(write_results(RESULTS)) == RESULTS


def test_every_theme_is_listed():
    files = Path(runner.__file__).with_name("themes").glob("*.py")
    assert sorted(THEMES) == sorted(file.stem for file in files if file.stem != "__init__")
