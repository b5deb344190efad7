"""Messages between replicas: charges, cancellations and answers, each a JSON text."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson
from aiohttp import WSMsgType, web

from policies.kubernetes.names import is_dns_label
from policies.quota.ledger.open_charges import open_charge
from policies.quota.ledger.status import GarbageError, read_charge
from policies.quota.limits.quota import QuotaError
from policies.rules.charges import Charge
from webhook.cluster.answers import ClusterError
from webhook.ledger.directory import peer_certificate
from webhook.ledger.documents import LedgerKey, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from policies.quota.ledger.open_charges import OpenCharge
    from policies.quota.limits.quota import Quota
    from webhook.ledger.writer import LedgerWriter


MOST_MESSAGE_BYTES = 256 * 1024
"""Bytes that no message has; a replica writes a larger charge itself."""


class BadMessage(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A replica of this version does not send this."""


class ChargeMessage(NamedTuple):
    """A charge to be written by the owner of the ledger."""

    key: LedgerKey
    charge: Charge
    spec: Spec
    """The spec under which the charge was computed."""
    call: str
    """Of the replica that asks; it also identifies the message."""
    needs_coverage: bool


class Cancellation(NamedTuple):
    """The charge of an earlier message is not needed: its object is not created."""

    key: LedgerKey
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
            "ledger": [*message.key],
            "namespace": message.charge.namespace,
            "charges": [open_charge(each, None, names, "", {}, message.call).document for each in charges],
            "spec": [*message.spec],
            "needsCoverage": message.needs_coverage,
        }
    )


def write_cancellation(cancellation: Cancellation) -> bytes:
    """The text of a cancellation."""
    return orjson.dumps({"ledger": [*cancellation.key], "cancelled": [cancellation.uid, cancellation.call]})


def write_answer(answer: Answer) -> bytes:
    """The text of an answer."""
    return orjson.dumps({"call": answer.call, "charged": answer.is_charged})


def read_question(text: bytes | str) -> ChargeMessage | Cancellation:
    """The charge or the cancellation in a text.

    Raises:
        BadMessage: It is neither.
    """
    message = _parse(text)
    key = _key(message.get("ledger"))
    if "cancelled" in message:
        uid, call = _texts(message["cancelled"], 2)
        return Cancellation(key, uid, _call(call))
    namespace, charges, spec = (message.get(field) for field in ("namespace", "charges", "spec"))
    if (
        not isinstance(namespace, str)
        or not is_dns_label(namespace)
        or not isinstance(charges, list)
        or len(charges) not in (1, 2)
    ):
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
    return ChargeMessage(key, charge, Spec(*spec), _call(own.call), needs_coverage)


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


def _key(found: Any) -> LedgerKey:
    key = LedgerKey(*_texts(found, 3))
    try:
        key.path()
    except (KeyError, ValueError) as error:
        raise BadMessage("no object has this key") from error
    return key


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


_MOST_BYTES = 4 * 1024 * 1024
_BYTES_OF_A_MESSAGE = 1024
"""Bytes that a message counts besides its text."""


class _Socket(Protocol):
    async def send_bytes(self, message: bytes) -> None: ...


class Outbox:
    """Messages that wait to be sent.

    Callers do not wait: all senders of a connection would wait for one future of aiohttp, and a caller whose time is up would
    cancel it for all of them.
    """

    def __init__(self, socket: _Socket) -> None:
        """Without messages; `run` sends them."""
        self._socket = socket
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = 0

    def put(self, text: bytes) -> bool:
        """Send a message soon; False if too many wait, because the other side does not read."""
        size = len(text) + _BYTES_OF_A_MESSAGE
        if self._bytes + size > _MOST_BYTES:
            return False
        self._bytes += size
        self._waiting.put_nowait(text)
        return True

    async def run(self) -> None:
        """Send messages until cancelled, or until the connection has ended."""
        with suppress(ConnectionError):
            while True:
                text = await self._waiting.get()
                await self._socket.send_bytes(text)
                self._bytes -= len(text) + _BYTES_OF_A_MESSAGE


PATH = "/v1/charges"
HEARTBEAT_SECONDS = 2.0
"""Between two pings of a connection; it is closed if the pong takes half as long."""
CLOSE_SECONDS = 1.0
"""Seconds for the other side to confirm the end of a connection."""
_MOST_RECEIVED = 4096
"""Calls that are remembered; a cancellation follows its charge within seconds."""
_MOST_AT_ONCE = 512
"""Charges of one connection that wait for their write; further ones are not charged."""

_logger = logging.getLogger("gpu_admission.peers")


@dataclass(eq=False)
class PeerCalls:
    """Answers the connections of other replicas."""

    writer: LedgerWriter
    """Writes the charges."""
    trusted: Callable[[], Container[bytes]]
    """Returns the certificates of the current peers, in DER."""
    _open: dict[web.WebSocketResponse, bytes] = field(default_factory=dict, init=False)
    """The certificate of the other side of each connection."""
    _received: OrderedDict[str, None] = field(default_factory=OrderedDict, init=False)
    """The calls of the last charges that were received; only these are cancelled, over any connection."""
    _closing: set[asyncio.Task[bool]] = field(default_factory=set, init=False)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer the messages of one connection until it ends."""
        # TLS trusts every certificate that was in a Lease since the start; some of their replicas have ended.
        certificate = peer_certificate(request.transport)
        if certificate is None or certificate not in self.trusted():
            return web.Response(status=403, text="This certificate is not in the Lease of a running replica.\n")
        if request.path != PATH:
            return web.Response(status=404, text=f"Replicas send charges to {PATH}.\n")
        socket = web.WebSocketResponse(
            timeout=CLOSE_SECONDS, heartbeat=HEARTBEAT_SECONDS, compress=False, max_msg_size=MOST_MESSAGE_BYTES
        )
        await socket.prepare(request)
        self._open[socket] = certificate
        try:
            # aiohttp answers a ping by itself, and raises if the other side has gone meanwhile.
            with suppress(ConnectionError):
                await _Conversation(self.writer, socket, self._received).run()
        finally:
            del self._open[socket]
        return socket

    def close_strangers(self) -> None:
        """Close the connections of replicas that have ended."""
        trusted = self.trusted()
        for socket in [socket for socket, certificate in self._open.items() if certificate not in trusted]:
            task = asyncio.create_task(socket.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections; the other replicas write their charges themselves."""
        await asyncio.gather(*(socket.close() for socket in self._open))


class _Conversation:
    """One connection: its charges are answered in any order."""

    def __init__(self, writer: LedgerWriter, socket: web.WebSocketResponse, received: OrderedDict[str, None]) -> None:
        self._writer = writer
        self._socket = socket
        self._received = received
        self._outbox = Outbox(socket)
        self._pending: dict[str, asyncio.Task[None]] = {}
        """By the call of the other replica."""

    async def run(self) -> None:
        sending = asyncio.create_task(self._outbox.run())
        try:
            async for message in self._socket:
                if message.type is WSMsgType.ERROR:
                    break
                self._take(message.data)
        except BadMessage as error:
            _logger.warning(
                "closed the connection of another replica: invalid message: %s; check that all replicas run the same version",
                error,
            )
            await self._socket.close()
        finally:
            # The other replica continues by itself, and may rely on what is being written: nothing is taken back.
            for task in (sending, *self._pending.values()):
                task.cancel()

    def _take(self, text: bytes) -> None:
        question = read_question(text)
        if isinstance(question, Cancellation):
            self._cancel(question)
        elif len(self._pending) >= _MOST_AT_ONCE or question.call in self._pending:
            self._outbox.put(write_answer(Answer(question.call, is_charged=False)))
        else:
            self._received[question.call] = None
            if len(self._received) > _MOST_RECEIVED:
                self._received.popitem(last=False)
            task = asyncio.create_task(self._answer(question), name=f"charge for a peer in {question.key}")
            self._pending[question.call] = task
            task.add_done_callback(lambda _: self._pending.pop(question.call))

    def _cancel(self, cancellation: Cancellation) -> None:
        if (pending := self._pending.get(cancellation.call)) is not None:
            pending.cancel()
        if cancellation.call in self._received:
            del self._received[cancellation.call]
            self._writer.take_back(*cancellation)

    async def _answer(self, question: ChargeMessage) -> None:
        is_charged = False
        try:
            is_charged = await self._writer.charge_for_peer(
                question.key,
                question.charge,
                question.spec,
                question.call,
                needs_coverage=question.needs_coverage,
            )
        except (ClusterError, QuotaError, TimeoutError) as error:
            # The other replica tries by itself, and says what is wrong.
            _logger.debug("no charge for another replica in %s: %s", question.key, error)
        except Exception:
            _logger.exception("a charge of %s for another replica failed; that replica writes it", question.key)
        # If the other side does not read, it has no answer in time and continues by itself.
        self._outbox.put(write_answer(Answer(question.call, is_charged)))
