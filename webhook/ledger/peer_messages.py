"""Messages between replicas: charges, cancellations and answers, each a JSON text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from policies.kubernetes.names import is_dns_label
from policies.quota.ledger.open_charges import open_charge
from policies.quota.ledger.status import GarbageError, read_charge
from policies.rules.charges import Charge
from webhook.ledger.documents import Spec

if TYPE_CHECKING:
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Quota

__all__ = [
    "MOST_MESSAGE_BYTES",
    "Answer",
    "BadMessage",
    "Cancellation",
    "ChargeMessage",
    "read_answer",
    "read_question",
    "write_answer",
    "write_cancellation",
    "write_charge",
]


MOST_MESSAGE_BYTES = 256 * 1024
"""Bytes that no message has; a replica writes a larger charge itself."""


class BadMessage(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A replica of this version does not send this."""


class ChargeMessage(NamedTuple):
    """A charge to be written by the owner of the ledger."""

    namespace: str
    charge: Charge
    spec: Spec
    """The spec under which the charge was computed."""
    call: str
    """Of the replica that asks; it also identifies the message."""
    needs_coverage: bool


class Cancellation(NamedTuple):
    """The charge of an earlier message is not needed: its object is not created."""

    namespace: str
    uid: str
    """Of the charge."""
    call: str


class Answer(NamedTuple):
    """The answer to a charge."""

    call: str
    """Of the charge."""
    is_charged: bool
    """True if the charge is on the ledger."""


def write_charge(message: ChargeMessage, quota: Quota) -> bytes:
    """The text of a charge; `quota` is the spec under which it was computed."""
    names = {limit.name for limit in quota.limits}
    charges = [message.charge] if message.charge.shared is None else [message.charge, message.charge.shared]
    return orjson.dumps(
        {
            "namespace": message.namespace,
            "charges": [open_charge(each, None, names, "", {}, message.call).document for each in charges],
            "spec": [*message.spec],
            "needsCoverage": message.needs_coverage,
        }
    )


def write_cancellation(cancellation: Cancellation) -> bytes:
    """The text of a cancellation."""
    return orjson.dumps({"cancelled": [*cancellation]})


def write_answer(answer: Answer) -> bytes:
    """The text of an answer."""
    return orjson.dumps({"call": answer.call, "charged": answer.is_charged})


def read_question(text: bytes | str) -> ChargeMessage | Cancellation:
    """The charge or the cancellation in a text.

    Raises:
        BadMessage: It is neither.
    """
    message = _parse(text)
    if "cancelled" in message:
        place, uid, call = _texts(message["cancelled"], 3)
        return Cancellation(_namespace(place), uid, _call(call))
    namespace, charges, spec = (message.get(field) for field in ("namespace", "charges", "spec"))
    if not isinstance(namespace, str) or not isinstance(charges, list) or len(charges) not in (1, 2):
        raise BadMessage("a charge has a namespace and one or two items")
    if not isinstance(spec, list) or [type(each) for each in spec] != [str, int]:
        raise BadMessage("the spec of a charge is a uid and a generation")
    try:
        own, *shared = (read_charge(each) for each in charges)
    except GarbageError as error:
        raise BadMessage(f"not a charge: {error}") from error
    charge = _charge(own, namespace)
    if shared:
        charge = replace(charge, shared=_charge(shared[0], namespace))
    needs_coverage = bool(message.get("needsCoverage"))
    return ChargeMessage(_namespace(namespace), charge, Spec(*spec), _call(own.call), needs_coverage)


def read_answer(text: bytes | str) -> Answer:
    """The answer in a text.

    Raises:
        BadMessage: It is not an answer.
    """
    message = _parse(text)
    call = message.get("call")
    if not isinstance(call, str):
        raise BadMessage("an answer has a call")
    return Answer(call, message.get("charged") is True)


def _parse(text: bytes | str) -> dict[str, Any]:
    try:
        message = orjson.loads(text)
    except ValueError as error:
        raise BadMessage(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise BadMessage("a message is a JSON object")
    return message


def _namespace(name: str) -> str:
    if not is_dns_label(name):
        raise BadMessage("the namespace is not a name")
    return name


def _call(call: str) -> str:
    if not call:
        raise BadMessage("the call is empty")
    return call


def _texts(found: Any, count: int) -> list[str]:
    if not isinstance(found, list) or len(found) != count or not all(isinstance(each, str) for each in found):
        raise BadMessage(f"expected a list of {count} strings")
    return found


def _charge(item: OpenCharge, namespace: str) -> Charge:
    return Charge(item.uid, item.kind, namespace, item.name, item.pieces, item.of)  # type: ignore[arg-type]  # compared only
