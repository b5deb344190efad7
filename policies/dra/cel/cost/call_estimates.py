"""The estimate for one call: the first that an estimator has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.cost.estimated_calls import NOMINAL
from policies.dra.cel.cost.kubernetes_estimates import KUBERNETES_ESTIMATES
from policies.dra.cel.cost.standard_estimates import EXTENSION_ESTIMATES, STANDARD_ESTIMATES

if TYPE_CHECKING:
    from policies.dra.cel.cost.estimated_calls import CallEstimate, EstimatedCall

__all__ = ["estimate_call"]


def estimate_call(call: EstimatedCall) -> CallEstimate:
    """The cost of one overload without its arguments; 1 where no estimator knows it.

    Source: the order is that of cel-go v0.26.0 checker/cost.go, `functionCost`.
    """
    for estimator in (
        EXTENSION_ESTIMATES.get(call.overload_id),
        KUBERNETES_ESTIMATES.get(call.function),
        STANDARD_ESTIMATES.get(call.overload_id),
    ):
        estimate = estimator(call) if estimator is not None else None
        if estimate is not None:
            return estimate
    return NOMINAL
