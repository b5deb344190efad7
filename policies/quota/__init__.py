"""Quotas: the charge of a pod or claim, and whether it fits. `webhook.ledger` stores charges."""
