"""Settings of Sphinx: https://www.sphinx-doc.org/en/master/usage/configuration.html."""

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
