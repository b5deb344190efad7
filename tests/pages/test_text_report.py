"""Reports as text: any content on terminals of every width."""

from __future__ import annotations

import sys
from fractions import Fraction

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.pages.report_model import (
    Bar,
    BarPart,
    Bullets,
    Column,
    Entry,
    Lines,
    Paragraph,
    Section,
    Span,
    Table,
    Tone,
)
from webhook.pages.text_report import fit_to_terminal, render_text, wrap_lines, wrap_text

TEXTS = st.text(max_size=200) | st.sampled_from(["\x1b[31mred\x1b[0m", "\u202eabc", "a\nb\tc", "- dash", "x" * 500])
COLUMNS = st.builds(
    Column,
    title=st.text("ABC", max_size=8),
    right=st.booleans(),
    share=st.sampled_from([0, 3]),
    most_lines=st.sampled_from([None, 2]),
)
CELLS = TEXTS | st.builds(Span, TEXTS, st.sampled_from(Tone)) | st.lists(TEXTS, max_size=3)
BLOCKS = st.one_of(
    st.builds(Paragraph, TEXTS, st.sampled_from(Tone)),
    st.builds(Lines, st.lists(TEXTS, max_size=3), st.integers(0, 4)),
    st.builds(Bullets, st.lists(TEXTS, max_size=3), st.sampled_from([None, 0, 2])),
    st.builds(Entry, TEXTS, st.lists(TEXTS, max_size=3)),
    st.builds(
        Table,
        st.tuples(COLUMNS, COLUMNS),
        st.lists(st.tuples(CELLS, CELLS), max_size=3),
        st.sampled_from([None, 1]),
        st.integers(0, 2),
    ),
)
SECTIONS = st.builds(Section, st.lists(BLOCKS, max_size=3), TEXTS, TEXTS, st.sampled_from(Tone))


@given(st.lists(SECTIONS, max_size=3), st.integers(60, 140))
def test_any_content_is_shown_without_characters_that_a_terminal_obeys(sections, width):
    shown = click.unstyle(render_text(sections, width)).replace("\n", "")
    assert shown.isprintable()


@given(st.lists(TEXTS, min_size=1, max_size=3), st.integers(60, 140))
def test_wrapped_texts_are_never_wider_than_the_terminal(texts, width):
    table = Table(["ONE", Column("TWO", right=True), Column("THREE", share=3)], [[*texts, "", "", ""][:3]])
    blocks = [*map(Paragraph, texts), Bullets(texts), Entry("name", texts), Lines(texts, 2), table]
    assert max(map(len, render_text([Section(blocks)], width).split("\n"))) <= width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "in use by computer-vision/stable-diffusion-xl-finetune-91.",
            ["in use by computer-vision/", "stable-diffusion-xl-finetune-", "91."],
        ),
        (
            '- leave out device.attributes["gpu.nvidia.com"].profile == "7g.80gb"',
            ["- leave out device.", '  attributes["gpu.nvidia.', '  com"].profile == "7g.80gb"'],
        ),
        ("over gpu-10,gpu-11,gpu-12,gpu-13,gpu-14", ["over gpu-10,gpu-11,gpu-12,", "gpu-13,gpu-14"]),
        ("requires example.com/some-longer-name=here", ["requires example.com/", "some-longer-name=here"]),
        ("a nodeSelector of a-shorter-name", ["a nodeSelector of", "a-shorter-name"]),
        (f"no break in {'x' * 40}", ["no break in", "x" * 30, "x" * 10]),
    ],
)
def test_long_names_break_only_between_their_parts(text, expected):
    assert wrap_text(text, 30) == expected


def test_colours_have_no_width_and_are_never_cut(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    name = click.style("team-a/" + "x" * 70, fg="red", bold=True)
    assert list(fit_to_terminal([f"  wrong: {name} here"])) == [
        f"  wrong: {name[: name.index('x')]}",
        f"    {name[name.index('x') :]}",
        "    here",
    ]


@pytest.mark.parametrize("blanks", [0, 36, 37, 38, 39, 40, 100])
def test_line_that_begins_behind_a_narrow_terminal_is_shown_whole(blanks):
    lines = [*wrap_lines([f"{' ' * blanks}image: {'x' * 50}"], 40)]
    assert "".join(lines).replace(" ", "") == f"image:{'x' * 50}"
    assert max(map(len, lines)) <= 40


NAMED = [["team-a/train-large-model-0", "3", "the node is cordoned"], ["team-b/x", "12", "2 of 8 GPUs are free"]]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            80,
            """\
POD                         GPUS  WHY
team-a/train-large-model-0     3  the node is cordoned
team-b/x                      12  2 of 8 GPUs are free""",
        ),
        (
            46,
            """\
POD                  GPUS  WHY
team-a/                 3  the node is
train-large-model-0        cordoned
team-b/x               12  2 of 8 GPUs are
                           free""",
        ),
        (
            24,
            """\
POD: team-a/
  train-large-model-0
  GPUS: 3
  WHY: the node is
    cordoned
POD: team-b/x
  GPUS: 12
  WHY: 2 of 8 GPUs are
    free""",
        ),
    ],
)
def test_widest_columns_are_wrapped_first_and_then_rows_are_lists(width, expected):
    table = Table(["POD", Column("GPUS", right=True), "WHY"], NAMED)
    assert render_text([Section([table])], width) == expected


def test_commands_are_never_wrapped():
    command = f"kubectl delete pod {'train-' * 20}"
    assert render_text([Section([Lines([command], is_copied=True)])], 60) == command


@pytest.mark.parametrize("texts", [[], [""]])
def test_entry_without_texts_is_its_name(texts):
    assert render_text([Section([Entry("certificate", texts)])], 60) == "  certificate"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], "[....................]"),
        ([1], "[#...................]"),
        ([99], "[###################.]"),
        ([100], "[####################]"),
        ([101], "[####################>"),
    ],
)
def test_bar_is_empty_or_full_only_if_the_amount_is(parts, expected):
    bar = Bar([BarPart(Fraction(each), "#", Tone.GOOD) for each in parts], Fraction(100))
    assert click.unstyle(render_text([Section([Table(["USE"], [[bar]])])], 100)).splitlines()[1] == expected
