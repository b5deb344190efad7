import pytest

from policies.kubernetes.yaml import Position, load_document, scan_documents

POD = """\
# a comment
apiVersion: v1
kind: Pod
---
metadata:
  name: "größe"
  labels: {app: x, 'gpu': "1"}
spec:
  containers:
    - name: main
      args: [a,
             b]
    -
      name: side
  empty:
  text: |
    one
    two
  last: 😀
"""


@pytest.fixture(scope="module")
def pod():
    return scan_documents(POD)[0][1]


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ([], 5, 1),
        (["metadata"], 6, 3),
        (["metadata", "name"], 6, 9),
        (["metadata", "labels"], 7, 11),
        (["metadata", "labels", "gpu"], 7, 27),
        (["spec", "containers"], 10, 5),
        (["spec", "containers", 0], 10, 7),
        (["spec", "containers", 0, "args", 1], 12, 14),
        (["spec", "containers", 1, "name"], 14, 13),
        (["spec", "empty"], 15, 9),
        (["spec", "text"], 16, 9),
        (["spec", "last"], 19, 9),
    ],
)
def test_position_is_where_the_value_begins(pod, path, line, column):
    assert pod.position(path) == Position(line, column)


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        (["metadata"], 5, 1),
        (["metadata", "name"], 6, 3),
        (["metadata", "labels", "gpu"], 7, 20),
        (["spec", "containers", 1, "name"], 14, 7),
        (["spec", "empty"], 15, 3),
    ],
)
def test_key_position_is_where_the_key_begins(pod, path, line, column):
    assert pod.key_position(path) == Position(line, column)


@pytest.mark.parametrize("path", [[], ["spec", "containers", 0], ["spec", "nothing"], ["spec", "containers", 7, "x"]])
def test_key_position_without_a_key_is_the_position(pod, path):
    assert pod.key_position(path) == pod.position(path)


@pytest.mark.parametrize(
    ("path", "ancestor"),
    [
        (["nothing", "at", "all"], []),
        (["metadata", "namespace"], ["metadata"]),
        (["metadata", 0], ["metadata"]),
        (["spec", "containers", 2, "name"], ["spec", "containers"]),
        (["spec", "containers", -1], ["spec", "containers"]),
        (["spec", "containers", "0"], ["spec", "containers"]),
        (["spec", "last", 0], ["spec", "last"]),
    ],
)
def test_position_of_what_is_missing_is_that_of_its_nearest_ancestor(pod, path, ancestor):
    assert pod.position(path) == pod.position(ancestor)


def test_alias_stands_where_it_is_written_and_its_content_at_the_anchor():
    document = load_document("a: &x\n  b: 1\nc: *x\n")
    assert document.position(["c"]) == Position(3, 4)
    assert document.key_position(["c"]) == Position(3, 1)
    assert document.position(["c", "b"]) == Position(2, 6)


def test_merged_key_stands_at_the_anchor():
    document = load_document("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n")
    assert document.key_position(["d", "b"]) == Position(1, 8)
    assert document.key_position(["d", "c"]) == Position(4, 3)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\x85", "\u2028"])
def test_lines_are_counted_however_they_end(end):
    documents, _ = scan_documents(end.join(["a: 1", "# x", "---", "b: 2", "--- ", "", "c: 3"]))
    assert documents[2].position(["c"]) == Position(7, 4)
