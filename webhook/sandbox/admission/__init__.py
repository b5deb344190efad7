"""Admission webhooks as in the API server: their order, their calls, their messages.

The facts come from k8s.io/apiserver pkg/admission/plugin/webhook (release 1.36) and from trying a real 1.36.2.
"""

from __future__ import annotations

from webhook.sandbox.admission.calls import Resolver
from webhook.sandbox.admission.notes import Audit, Warnings
from webhook.sandbox.admission.webhooks import Webhooks

__all__ = ["Audit", "Resolver", "Warnings", "Webhooks"]
