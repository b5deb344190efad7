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


def test_place_in_other_styles_is_where_the_text_begins():
    assert within("folded", 2, 1) == Position(10, 11)
    assert within("quoted", 2, 1) == Position(13, 11)


def test_place_in_a_text_that_is_not_there_is_its_nearest_ancestor():
    assert within("missing", 2, 1) == Position(5, 3)
