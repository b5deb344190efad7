"""Open charges as one text, `status.openCharges`.

An API server pays for every structured entry of a status at every write, and for a text only by its length. Each charge is a
list of the values of its fields. The last one, its pieces, is left out if it is the same as that of the charge before, which
is often a pod of the same template.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.quota.ledger.open_charges import HEAD_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.open_charges import OpenCharge

__all__ = ["compact_text", "expand_text"]


def compact_text(charges: Iterable[OpenCharge]) -> str:
    """The charges as `status.openCharges`; empty if there are none."""
    texts: list[str] = []
    before: OpenCharge | None = None
    for charge in charges:
        has_same = before is not None and _has_same_pieces(charge, before)
        texts.append(f"[{charge.head_text}]" if has_same else f"[{charge.head_text},{charge.pieces_text}]")
        before = charge
    return f"[{','.join(texts)}]" if texts else ""


def _has_same_pieces(charge: OpenCharge, other: OpenCharge) -> bool:
    """True if the texts of their pieces are equal; charges that were read from a text share equal pieces."""
    return charge.pieces is other.pieces or charge.pieces_text == other.pieces_text


def expand_text(text: str) -> list[Object]:
    """The charges in `status.openCharges`, each as `OpenCharge.document` has it.

    Raises:
        ValueError: `compact_text` does not write this.
    """
    try:
        lists = json.loads(text) if text else []
    except RecursionError as error:
        raise ValueError("openCharges is nested too deeply") from error
    items: list[Object] = []
    for values in lists if isinstance(lists, list) else [None]:
        head, pieces = _split(values)
        if len(head) != len(HEAD_FIELDS) or (pieces is None and not items):
            raise ValueError("openCharges must be a list of lists of the values of charges")
        fields = {field: value for field, value in zip(HEAD_FIELDS, head, strict=True) if value is not None}
        items.append(fields | {"pieces": items[-1]["pieces"] if pieces is None else pieces})
    return items


def _split(values: Any) -> tuple[list[Any], list[Any] | None]:
    """The fields of a charge and its pieces, the only value that is a list; None if it has none."""
    if not isinstance(values, list):
        return [], None
    return (values[:-1], values[-1]) if values and isinstance(values[-1], list) else (values, None)
