"""The Python session in docs/claims.md has the right results."""

import doctest
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_claims_page_shows_what_python_answers(monkeypatch):
    monkeypatch.chdir(ROOT)
    text = (ROOT / "docs" / "claims.md").read_text().replace("```", "\n")
    session = doctest.DocTestParser().get_doctest(text, {}, "claims.md", "docs/claims.md", 0)
    printed = []
    results = doctest.DocTestRunner(verbose=False).run(session, out=printed.append)
    assert (results.failed, "".join(printed)) == (0, "")
    assert results.attempted > 10
