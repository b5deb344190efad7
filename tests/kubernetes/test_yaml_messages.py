import pytest

from policies.kubernetes.yaml import YAMLError, load_document


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "image: a: b\n",
            '1:9: a "key: value" pair cannot stand here: check the indentation, or quote the text if ": " belongs to it',
        ),
        ("a: - b\n", '1:4: a "- " item cannot stand here: check the indentation'),
        (
            "a:\n  - b\n c: 1\n",
            "3:2: expected another key of the mapping that begins at line 1: check the indentation and the quotes",
        ),
        (
            "---\nx: 1\n---\na: 'it's'\n",
            "4:8: expected another key of the mapping that begins at line 4: check the indentation and the quotes",
        ),
        ("- a\nb: 1\n", '2:1: expected another "- " item of the list that begins at line 1: check the indentation'),
        ("a: [1,\n2\nb: 3\n", '3:2: expected "," or "]" in the list that begins at line 1'),
        ("a: {x: 1\nb: 2\n", '2:2: expected "," or "}" in the mapping that begins at line 1'),
        ("a: [\n\n", "1:5: expected a value here"),
        (
            "a: 1\n...\nb: 2\n",
            '3:1: the document ends before this: check the indentation, or begin another document with a line "---"',
        ),
        (
            "verbs: [*]\n",
            '1:10: expected a name after "&" or "*"; quote the text if the sign belongs to it',
        ),
        ("a:\n\t- b\n", "2:1: a tab cannot indent; use spaces"),
        ("a: |\n x\n\ty\n", "3:1: a tab cannot indent; use spaces"),
        ("a: @b\n", '1:4: "@" cannot begin a value; quote it'),
        ("a: `b`\n", '1:4: "`" cannot begin a value; quote it'),
        ("a: %b\n", '1:4: "%" cannot begin a value; quote it'),
        (
            'a: "\\d+"\n',
            "1:5: no such escape in double quotes: write two backslashes for one, or use single quotes",
        ),
        (
            'a: "\\ud83d"\n',
            "1:7: this escape names no character; instead of a surrogate pair, write the character itself",
        ),
        ("a: !%ED%A0%80 b\n", "1:2: an escape after this place names no character of Unicode"),
        ("a: 1\nfoo\nb: 2\n", '2:1: expected ":" after this key'),
        ("a: 1\nb: 'x\n\nc: 1\n", "2:4: the quoted text that begins here is never closed"),
        ('a: 1\nb: "x\n...\n', "2:4: the quoted text that begins here is never closed"),
        (
            "a: 1\nb: \0\n",
            '2:4: the character U+0000 is not allowed in YAML; remove it, or write it as "\\u0000" in double quotes',
        ),
        (
            "a: 1\nb: \x7f\n",
            '2:4: the character U+007F is not allowed in YAML; remove it, or write it as "\\u007F" in double quotes',
        ),
        (
            "a: 1\n---\n\nb: \x1b[0m\n",
            '4:4: the character U+001B is not allowed in YAML; remove it, or write it as "\\u001B" in double quotes',
        ),
        ("%YAML 2.0\n---\na\n", "1:1: found incompatible YAML document"),
        (
            "a: |0\n x\n",
            "1:5: found an indentation indicator equal to 0 (while scanning a block scalar at line 1)",
        ),
    ],
)
def test_mistake_is_reported_in_one_sentence_at_its_place(text, message):
    with pytest.raises(YAMLError) as caught:
        load_document(text)
    assert str(caught.value) == message
