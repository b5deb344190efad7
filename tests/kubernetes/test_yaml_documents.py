import pytest

from policies.kubernetes.yaml import YAMLError, load_document, scan_documents


def values(text):
    documents, errors = scan_documents(text)
    assert errors == []
    return [document.value for document in documents]


def refusal(text):
    with pytest.raises(YAMLError) as caught:
        load_document(text)
    return str(caught.value)


def test_manifest_is_read_as_json_would_have_it():
    text = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  labels: {app: train}
spec:
  containers:
    - name: main
      command: ["sh", "-c", 'exit 0']
      resources:
        limits:
          nvidia.com/gpu: 1
"""
    assert values(text) == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "train", "labels": {"app": "train"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "command": ["sh", "-c", "exit 0"],
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                    }
                ]
            },
        }
    ]


def test_documents_come_in_their_order():
    assert values("a: 1\n---\n- b\n--- c\n---\td\n") == [{"a": 1}, ["b"], "c", "d"]


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "---\n# nothing\n---\n\n---", "\ufeff", b"", " "])
def test_empty_document_is_left_out(text):
    assert values(text) == []


def test_null_that_is_written_is_a_document():
    assert values("--- null\n---\n~\n--- ''\n--- &a\n") == [None, None, "", None]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_may_end_in_any_way(end):
    assert values(end.join(["a: 1", "---", "b: 2", ""])) == [{"a": 1}, {"b": 2}]


def test_marker_inside_indented_text_is_text():
    assert values("a: |\n  ---\n  x\nb: x---y\nc: ----\n") == [{"a": "---\nx\n", "b": "x---y", "c": "----"}]


def test_marker_in_the_first_column_ends_a_block_of_text():
    assert values("--- |\n a\n---\nb\n") == ["a\n", "b"]


def test_directives_belong_to_the_document_after_them():
    assert values("# head\n%YAML 1.1\n---\na: 1\n---\nb: 2\n...\n%TAG ! tag:yaml.org,2002:\n---\n!int '3'\n") == [
        {"a": 1},
        {"b": 2},
        3,
    ]


def test_document_may_end_with_dots():
    assert values("a: 1\n...\n---\nb: 2\n...\n") == [{"a": 1}, {"b": 2}]


def test_bytes_are_utf8():
    assert values("name: größe\n".encode()) == [{"name": "größe"}]


@pytest.mark.parametrize("text", ["\ufeffa: 1\n", "\ufeffa: 1\n".encode()])
def test_byte_order_mark_is_no_part_of_the_text(text):
    document = load_document(text)
    assert document.value == {"a": 1}
    assert document.key_position(["a"]).column == 1


def test_bytes_that_are_not_utf8_are_refused():
    assert refusal("a: 1".encode("utf-16")) == ("1:1: the text is not UTF-8: the byte 0xff at offset 0 does not fit")


def test_half_of_a_character_is_refused_where_it_stands():
    assert refusal("a: 1\nb: \ud800") == "2:4: U+D800 is half of a character and cannot stand alone"


def test_one_document_is_loaded():
    assert load_document("a: 1\n---\n# nothing more\n").value == {"a": 1}


def test_text_without_a_document_is_null():
    document = load_document("# nothing\n")
    assert document.value is None
    assert (document.position([]).line, document.position(["a"]).column) == (1, 1)


def test_second_document_is_refused_where_one_is_expected():
    with pytest.raises(YAMLError) as caught:
        load_document("a: 1\n---\n\nb: 2\n")
    assert str(caught.value) == "4:1: a second document begins here; only one is expected"


def test_broken_text_is_refused_where_one_document_is_expected():
    with pytest.raises(YAMLError, match=r"^1:4: "):
        load_document("a: @\n")


def test_error_tells_its_parts():
    with pytest.raises(ValueError, match=r"^2:1: duplicate") as caught:
        load_document("a: 1\na: 2\n")
    error = caught.value
    assert (error.message, error.line, error.column) == ('duplicate key "a": first given at line 1', 2, 1)


def test_duplicate_key_is_refused_with_both_places():
    assert refusal("---\nx: 1\n---\nspec:\n  a: 1\nmetadata: {}\nspec: {}\n") == (
        '7:1: duplicate key "spec": first given at line 4'
    )


def test_keys_of_equal_spelling_are_duplicates():
    assert refusal("'1': a\n1: b\n") == '2:1: duplicate key "1": first given at line 1'


def test_long_duplicate_key_is_shortened():
    key = "k\\n" + "x" * 100
    assert refusal(f'{{"{key}": 1, "{key}": 2}}') == (
        '1:112: duplicate key "k\\n' + "x" * 60 + '…": first given at line 1'
    )


def test_same_key_in_two_mappings_is_no_duplicate():
    assert values("- {a: 1}\n- {a: 2}\n") == [[{"a": 1}, {"a": 2}]]


@pytest.mark.parametrize("text", ["[a]: b", "? - a\n: b", "? &x [a]\n: b"])
def test_list_as_key_is_refused(text):
    assert refusal(text).endswith(": a list cannot be a key")


@pytest.mark.parametrize("text", ["replicas: {{ .Values.replicas }}\n", "{{- if .Values.gpu }}\na: 1\n{{- end }}\n"])
def test_template_that_was_not_rendered_is_named(text):
    assert refusal(text).endswith(
        ': a mapping cannot be a key; a template such as "{{ .Values.name }}" must be rendered first, or quoted'
    )
