"""Rules of conversion, GA3xx: why a pod cannot be converted, is left alone, or should be looked at."""

from policies.conversion.rules.asking import AMOUNT, MALFORMED, PROFILE, TOO_LARGE, TOO_MANY, UNEQUAL
from policies.conversion.rules.choices import (
    EXEMPT,
    KUEUE,
    NAMESPACE_UNKNOWN,
    OPT_OUT_REFUSED,
    OPTED_OUT,
    OTHER_SCHEDULER,
    STRATEGY,
)
from policies.conversion.rules.converted import ESCAPED, IMMUTABLE, MARKED, READDED, SELECTS_AGAIN, STILL_ASKS
from policies.conversion.rules.meaning import AMBIGUOUS, LABEL, NO_SHARES, SHARED, TERMS, TOO_LONG
from policies.conversion.rules.strategies import CHOSEN, INCAPABLE, NOT_RENAMED, UNMAPPED
from policies.conversion.rules.surroundings import (
    FOREIGN_TEMPLATE,
    NATIVE_QUOTA,
    NO_CLASS,
    OLD_KUBELET,
    PREEMPTION,
    TWICE,
    UNSATISFIABLE,
)

__all__ = [
    "AMBIGUOUS",
    "AMOUNT",
    "CHOSEN",
    "ESCAPED",
    "EXEMPT",
    "FOREIGN_TEMPLATE",
    "IMMUTABLE",
    "INCAPABLE",
    "KUEUE",
    "LABEL",
    "MALFORMED",
    "MARKED",
    "NAMESPACE_UNKNOWN",
    "NATIVE_QUOTA",
    "NOT_RENAMED",
    "NO_CLASS",
    "NO_SHARES",
    "OLD_KUBELET",
    "OPTED_OUT",
    "OPT_OUT_REFUSED",
    "OTHER_SCHEDULER",
    "PREEMPTION",
    "PROFILE",
    "READDED",
    "SELECTS_AGAIN",
    "SHARED",
    "STILL_ASKS",
    "STRATEGY",
    "TERMS",
    "TOO_LARGE",
    "TOO_LONG",
    "TOO_MANY",
    "TWICE",
    "UNEQUAL",
    "UNMAPPED",
    "UNSATISFIABLE",
]
