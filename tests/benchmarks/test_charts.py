"""Charts are readable on both backgrounds, and say in words what they show."""

from xml.etree import ElementTree as ET

import pytest

from benchmarks.charts import COLOURS, ratio_chart, value_chart
from tests.benchmarks.results_of_two_themes import RESULTS

CALLS, CLIENTS, _ = RESULTS.themes
BACKGROUNDS = {"light": "#ffffff", "dark": "#0d1117"}
SVG = "{http://www.w3.org/2000/svg}"


def luminance(colour):
    """The relative luminance of WCAG 2.2."""
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels)
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """The contrast ratio of WCAG 2.2."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("background", BACKGROUNDS)
@pytest.mark.parametrize("name", COLOURS)
def test_colour_can_be_seen_on_both_backgrounds_whatever_the_system_prefers(name, background):
    assert min(contrast(colour, BACKGROUNDS[background]) for colour in COLOURS[name]) >= 3


@pytest.mark.parametrize(("mode", "background"), [(0, "light"), (1, "dark")])
def test_text_has_the_contrast_of_text_where_page_and_system_agree(mode, background):
    assert contrast(COLOURS["text"][mode], BACKGROUNDS[background]) >= 4.5


def test_description_has_every_figure_with_its_verdict():
    root = ET.fromstring(ratio_chart(CALLS.title, CALLS.figures))
    assert root.findtext(f"{SVG}title") == "Calls"
    assert root.findtext(f"{SVG}desc").replace("\N{MULTIPLICATION SIGN}", "x") == (
        "converted pod: 2 x bare handler; claim: 2.5 x bare handler (aim missed); "
        "selector < 1: 4 x bare handler (over the limit)"
    )


def test_control_has_one_bar_in_each_group():
    root = ET.fromstring(value_chart(CLIENTS.title, CLIENTS.figures, "requests/s"))
    assert root.findtext(f"{SVG}desc").split("; ") == [
        "10 clients, converted pod: 1,111",
        "10 clients, checked pod: 1,250",
        "10 clients, bare handler: 2,000",
        "50 clients, converted pod: 1,111",
        "50 clients, checked pod: 1,250",
        "50 clients, bare handler: 2,000",
    ]


def test_bar_over_the_limit_ends_with_its_frame():
    root = ET.fromstring(ratio_chart(CALLS.title, CALLS.figures[2:]))
    frame, bar, _ = root.findall(f"{SVG}rect")
    assert float(bar.get("width")) == float(frame.get("width"))
