"""Reports for people: their model, as text for terminals, and as pages in a browser from templates.

`report_model` is what commands fill, `text_report` writes it for terminals.

`rendering` makes whole pages and parts of pages. A page that is written to a file has its style and its script inside,
needs no network, and forbids everything else by its Content-Security-Policy. Templates escape every value.
"""
