"""Two checkouts get the same seeded questions, and whatever they answer differently is reported.

Only what users see is compared: commands, HTTP and JSON. Nothing of the product is imported, so modules may move.
"""
