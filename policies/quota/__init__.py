"""Quotas: what a pod or a claim costs, and what still fits. Arithmetic only; who writes it down is `webhook.ledger`."""
