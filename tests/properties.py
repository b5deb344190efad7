"""How many examples the properties try."""

from hypothesis import settings

USUAL = 30
"""As many as `make test` has time for, unless a property says otherwise."""


def examples(number):
    """As many of a property that `make test` tries with a number of its own; `make properties` tries more of each."""
    return number * settings.default.max_examples // USUAL
