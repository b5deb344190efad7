"""Settings of Sphinx: https://www.sphinx-doc.org/en/master/usage/configuration.html."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, ClassVar

from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType
from sphinx.search.en import SearchEnglish

from policies.admission import rule_book

project = "gpu-admission"
html_title = "gpu-admission"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
root_doc = "index"
html_theme = "furo"
html_show_sphinx = False
html_copy_source = False
html_show_copyright = False
# Output of commands, and manifests with comments of ours, that no lexer knows.
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "default"
pygments_dark_style = "monokai"


class _English(SearchEnglish):
    """English for the search; the stem of each word is computed once, and not for each page."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__(options)
        self._stems: dict[str, str] = {}

    def stem(self, word: str) -> str:
        if word not in self._stems:
            self._stems[word] = super().stem(word)
        return self._stems[word]


class _Rules(Domain):
    """The rules as objects, so that the search finds one by its id and by words of its title, and leads to its section."""

    name = "rules"
    object_types: ClassVar = {"rule": ObjType("rule")}

    def get_objects(self) -> Iterator[tuple[str, str, str, str, str, int]]:
        for rule in rule_book().rules:
            name = f"{rule.id}: {rule.title}"
            yield name, name, "rule", f"docs/rules/{rule.subject}", rule.id.lower(), 0

    def merge_domaindata(self, docnames: AbstractSet[str], otherdata: dict[str, Any]) -> None:
        """Nothing: the rules come from the code, and not from the pages that a process reads."""


def setup(app: Sphinx) -> None:
    """Register what Sphinx does not have."""
    app.add_search_language(_English)
    app.add_domain(_Rules)
