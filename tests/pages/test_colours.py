"""Colours of the page: contrasts computed from page.css, and patterns that tell shapes apart without colour."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from tests.pages.test_report_page import SVG, parse
from webhook.pages.rendering import asset

TEXTS = ("text", "quiet", "free", "unusable", "bad")
SHAPES = ("held", "claim", "free", "unusable", "bad", "track", "used", "converts")
BACKGROUNDS = ("page", "card")


def schemes():
    """The colours by name: light, dark, and those of print."""
    light, dark, printed = (
        dict(re.findall(r"--([a-z]+): (#[0-9a-f]{3,6});", block))
        for block in re.findall(r":root \{(.*?)\}", asset("page.css"), re.DOTALL)
    )
    return {"light": light, "dark": {**light, **dark}, "print": {**light, **printed}}


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


@pytest.fixture(params=["light", "dark", "print"])
def colours(request):
    return schemes()[request.param]


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_texts_are_readable(colours, background):
    contrasts = {name: contrast(colours[name], colours[background]) for name in TEXTS}
    assert {name: value for name, value in contrasts.items() if value < 4.5} == {}


@pytest.mark.parametrize("background", BACKGROUNDS)
def test_shapes_differ_from_what_is_around_them(colours, background):
    """Neighbours are parted by a gap in the colour of the page."""
    contrasts = {name: contrast(colours[name], colours[background]) for name in SHAPES}
    assert {name: value for name, value in contrasts.items() if value < 3} == {}


def test_solid_shapes_of_gpus_differ_without_colour(colours):
    assert contrast(colours["held"], colours["claim"]) >= 3


def test_no_colour_has_two_meanings(colours):
    assert len({colours[name] for name in SHAPES}) == len(SHAPES)


def bars(report_page):
    return [bar for bar in parse(report_page()).iter(f"{SVG}svg") if bar.get("role") == "img"]


def test_pieces_of_bars_are_parted(report_page):
    """The rest of a bar is hollow, so its outline is no neighbour."""
    gaps = []
    for bar in bars(report_page):
        pieces = [each for each in bar if each.get("class") not in (None, "rest", "free", "track")]
        for piece, following in pairwise(pieces):
            gaps.append(float(following.get("x")) - float(piece.get("x")) - float(piece.get("width")))
    assert gaps
    assert min(gaps) >= 1


def test_patterns_tell_shapes_apart_without_colour(report_page):
    shapes = [shape for bar in bars(report_page) for shape in (*bar, {})]
    patterns = {shape.get("class"): following.get("fill") for shape, following in pairwise(shapes)}
    assert patterns.items() >= {
        ("held", None),
        ("used", None),
        ("unusable", "url(#stripes)"),
        ("over", "url(#crosses)"),
    }
