import pytest

from policies.kubernetes.yaml import Position, scan_documents

CONFIG_MAP = """\
kind: Other
---
kind: ConfigMap
data:
  any: |-

    version: v1
    sharing:
      timeSlicing: {}
  folded: >-
    one
    two
  quoted: "a\\nb"
"""


def within(key, line, column):
    (_, document), _ = scan_documents(CONFIG_MAP)
    return document.position_within(("data", key), line, column)


def test_line_of_a_literal_block_is_its_line_of_the_file():
    assert CONFIG_MAP.splitlines()[8] == "      timeSlicing: {}"
    assert within("any", 4, 3) == Position(9, 7)


def test_first_line_of_a_literal_block_follows_its_indicator():
    assert within("any", 1, 1) == Position(6, 5)


ONE_LINE = """\
plain: device.driver == "x"
single: 'device.driver == "x"'
double: "device.driver == 'x'"
escaped: "a\\tdevice"
doubled: 'it''s a device'
folded: >-
  device.driver == "x" &&
  device.driver != "y"
indented: >-
  one
    two
    three
"""


@pytest.mark.parametrize(
    ("key", "column", "expected"),
    [
        ("plain", 8, Position(1, 15)),
        ("plain", 1, Position(1, 8)),
        ("single", 8, Position(2, 17)),
        ("double", 8, Position(3, 17)),
        ("escaped", 3, Position(4, 10)),
        ("escaped", 1, Position(4, 11)),
        ("doubled", 9, Position(5, 10)),
        ("folded", 8, Position(7, 10)),
        ("folded", 25, Position(8, 3)),
        ("folded", 32, Position(8, 10)),
        ("indented", 1, Position(10, 3)),
    ],
)
def test_place_in_a_text_on_one_line_is_counted_in_it(key, column, expected):
    (document,), _ = scan_documents(ONE_LINE)
    assert document.position_within((key,), 1, column) == expected


def test_place_in_other_styles_is_where_the_text_begins():
    assert within("folded", 2, 1) == Position(10, 11)
    assert within("quoted", 2, 1) == Position(13, 11)


def test_place_in_a_text_that_is_not_there_is_its_nearest_ancestor():
    assert within("missing", 2, 1) == Position(5, 3)
