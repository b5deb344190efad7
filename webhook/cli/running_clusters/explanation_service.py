"""Explanations by the Service of gpu-admission, for users who may not read the whole cluster."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from policies.explanation import Explanation
from policies.json_documents import parse_document
from webhook.cluster.client import NoTokenError
from webhook.replica.config import EXPLAIN_SERVICE, EXPLAIN_SERVICE_ROLE, NAMESPACE
from webhook.server.config import EXPLAIN_PORT
from webhook.server.deadlines import LONGEST_SECONDS
from webhook.server.explain_calls import namespaced_path
from webhook.server.explain_gate import HEADER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from webhook.cluster.answers import ServiceAnswer
    from webhook.cluster.client import APIClient

__all__ = ["PROXY", "ServiceRefusal", "ask_service"]

_MOST_RETRIES = 20
"""Of one question, while the rate is limited."""
_DEFAULT_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the next try, without Retry-After and at most."""
PROXY = f"/api/v1/namespaces/{NAMESPACE}/services/https:{EXPLAIN_SERVICE}:https/proxy"
"""The path of the Service in the API server."""
_SERVICE = f"the Service {EXPLAIN_SERVICE} in namespace {NAMESPACE}"
_NO_TOKEN = (
    f"{_SERVICE} identifies users by bearer tokens, and these credentials are a client certificate or none; use a context "
    "with a token, for example of a service account: kubectl config set-credentials explain "
    "--token=$(kubectl create token NAME -n NAMESPACE)"
)


class ServiceRefusal(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """The service gives no explanation. Its text says why and what to do, without a full stop."""


async def ask_service(
    client: APIClient,
    question: dict[str, Any],
    namespace: str,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Explanation]:
    """The explanations of a question as `/v1/explain` takes it, about an object of a namespace.

    If the service limits the rate, waits as long as it says and asks again.

    Raises:
        ServiceRefusal: There is no explanation.
        Unreachable: The API server did not answer.
    """
    answer = await _ask_once(client, question, namespace)
    for _ in range(_MOST_RETRIES):
        if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
            break
        await sleep(min(answer.retry_after or _DEFAULT_PAUSE, _LONGEST_PAUSE))
        answer = await _ask_once(client, question, namespace)
    if answer.status != HTTPStatus.OK:
        raise ServiceRefusal(_refusal(answer))
    try:
        explanations: list[Explanation] = parse_document(json.loads(answer.body), list[Explanation])
    except ValueError as error:
        sentence = (
            f"{_SERVICE} answers in a form that this version does not know ({error}); use its version of this command"
        )
        raise ServiceRefusal(sentence) from error
    return explanations


async def _ask_once(client: APIClient, question: dict[str, Any], namespace: str) -> ServiceAnswer:
    path, query = f"{PROXY}{namespaced_path(namespace)}", {"timeout": f"{LONGEST_SECONDS:g}s"}
    try:
        return await client.ask_service(path, question, query, HEADER, timeout=LONGEST_SECONDS + 5.0)
    except NoTokenError as error:
        raise ServiceRefusal(_NO_TOKEN) from error


def _refusal(answer: ServiceAnswer) -> str:
    """Why there is no explanation: a Status is from the API server, plain text from the service."""
    text = answer.body.decode(errors="replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return text[:2000].rstrip(".") or f"{_SERVICE} answers with status {answer.status}"
    message = str(status.get("message") or "")
    match answer.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return f"the API server limits the rate of requests ({message}); try again in a few minutes"
        case HTTPStatus.FORBIDDEN:
            return (
                f"you may not reach {_SERVICE} ({message}); ask an administrator for kubectl create rolebinding explain -n "
                f"{NAMESPACE} --role={EXPLAIN_SERVICE_ROLE} --group=system:authenticated"
            )
        case HTTPStatus.NOT_FOUND:
            return (
                f"{_SERVICE} does not exist; ask an administrator to install gpu-admission with deploy/install.yaml of this "
                "version"
            )
    return (
        f"the API server cannot reach {_SERVICE} ({message}); ask an administrator whether its pods are ready, and whether "
        f"a firewall or NetworkPolicy lets API servers reach port {EXPLAIN_PORT} of them"
    )
