"""Blocks of fields that the components of the GPU Operator share."""

from __future__ import annotations

__all__ = ["BLOCKS"]

BLOCKS = {
    "env": "env: [object]\n  name!: string\n  value: string",
    "image": "image: string\nimagePullPolicy: string\nimagePullSecrets: [string]\nrepository: string\nversion: string",
    "resources": "resources: object\n  limits: {quantity}\n  requests: {quantity}",
    "component": "+ env, image, resources\nargs: [string]\nenabled: boolean\nhostNetwork: boolean",
    "probe": "failureThreshold: integer at least 1\ninitialDelaySeconds: integer\nperiodSeconds: integer at least 1\n"
    "successThreshold: integer at least 1\ntimeoutSeconds: integer at least 1",
}
"""Fields that several components have, by the names that schemas use."""
