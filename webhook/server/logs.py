"""Logs: one line of JSON for each event, and no event that can pass for two."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from policies.kubernetes.objects import name_of, namespace_of
from webhook.cluster.errors import ClusterError
from webhook.server.admission_review import name_in
from webhook.server.explain_question import NamedObject
from webhook.server.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from policies.entries import Entry
    from policies.request import Request
    from webhook.server.explain_question import PostedObject

__all__ = [
    "JSONFormatter",
    "configure",
    "log_broken_call",
    "log_closed_connections",
    "log_crash",
    "log_decision",
    "log_explanation",
    "log_failure",
    "log_refusal",
    "log_refused_template",
    "log_uncharged",
    "log_unknown_caller",
]

_LONGEST_VALUE = 512
"""Characters of one value that a caller chose; a Kubernetes name has at most 253."""
_MOST_RULES = 50

_decisions = logging.getLogger("gpu_admission.decisions")


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


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Make every logger of the process write lines of JSON, to stderr if nothing else is said."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


def log_decision(
    entry: Entry, request: Request, verdict: str, rules: Sequence[str], seconds: float, *, failure: str = ""
) -> None:
    """Log how a review ended; what was reviewed only where the level is debug, and redacted there.

    Args:
        entry: The webhook entry that was called.
        request: What it was asked.
        verdict: What it answered.
        rules: The ids of the rules that found something.
        seconds: How long it took.
        failure: The id of the failure that prevented a decision.
    """
    fields: dict[str, Any] = {
        **_subject(entry, request),
        "user": _clipped(request.user.username),
        "verdict": verdict,
        "rules": list(dict.fromkeys(rules))[:_MOST_RULES],
        "milliseconds": round(seconds * 1000, 3),
        "dry_run": request.dry_run,
    }
    if failure:
        fields["failure"] = failure
    _decisions.info("reviewed", extra={"fields": fields})
    if _decisions.isEnabledFor(logging.DEBUG):
        bodies = {"object": redacted(request.object), "old_object": redacted(request.old_object)}
        _decisions.debug("object of the review", extra={"fields": {"uid": _clipped(request.uid), **bodies}})


def log_failure(entry: Entry, request: Request, what: str, identifier: str, error: Exception | None) -> None:
    """Log why there is no decision, under the id that the answer names.

    Args:
        entry: The webhook entry that was called.
        request: What it was asked.
        what: What happened to it, after "it": `failed`, `ran out of time`.
        identifier: The failure's id.
        error: What was raised, with its trace if that is a mistake of ours; None when time ran out.
    """
    fields = {"failure": identifier, **_subject(entry, request)}
    if isinstance(error, ClusterError):
        _decisions.error(
            "no decision: the webhook %s; the API server: %s", what, _clipped(str(error)), extra={"fields": fields}
        )
    else:
        _decisions.error("no decision: the webhook %s", what, extra={"fields": fields}, exc_info=error)


def log_refused_template(entry: Entry, request: Request, template: str, reason: str) -> None:
    """Log that the API server refuses the template of a pod, and with it the pod.

    Args:
        entry: The webhook entry that was called.
        request: What it was asked.
        template: The template's name.
        reason: What the API server said.
    """
    fields = {**_subject(entry, request), "template": template}
    _decisions.warning("no template, and so no pod: %s", _clipped(reason), extra={"fields": fields})


def log_uncharged(entry: Entry, request: Request, reason: str) -> None:
    """Log why something could not be charged to its namespace's quota.

    Args:
        entry: The webhook entry that was called.
        request: What it was asked.
        reason: What the API server said, or what is wrong with the quota.
    """
    _decisions.warning("not charged: %s", _clipped(reason), extra={"fields": _subject(entry, request)})


def log_explanation(caller: str, asked: PostedObject | NamedObject, verdicts: Sequence[str], seconds: float) -> None:
    """Log who was explained what; the object itself is not logged.

    Args:
        caller: The name of the user, or of the client's certificate.
        asked: The question.
        verdicts: What the explanations come to.
        seconds: How long it took.
    """
    fields: dict[str, Any] = {
        "user": _clipped(caller),
        **_asked(asked),
        "verdicts": list(verdicts),
        "milliseconds": round(seconds * 1000, 3),
    }
    _decisions.info("explained", extra={"fields": fields})


def log_crash(path: str, identifier: str, error: Exception) -> None:
    """Log an error outside of any review, under the id that the answer names."""
    _decisions.error("a call failed", extra={"fields": {"failure": identifier, "path": _clipped(path)}}, exc_info=error)


def log_refusal(path: str, remote: str | None, status: int, sentence: str) -> None:
    """Log a call that was turned down before there was anything to review."""
    fields = {"path": _clipped(path), "remote": remote, "status": status}
    _decisions.warning("turned down: %s", sentence, extra={"fields": fields})


def log_unknown_caller(remote: str | None, error: Exception) -> None:
    """Log why nobody knows who asks for an explanation, or whether they may have it; the caller is not told that much.

    Args:
        remote: The caller's address.
        error: What the API server said, or why it did not say anything.
    """
    fields = {"remote": remote}
    _decisions.warning(
        "the API server was asked about a caller in vain: %s", _clipped(str(error)), extra={"fields": fields}
    )


def log_broken_call(remote: str | None, reason: str) -> None:
    """Log a call that is no HTTP, or whose body is not framed as its head says.

    Args:
        remote: The caller's address.
        reason: What the reader of HTTP says; of it the first line, because the rest quotes what was sent.
    """
    first_line = _clipped(reason.partition("\n")[0].rstrip(":"))
    _decisions.warning("turned down: The call breaks HTTP: %s", first_line, extra={"fields": {"remote": remote}})


def log_closed_connections(address: str, reason: str, number: int) -> None:
    """Log that a limit closed connections.

    Args:
        address: Where the last of them came from.
        reason: Which limit closed it, as the metric `gpu_admission_connections_closed_total` names it.
        number: How many were closed since the last line.
    """
    fields = {"remote": address, "reason": reason, "connections": number}
    _decisions.warning("closed a connection beyond a limit", extra={"fields": fields})


def _subject(entry: Entry, request: Request) -> dict[str, Any]:
    return {
        "uid": _clipped(request.uid),
        "webhook": entry.name,
        "operation": request.operation,
        "kind": _clipped(f"{request.kind}.{request.group}" if request.group else request.kind),
        "namespace": _clipped(request.namespace),
        "name": _clipped(name_in(request)),
    }


def _asked(asked: PostedObject | NamedObject) -> dict[str, str]:
    if isinstance(asked, NamedObject):
        kind, name, namespace = asked.kind.name, asked.name, asked.namespace
    else:
        kind, name = asked.object["kind"], name_of(asked.object)
        namespace = namespace_of(asked.object) or asked.namespace
    return {"kind": _clipped(kind), "namespace": _clipped(namespace), "name": _clipped(name)}


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"
