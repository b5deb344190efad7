"""The one handler of a process's log: lines of JSON, of which frequent ones are written together."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster.answers import ClusterError
from webhook.server.admission_review import name_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from policies.admission import Entry
    from policies.rules.request import Request


_WAIT_SECONDS = 0.1
"""Seconds that a line may wait for others."""
MOST_WAITING = 256
"""Lines that wait, of some KiB at most: each value in them is cut."""


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Make every logger of the process write lines of JSON, by default to stderr."""
    handler = LineHandler(stream)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # No line has these, and finding them takes as long as the rest. Source: docs.python.org/3/howto/logging.html,
    # "Optimization".
    logging._srcfile = None  # noqa: SLF001 - the documented way
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


class LineHandler(logging.StreamHandler["TextIO"]):
    """Writes lines in their order. A record that `may_wait` is written a moment later, with others.

    Writing a line costs as much as a simple review, and ten lines together cost little more than one. A record without
    the attribute is written at once, after those that wait, and so are all when the process ends.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Begin without lines; `stream` is stderr by default."""
        super().__init__(stream)
        self._waiting: list[logging.LogRecord] = []
        self._timer: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or let it wait."""
        self._waiting.append(record)
        if not (hasattr(record, "may_wait") and len(self._waiting) < MOST_WAITING and self._will_flush()):
            self.flush()

    def flush(self) -> None:
        """Write the records that wait."""
        self.acquire()
        try:
            records, self._waiting = self._waiting, []
            self._write("".join([self._line(record) for record in records]), records)
        finally:
            self.release()

    def _write(self, text: str, records: list[logging.LogRecord]) -> None:
        try:
            self.stream.write(text)
            super().flush()
        except Exception:  # noqa: BLE001 - a log that cannot be written must not end what it reports
            for record in records:
                self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record) + self.terminator
        except Exception:  # noqa: BLE001 - a record that cannot be formatted must not keep the others back
            self.handleError(record)
            return ""

    def _will_flush(self) -> bool:
        """True if the event loop of this thread will write what waits; False without one."""
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return False
            self._timer = loop.call_later(_WAIT_SECONDS, self._flush_in_time)
        return True

    def _flush_in_time(self) -> None:
        self._timer = None
        self.flush()


class JSONFormatter(logging.Formatter):
    """Writes a record as one line of JSON: time, level, logger, message, then the record's own `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _one_line(line)


def _one_line(line: dict[str, Any]) -> str:
    try:
        written = orjson.dumps(line)
    except TypeError:  # surrogates, out of an exception's text
        return json.dumps(line, default=str)
    # Outside ASCII there are more line ends and control characters than JSON escapes.
    return written.decode() if written.isascii() else json.dumps(line)


REDACTED = "[redacted]"

_WHOLE_OBJECT = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation in which kubectl keeps the whole manifest, including its environment, as one string."""


def redact(document: Any) -> Any:
    """A copy of an object without the values of environment variables.

    The values are often passwords and tokens. Redacts every list with the key `env` whose items have a `value`: in pods,
    in pod templates of every kind, in NVIDIA's configurations. Names and references to Secrets stay.
    """
    if isinstance(document, list):
        return [redact(item) for item in document]
    if not isinstance(document, dict):
        return document
    copy = {key: REDACTED if key == _WHOLE_OBJECT else redact(value) for key, value in document.items()}
    variables = copy.get("env")
    for variable in variables if isinstance(variables, list) else ():
        if isinstance(variable, dict) and "value" in variable:
            variable["value"] = REDACTED
    return copy


_LONGEST_VALUE = 512
"""Characters of one value that a caller chose; a Kubernetes name has at most 253."""
_MOST_RULES = 50

_decisions = logging.getLogger("gpu_admission.decisions")


def log_decision(
    entry: Entry, request: Request, verdict: str, rules: Sequence[str], seconds: float, *, failure: str = ""
) -> None:
    """Log the verdict of a review; at level debug also the object, redacted.

    Args:
        entry: The webhook entry that was called.
        request: The request.
        verdict: The verdict of the answer.
        rules: The ids of the rules with findings.
        seconds: The duration of the review.
        failure: The id of the failure that prevented a decision.
    """
    fields: dict[str, Any] = {
        **_subject(entry, request),
        "user": _clip(request.user.username),
        "verdict": verdict,
        "rules": list(dict.fromkeys(rules))[:_MOST_RULES],
        "milliseconds": round(seconds * 1000, 3),
        "dry_run": request.dry_run,
    }
    if failure:
        fields["failure"] = failure
    _decisions.info("reviewed", extra={"fields": fields, "may_wait": True})
    if _decisions.isEnabledFor(logging.DEBUG):
        bodies = {"object": redact(request.object), "old_object": redact(request.old_object)}
        _decisions.debug("object of the review", extra={"fields": {"uid": _clip(request.uid), **bodies}})


def log_failure(
    entry: Entry, request: Request, what: str, identifier: str, error: Exception | None, *, concern: str = ""
) -> None:
    """Log why there is no decision, with the id that the answer contains.

    Args:
        entry: The webhook entry that was called.
        request: The request.
        what: The failure, to follow "it": `failed`, `ran out of time`.
        identifier: The failure's id.
        error: The exception; with its traceback, unless time ran out or the API server failed. None if time ran out.
        concern: The concern that has not answered; empty if the whole call has no decision.
    """
    fields = {"failure": identifier, **({"concern": concern} if concern else {}), **_subject(entry, request)}
    text = f"{concern} was skipped: it {what}" if concern else f"no decision: the webhook {what}"
    if isinstance(error, ClusterError):
        _decisions.error("%s; the API server: %s", text, _clip(str(error)), extra={"fields": fields})
    else:
        is_defect = error is not None and not isinstance(error, TimeoutError)
        _decisions.error("%s", text, extra={"fields": fields}, exc_info=error if is_defect else None)


def log_refused_template(entry: Entry, request: Request, template: str, reason: str) -> None:
    """Log that a pod is refused because its template cannot be created.

    Args:
        entry: The webhook entry that was called.
        request: The request.
        template: The template's name.
        reason: The API server's message.
    """
    fields = {**_subject(entry, request), "template": template}
    _decisions.warning("no template, and so no pod: %s", _clip(reason), extra={"fields": fields})


def log_uncharged(entry: Entry, request: Request, reason: str) -> None:
    """Log why an object could not be charged to its namespace's quota.

    Args:
        entry: The webhook entry that was called.
        request: The request.
        reason: The API server's message, or the error in the quota.
    """
    _decisions.warning("not charged: %s", _clip(reason), extra={"fields": _subject(entry, request)})


def log_explanation(caller: str, reference: tuple[str, str, str], verdicts: Sequence[str], seconds: float) -> None:
    """Log the caller, the question and the verdicts of an explanation, without the object.

    Args:
        caller: The name of the user, or of the client's certificate.
        reference: Kind, namespace and name of the object.
        verdicts: The verdicts of the explanations.
        seconds: The duration of the call.
    """
    kind, namespace, name = reference
    fields: dict[str, Any] = {
        "user": _clip(caller),
        "kind": _clip(kind),
        "namespace": _clip(namespace),
        "name": _clip(name),
        "verdicts": list(verdicts),
        "milliseconds": round(seconds * 1000, 3),
    }
    _decisions.info("explained", extra={"fields": fields})


def log_stream(message: str, user: str, namespace: str, reason: str) -> None:
    """Log that a report begins to be shown to a user, or ends.

    Args:
        message: What happens.
        user: The name of the user, or of the client's certificate.
        namespace: The namespace in the path; empty for the report on everything.
        reason: Why the stream ends; empty at its beginning.
    """
    fields = {"user": _clip(user), "namespace": _clip(namespace), **({"reason": reason} if reason else {})}
    _decisions.info(message, extra={"fields": fields})


def log_crash(path: str, identifier: str, error: Exception) -> None:
    """Log an error outside of any review, with the id that the answer contains."""
    _decisions.error("a call failed", extra={"fields": {"failure": identifier, "path": _clip(path)}}, exc_info=error)


def log_refusal(path: str, remote: str | None, status: int, sentence: str) -> None:
    """Log a call that was refused before any review."""
    fields = {"path": _clip(path), "remote": remote, "status": status}
    _decisions.warning("turned down: %s", sentence, extra={"fields": fields})


def log_unknown_caller(remote: str | None, error: Exception) -> None:
    """Log why the API server could not identify or authorize a caller; the caller gets fewer details.

    Args:
        remote: The caller's address.
        error: The API server's error, or the reason for no response.
    """
    fields = {"remote": remote}
    _decisions.warning(
        "the API server could not identify or authorize a caller: %s", _clip(str(error)), extra={"fields": fields}
    )


def log_broken_call(remote: str | None, reason: str) -> None:
    """Log a call that is not valid HTTP, or whose body does not match its head.

    Args:
        remote: The caller's address.
        reason: The parser's error. Only its beginning is logged, because the rest quotes the request, also its token.
    """
    first_line = _clip(reason.partition("\n")[0].partition(": b")[0].rstrip(":"))
    _decisions.warning("turned down: The call breaks HTTP: %s", first_line, extra={"fields": {"remote": remote}})


def log_closed_connections(address: str, reason: str, number: int) -> None:
    """Log that a limit closed connections.

    Args:
        address: The address of the last one.
        reason: The limit that closed it, as in the metric `gpu_admission_connections_closed_total`.
        number: The number of connections closed since the last line.
    """
    fields = {"remote": address, "reason": reason, "connections": number}
    _decisions.warning("closed a connection beyond a limit", extra={"fields": fields})


def _subject(entry: Entry, request: Request) -> dict[str, Any]:
    return {
        "uid": _clip(request.uid),
        "webhook": entry.name,
        "operation": request.operation,
        "kind": _clip(f"{request.kind}.{request.group}" if request.group else request.kind),
        "namespace": _clip(request.namespace),
        "name": _clip(name_in(request)),
    }


def _clip(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
