"""Settings of Sphinx: https://www.sphinx-doc.org/en/master/usage/configuration.html."""

from typing import Any

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

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


def setup(app: Sphinx) -> None:
    """Register what Sphinx does not have."""
    app.add_search_language(_English)
