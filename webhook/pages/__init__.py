"""Pages: what gpu-admission shows in a browser, rendered from plain data by templates.

`rendering` makes whole pages and parts of pages. A page that is written to a file has its style and its script inside,
needs no network, and forbids everything else by its Content-Security-Policy. Templates escape every value.
"""
