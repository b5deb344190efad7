"""The number of examples that property tests try."""

from hypothesis import settings

USUAL = 20
"""Examples of a property in `make test`, unless the property sets its own number with `examples`."""


def examples(number):
    """`max_examples` of a property that should try `number` examples in `make test`.

    `make properties` tries more of every property; this number grows by the same factor.
    """
    return max(1, number * settings.default.max_examples // USUAL)
