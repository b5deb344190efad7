"""Cluster facts in JSON are read fast, with the results and errors of the reader that has positions."""

from __future__ import annotations

import gc
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.kubernetes.yaml import Limits, scan_documents
from webhook.cli.manifest_reader import ManifestReader, quick_json

LIMITS = Limits(size=10_000, depth=8, nodes=10_000)

WORDS = st.sampled_from(
    [":", '"', "\\", "\0", "\x7f", "\x85", "\u2028", "\ufeff", "😀", "y", "<<", "2024-01-01", "1:30"]
)
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(0, 2**4000).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
    st.sampled_from(
        ["-0", "-0.0", "1.0", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "01", "+1", ".5", "1.", "0x10"]
    ),
)
BLANKS = st.sampled_from(["", " ", "\n", "\r\n", "\t", "\n---\n"])
STRINGS = st.one_of(
    st.builds(lambda text, ascii_only: json.dumps(text, ensure_ascii=ascii_only), st.text() | WORDS, st.booleans()),
    st.sampled_from(
        ['"\\ud800"', '"\\ud83d\\ude00"', '"\\u003a"', '"\\u003A"', '"\\u0000"', '"\\/"', '"\\x"', '"\t"', '"a']
    ),
)


def _list(items, blank):
    return f"[{blank}{f',{blank}'.join(items)}{blank}]"


def _mapping(pairs, blank):
    return f"{{{blank}{f',{blank}'.join(f'{key}{blank}:{value}' for key, value in pairs)}{blank}}}"


VALUES = st.recursive(
    NUMBERS | STRINGS | st.sampled_from(["true", "false", "null", "nil"]),
    lambda inner: (
        st.builds(_list, st.lists(inner, max_size=4), BLANKS)
        | st.builds(_mapping, st.lists(st.tuples(STRINGS | st.just('"a"'), inner), max_size=4), BLANKS)
    ),
    max_leaves=12,
)
TEXTS = st.builds(
    lambda mark, blank, value, end: f"{mark}{blank}{value}{end}",
    st.sampled_from(["", "\ufeff", "\ufeff\ufeff", "---\n", "# comment\n"]),
    BLANKS,
    VALUES,
    st.sampled_from(["", "\n", "\r\n", "\0", "\n{}", "\n---\n", "\n---\n{}\n", "}", " # end"]),
)


def agrees(content, limits=LIMITS):
    """Whether the quick reader gave the only document of the careful one, down to the types; or nothing."""
    quick = quick_json(content, limits)
    if quick is None:
        return True
    documents, errors = scan_documents(content, limits=limits)
    # repr tells 1 from 1.0 and from True, and the order of keys.
    return errors == [] and [repr(document.value) for document in documents] == [repr(quick)]


@given(TEXTS)
@example('{"a": 1, "a": 2}')
@example('{"a": 1, "\\u0061": 2}')
@example('{"a": ":", "a": "\\u003a:"}')
def test_quick_and_careful_reading_agree(text):
    assert agrees(text.encode(errors="surrogatepass"))


@given(st.binary(max_size=40) | st.text('[]{}":,\\u0123dD8eE.-+ \n\tntrfalsu', max_size=40).map(str.encode))
def test_quick_and_careful_reading_agree_on_what_is_hardly_json(content):
    assert agrees(content)
    assert agrees(b"[" + content + b"]")
    assert agrees(b'{"":' + content + b"}")


@given(NUMBERS.filter(lambda text: text[-1].isdigit()), st.integers(0, 20))
def test_numbers_agree(number, digits):
    assert agrees(f"[{number}, {number}{'7' * digits}, -{number}]".encode())


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.just(1.5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=6,
        ),
    ),
    st.sampled_from([None, 4]),
)
def test_objects_are_read_quickly(value, indent):
    assert quick_json(json.dumps(value, indent=indent, ensure_ascii=False).encode(), Limits()) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": [1, -0, 1.0, 1.5, 1e3, 18446744073709551616, "1:30", null]}',
        '\ufeff \r\n[{"a": "\\ud83d\\ude00"}]\r\n',
        "[" * 8 + "]" * 8,
    ],
    ids=["numbers", "byte order mark", "depth"],
)
def test_json_is_read_quickly(text):
    assert quick_json(text.encode(), LIMITS) is not None
    assert agrees(text.encode())


def test_long_text_with_few_values_is_read_quickly():
    limits = Limits(size=10_000, depth=8, nodes=20)
    assert quick_json(b'{"a": ["' + b"x" * 1000 + b'"]}', limits) is not None
    assert quick_json(b"[" + b"1," * 20 + b"1]", limits) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '[{"b": {"a": {"x": 1}, "a": {"x": 1}}}]',
        '{"a": 1, "\\u0061": 2}',
        '{"a": ":", "a": "\\u003a\\u003a"}',
        '{"a": ":", "a": "\\u003A\\u003A"}',
        '["\\ud800"]',
        "[NaN]",
        "[1e400]",
        "{}\n{}",
        "{}\n---\n{}",
        "",
        "null",
        '"a"',
        "a: 1",
        "[a]",
        "[" * 9 + "]" * 9,
        "[" * 2000 + "]" * 2000,
        f"[{' ' * 10_000}]",
    ],
)
def test_what_may_be_refused_or_is_no_json_is_left_to_the_careful_reader(text):
    assert quick_json(text.encode(), LIMITS) is None


def test_text_that_is_not_utf8_is_left_to_the_careful_reader():
    assert quick_json(b'["\xff"]', LIMITS) is None


NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"gpu": "yes"}}}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            '{"kind": "List", "apiVersion": "v1", "items": [\n  {"kind": "Node"}]}',
            "2:3: has no apiVersion; every object of Kubernetes names one",
        ),
        (
            NODE.replace('"yes"', "1.0"),
            "1:82: metadata.labels.gpu: is 1; the value of a label must be text, in quotes",
        ),
        (NODE.replace('"name"', '\n"labels": 1, "name"'), '2:27: duplicate key "labels": first given at line 2'),
        (
            NODE.replace('"yes"', '"\\udc00"'),
            "1:82: the escape \\udc00 is half of a character; write both halves, or the character itself",
        ),
        ("[1]", "1:1: is not an object: a manifest is a mapping with apiVersion and kind"),
        (
            "{}}",
            '1:3: the document ends before this: check the indentation, or begin another document with a line "---"',
        ),
    ],
    ids=["no apiVersion", "label", "duplicate", "surrogate", "list", "syntax"],
)
def test_problems_of_a_cluster_in_json_have_their_places(invoke, write, pod, text, problem):
    done = invoke("review", "--cluster", write("cluster.json", text), write("pod.yaml", pod()))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"cluster.json:{problem}\n")


def test_problems_of_several_files_are_reported_once_and_in_their_order(write):
    reader = ManifestReader()
    bad = write("a.json", NODE.replace('"Node"', '""'))
    assert reader.cluster([bad, write("b.json", NODE), write("c.yaml", "a: [")]) == [json.loads(NODE)]
    assert [str(problem).split(": ")[0] for problem in reader.problems] == ["a.json:1:30", "c.yaml:1:5"]


def test_cluster_in_json_is_the_same_as_in_yaml(write):
    listed = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [json.loads(NODE), {**json.loads(NODE), "spec": {"ratio": 1.5}}],
    }
    version = {"serverVersion": {"gitVersion": "v1.36.2"}}
    in_json = [write(f"{n}.json", json.dumps(each, indent=4)) for n, each in enumerate([listed, version])]
    assert (
        ManifestReader().cluster(in_json)
        == ManifestReader().cluster([write("all.yaml", listed, version)])
        == [listed, version]
    )


@pytest.mark.parametrize("name", ["a.json", "broken.json", "a.yaml"])
@pytest.mark.parametrize("enabled", [True, False], ids=["on", "off"])
def test_collector_of_cycles_is_left_as_it_was(write, name, enabled):
    file = write(name, {"a.json": NODE, "broken.json": "{", "a.yaml": "a: 1"}[name])
    (gc.enable if enabled else gc.disable)()
    try:
        ManifestReader().cluster([file])
        assert gc.isenabled() is enabled
    finally:
        gc.enable()
