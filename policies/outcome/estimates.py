"""Estimates: comparisons that hold whatever an estimated size turns out to be; the others are unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.outcome.comparison import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.outcome.comparison import FitComparison
    from policies.outcome.quotas import LimitComparison

__all__ = ["certain_fits", "certain_limits"]

_GOOD = (Outcome.KEPT, Outcome.GAINED)


def certain_fits(
    fits: Iterable[FitComparison], ends: Sequence[Iterable[FitComparison]], cause: str
) -> Iterator[FitComparison]:
    """Fits, unknown where their outcome is another one at an end of what is possible.

    Args:
        fits: Comparisons with a cluster that has estimates.
        ends: The same subjects, compared with clusters that have the least and the most that is possible.
        cause: What is estimated, a clause.
    """
    for found, *others in zip(fits, *ends, strict=True):
        every = (found, *others)
        if len({each.outcome for each in every}) == 1:
            yield found
            continue
        bad = next((each for each in every if each.outcome not in _GOOD), None)
        risk = "" if bad is None else f"; it may be that {bad.sentence}"
        yield replace(found, outcome=Outcome.UNKNOWN, sentence=f"unknown because {cause}{risk}", changes=())


def certain_limits(
    limits: Iterable[LimitComparison], ends: Sequence[Iterable[LimitComparison]], cause: str
) -> Iterator[LimitComparison]:
    """Limits, unknown where their outcome is another one at an end; see `certain_fits`."""
    for found, *others in zip(limits, *ends, strict=True):
        every = (found, *others)
        if len({each.outcome for each in every}) > 1:
            yield replace(found, outcome=Outcome.UNKNOWN, sentence=f"unknown because {cause}: {found.sentence}")
        elif len({each.after for each in every}) == 1:
            yield found
        else:
            within = [each for each in every if each.after is not None and not each.after.is_over]
            risk = "; it may be exceeded" if 0 < len(within) < len(every) else ""
            yield replace(found, sentence=f"{(within or [found])[0].sentence}{risk}; {cause}")
