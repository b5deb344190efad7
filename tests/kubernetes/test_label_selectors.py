"""Label selectors, by the table of upstream's own tests."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.selectors import LabelSelectorError, Requirement, parse_label_selector


def requirement(key, operator, *values):
    return Requirement(key, operator, frozenset(values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" \t\n", ()),
        ("\rx", (requirement("x", "exists"),)),
        ("a ", (requirement("a", "exists"),)),
        ("!x", (requirement("x", "!"),)),
        ("! x , y", (requirement("x", "!"), requirement("y", "exists"))),
        ("x=", (requirement("x", "=", ""),)),
        ("x= ,z= ", (requirement("x", "=", ""), requirement("z", "=", ""))),
        ("x=a,y!=b", (requirement("x", "=", "a"), requirement("y", "!=", "b"))),
        ("x == a", (requirement("x", "==", "a"),)),
        ("x>1,z<5", (requirement("x", ">", "1"), requirement("z", "<", "5"))),
        ("notin=in", (requirement("notin", "=", "in"),)),
        ("in in (in)", (requirement("in", "in", "in"),)),
        (
            "this-is-a-dns.domain.com/key in (so,what)",
            (requirement("this-is-a-dns.domain.com/key", "in", "so", "what"),),
        ),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            (requirement("0.1.2.domain/99", "notin", "10.10.100.1", "tick.tack.clock"),),
        ),
        ("x notin\n (abc)", (requirement("x", "notin", "abc"),)),
        ("x in ()", (requirement("x", "in", ""),)),
        ("x notin ( )", (requirement("x", "notin", ""),)),
        ("x in (abc,)", (requirement("x", "in", "abc", ""),)),
        ("x in (a,,a,,)", (requirement("x", "in", "a", ""),)),
        ("x notin (, a)", (requirement("x", "notin", "", "a"),)),
        ("a in (x,y,notin, z,in)", (requirement("a", "in", "in", "notin", "x", "y", "z"),)),
        (
            "x notin (abc,,def),bar,z in (),w",
            (
                requirement("x", "notin", "abc", "", "def"),
                requirement("bar", "exists"),
                requirement("z", "in", ""),
                requirement("w", "exists"),
            ),
        ),
        (
            "app=x,nvidia.com/gpu-driver-upgrade-drain.skip!=true",
            (requirement("app", "=", "x"), requirement("nvidia.com/gpu-driver-upgrade-drain.skip", "!=", "true")),
        ),
    ],
)
def test_selector_is_read(text, expected):
    assert parse_label_selector(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=a||y=b", '"a||y" cannot be the value of a label'),
        ("x==a==b", '"==" follows "x" where a comma or the end is expected'),
        ("!x=a", '"=" follows "x" where a comma or the end is expected'),
        ("x<a", '"a" is not a whole number, and "x" is compared with <'),
        ("x>", 'the end is not a whole number, and "x" is compared with >'),
        ("x,,y", '"," stands where the key of a label is expected'),
        (",x,y", '"," stands where the key of a label is expected'),
        ("a in (xyz),", "the end stands where the key of a label is expected"),
        ("x nott in (y)", '"nott" follows "x" where one of =, ==, !=, in, notin, <, > is expected'),
        ("a in (xyz)b notin ()", '"b" follows "a" where a comma or the end is expected'),
        ("a in (xyz abc)", '"abc" stands in the values of "a" where a comma or ) is expected'),
        ("a in (b=c)", '"=" stands in the values of "a" where a comma or ) is expected'),
        ("a notin(", 'the end stands in the values of "a" where a comma or ) is expected'),
        ("a in b", '"b" follows "a" where ( and a list of values are expected'),
        ("a (", '"(" follows "a" where one of =, ==, !=, in, notin, <, > is expected'),
        ("(", '"(" stands where the key of a label is expected'),
        ("!", "the end stands where the key of a label is expected"),
        ("!!x", '"!" stands where the key of a label is expected'),
        ("a=(b)", '"(" stands where a value of "a" is expected'),
        ("app: training", '"app:" cannot be the key of a label'),
        ("team/a/b=c", '"team/a/b" cannot be the key of a label'),
        ("a=b*", '"b*" cannot be the value of a label'),
        ("a in (b*)", '"b*" cannot be the value of a label'),
        ("x" * 64, f'"{"x" * 64}" cannot be the key of a label'),
    ],
)
def test_what_is_no_selector_is_refused(text, message):
    with pytest.raises(LabelSelectorError) as refusal:
        parse_label_selector(text)
    assert str(refusal.value) == message


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with suppress(LabelSelectorError):
        parse_label_selector(text)


NAMES = st.from_regex(r"\A[a-z]([-a-z0-9.]{0,8}[a-z0-9])?\Z")


@given(st.lists(st.tuples(NAMES, st.sampled_from(["=", "==", "!="]), NAMES), min_size=1, max_size=4), st.booleans())
def test_what_is_written_is_read_back(parts, spaced):
    space = " " if spaced else ""
    text = f",{space}".join(f"{key}{space}{operator}{space}{value}" for key, operator, value in parts)
    assert parse_label_selector(text) == tuple(requirement(*part) for part in parts)
