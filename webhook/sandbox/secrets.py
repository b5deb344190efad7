"""Secrets: what the API server makes of them when it reads them, and what they must hold.

Source: ValidateSecret in kubernetes/pkg/apis/core/validation; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from webhook.sandbox.statuses import Cause

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["read_secret", "secret_problems"]

_NEEDED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}


def read_secret(secret: Object) -> Object:
    """The secret with a type, and with `stringData` in `data`."""
    read = {"type": "Opaque", **{key: value for key, value in secret.items() if key != "stringData"}}
    texts = secret.get("stringData")
    if isinstance(texts, dict):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
        read["data"] = {**(read.get("data") or {}), **encoded}
    return read


def secret_problems(secret: Object, old: Object | None) -> list[Cause]:
    """What is wrong with a secret, and what changed in it that must not."""
    data = secret.get("data") or {}
    causes = [
        Cause(f"data[{key}]", "Required", "") for key in _NEEDED.get(secret.get("type", ""), ()) if key not in data
    ]
    # A real server does not get as far as validation with this, and calls it a bad request.
    causes += [Cause(f"data[{key}]", "Invalid", "illegal base64 data") for key in data if not _is_base64(data[key])]
    if old is not None and secret.get("type") != old.get("type"):
        causes.append(Cause("type", "Invalid", f'"{secret.get("type")}": field is immutable'))
    return causes


def _is_base64(value: object) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
    except binascii.Error:
        return False
