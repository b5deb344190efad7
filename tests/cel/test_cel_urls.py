"""URLs, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.urls import LIBRARY, URL

OVERLOADS = {overload.id: overload for overload in LIBRARY}


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


def parts(text):
    url = URL.read(text)
    return tuple(run(f"url_get_{part}", url) for part in ("scheme", "host", "hostname", "port", "escaped_path"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://example.com:80/a/b?q#f", ("https", "example.com:80", "example.com", "80", "/a/b")),
        ("HTTP://EXAMPLE.com", ("http", "EXAMPLE.com", "EXAMPLE.com", "", "")),
        ("http://user:pass@h:/", ("http", "h:", "h", "", "/")),
        ("http://[::1]:8080/", ("http", "[::1]:8080", "::1", "8080", "/")),
        ("http://[fe80::1%25e%20x]/", ("http", "[fe80::1%e x]", "fe80::1%e x", "", "/")),
        ("http://h%25/", ("http", "h%", "h%", "", "/")),
        ("http://h%c3%a9/", ("http", "hé", "hé", "", "/")),
        ("x://a:b:80", ("x", "a:b:80", "a:b", "80", "")),
        ("/a b", ("", "", "", "", "/a%20b")),
        ("/a%2fb", ("", "", "", "", "/a%2fb")),
        ("/a%2Fb c", ("", "", "", "", "/a/b%20c")),
        ("/a!b[c]", ("", "", "", "", "/a!b[c]")),
        ("/é", ("", "", "", "", "/%C3%A9")),
        ("/%ff", ("", "", "", "", "/%ff")),
        ("/a|b", ("", "", "", "", "/a%7Cb")),
        ("/p#f", ("", "", "", "", "/p")),
        ("//host/p", ("", "host", "host", "", "/p")),
        ("///p", ("", "", "", "", "///p")),
        ("*", ("", "", "", "", "*")),
        ("mailto:a@b", ("mailto", "", "", "", "")),
        ("http:", ("http", "", "", "", "")),
    ],
)
def test_url_is_taken_apart(text, expected):
    assert run("is_url_string", text)
    assert parts(text) == expected


def test_a_byte_of_a_host_that_is_no_text_becomes_one_replacement_character():
    assert parts("http://h%ff%fe/")[1] == "h\ufffd\ufffd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty url"),
        ("a", "invalid URI for request"),
        ("?q", "invalid URI for request"),
        (":a", "missing protocol scheme"),
        ("http://h/\n", "net/url: invalid control character in URL"),
        ("/%zz", 'invalid URL escape "%zz"'),
        ("/%4", 'invalid URL escape "%4"'),
        ("/%4é", 'invalid URL escape "%4\\xc3"'),
        ("http://h%41/", 'invalid URL escape "%41"'),
        ("http://[fe80::1%25e%5ex]/", 'invalid URL escape "%5e"'),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://h#f", 'invalid character "#" in host name'),
        ("http://h\\", 'invalid character "\\\\" in host name'),
        ("http://u é@h", "net/url: invalid userinfo"),
        ("http://u%zz@h", 'invalid URL escape "%zz"'),
        ("http://h:x", 'invalid port ":x" after host'),
        ("http://a:b:80", 'invalid port ":b:80" after host'),
        ("http://[::1]x", 'invalid port "x" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://a[::1]", "invalid IP-literal"),
        ("http://[1.2.3.4]", "invalid IP-literal"),
        (
            "http://[::g]",
            'invalid host: ParseAddr("::g"): each colon-separated field must have at least one digit (at "g")',
        ),
    ],
)
def test_text_that_is_no_url_fails_in_kubernetes_words(text, message):
    assert not run("is_url_string", text)
    with pytest.raises(CelRuntimeError) as failed:
        run("string_to_url", text)
    shown = text.replace("\\", "\\\\").replace("\n", "\\n")
    assert failed.value.message == f'URL parse error during conversion from string: parse "{shown}": {message}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://h/p?q#%zz", 'parse "http://h/p?q#%zz": invalid URL escape "%zz"'),
        ("//h p/x#f", 'parse "//h p/x": invalid character " " in host name'),
    ],
)
def test_what_only_reading_again_finds_fails_although_it_is_called_a_url(text, message):
    assert run("is_url_string", text)
    with pytest.raises(CelRuntimeError) as failed:
        URL.read(text)
    assert failed.value.message == f"URL parse error during conversion from string: {message}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/", []),
        ("/?", []),
        ("/?a=1&b=2&a=3", [("a", ("1", "3")), ("b", ("2",))]),
        ("/?a&&=b", [("a", ("",)), ("", ("b",))]),
        ("/?a=x+y%2B%20", [("a", ("x y+ ",))]),
        ("/?a=1;b=2&c=3&%zz=1&d=%zz", [("c", ("3",))]),
        ("/??a=b", [("?a", ("b",))]),
        ("/?a=%ff", [("a", ("\ufffd",))]),
    ],
)
def test_query_is_a_map_of_lists(text, expected):
    assert list(run("url_get_query", URL.read(text)).items()) == expected


@pytest.mark.parametrize(("parameters", "expected"), [(10_000, 10_000), (10_001, 0)])
def test_query_of_too_many_parameters_is_empty(parameters, expected):
    query = "&".join(f"p{number}" for number in range(parameters))
    assert len(run("url_get_query", URL.read(f"/?{query}"))) == expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("HTTP://h", "http://h", True),
        ("http://H", "http://h", False),
        ("/a b", "/a%20b", True),
        ("/?", "/", False),
        ("/#", "/", True),
        ("/p#é", "/p#%C3%A9", True),
        ("http:/p", "http:///p", False),
        ("http://", "http:", True),
        ("http://@h", "http://h", False),
        ("http://u:@h", "http://u@h", False),
        ("http://%75@h", "http://u@h", True),
        ("/%61", "/a", False),
    ],
)
def test_urls_are_equal_when_they_are_spelled_the_same(left, right, expected):
    assert (URL.read(left) == URL.read(right)) is expected
    assert (hash(URL.read(left)) == hash(URL.read(right))) is expected


def test_url_is_not_equal_to_its_text():
    assert URL.read("/") != "/"


@given(st.text(alphabet="ah:/?#[]@%4z.&=+ é1;", max_size=20))
def test_any_text_is_read_or_refused(text):
    for candidate in (text, f"http://{text}", f"//{text}"):
        try:
            url = URL.read(candidate)
        except CelRuntimeError:
            continue
        assert all(isinstance(run(f"url_get_{part}", url), str) for part in ("host", "port", "escaped_path"))
