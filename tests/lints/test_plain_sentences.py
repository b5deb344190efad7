"""The lint for sentences and names."""

from textwrap import dedent

import pytest

from lints.plain_sentences import breaches


@pytest.fixture
def texts(tmp_path):
    """The texts of the breaches in a file of this content."""

    def texts(content, name="module.py"):
        path = tmp_path / name
        path.write_text(dedent(content))
        return [(breach.line, breach.text) for breach in breaches(path)]

    return texts


def test_plain_module_has_no_breaches(texts):
    assert (
        texts('''
        """Reads claims."""

        def read_claims(text):  # the API server reads them as well
            """Return the claims of a text."""
            return text.split(", ")
        ''')
        == []
    )


def test_first_line_over_100_characters_is_a_breach(texts):
    assert texts(f'"""{"a" * 101}"""') == [(1, "the docstring's first line has 101 characters, not at most 100")]


def test_docstring_that_begins_with_arguments_is_a_breach(texts):
    expected = "a docstring begins with what the function does, not with its arguments"
    assert texts('def read(text):\n    """Args:\n        text: What is read.\n    """') == [(2, expected)]


@pytest.mark.parametrize(
    "line",
    ['"""Done.\n\nNobody reads it."""', 'message = "read it:\\n" \\\n    "nobody does"', "# one\n# that nobody reads"],
)
def test_unwanted_word_is_a_breach_in_docstrings_messages_and_comments(texts, line):
    [(_, text)] = texts(line)
    assert text.endswith("write: no user, none")


def test_unwanted_word_of_a_page_is_found_at_its_line(texts):
    assert texts("# A page\n\nNobody reads it.\n", "page.md") == [(3, 'instead of "Nobody" write: no user, none')]


def test_identifier_with_an_unwanted_word_is_no_breach(texts):
    assert texts("nobody = 65534\n") == []


@pytest.mark.parametrize("name", ["asked", "_made", "together", "kept_aside", "sharing", "seen_before"])
def test_function_named_by_participles_and_adverbs_is_a_breach(texts, name):
    assert texts(f"def {name}(): ...") == [(1, f"name {name}() with a verb, or with a noun for what it returns")]


@pytest.mark.parametrize(
    "name", ["converted_pod", "is_converted", "feed", "_mapping", "__enter__", "_", "connection_lost"]
)
def test_function_named_by_a_verb_or_a_noun_is_no_breach(texts, name):
    assert texts(f"def {name}(): ...") == []


def test_property_may_be_a_participle(texts):
    assert texts("class Pod:\n    @property\n    def deleted(self): ...") == []


@pytest.mark.parametrize("word", ["How", "What", "Whether", "Which", "Who", "Whose", "Why"])
def test_docstring_that_begins_with_a_question_word_is_a_breach(texts, word):
    expected = f'begin the docstring with "The ...", "True if ..." or "Return ...", not with {word}'
    assert texts(f'"""{word} is asked."""') == [(1, expected)]
