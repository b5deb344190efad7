"""Users and their rights in an API server, and calls with a token."""

import json
from contextlib import asynccontextmanager

from webhook.cluster.caller_reviews import SubjectAccess, TokenAuthenticator
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.server.explain_gate import DelegatedGate

PATH = "/v1/explain"


ACCOUNT = "system:serviceaccount:team-a:dashboard"


OURS = "system:serviceaccount:gpu-admission:gpu-admission"


QUESTION = {
    "object": {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    }
}


TOKENS, ACCESS = "*/tokenreviews", "*/subjectaccessreviews"


class Rights:
    """What the sandbox's authorizer grants, and what it was asked."""

    def __init__(self):
        self.names = {ACCOUNT}
        """The users who may `post` to /v1/explain."""
        self.members = set()
        """The users who may get explanations, each with a namespace."""
        self.node_viewers = set()
        self.asked = []

    def __call__(self, spec):
        self.asked.append(spec)
        match spec:
            case {"nonResourceAttributes": {"path": "/v1/explain", "verb": "post"}}:
                return spec["user"] in self.names
            case {"resourceAttributes": {"group": "gpu-admission.io", "resource": "gpuexplanations", "verb": "get"}}:
                return (spec["user"], spec["resourceAttributes"]["namespace"]) in self.members
            case {"resourceAttributes": {"resource": "nodes", "verb": "list"}}:
                return spec["user"] in self.node_viewers
        return False


class Clock:
    """A clock that stands until it is moved on; and a rest that takes no time."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


async def ask(client, token=None, query="", **headers):
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    return await client.post(PATH + query, json.dumps(QUESTION).encode(), headers=headers)


def refused(answer):
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    return answer.status, answer.text


@asynccontextmanager
async def delegated_gate(kubeconfig, clock):
    """The gate of a replica with this kubeconfig file."""
    client = await APIClient.connect(str(kubeconfig))
    clockwork = Clockwork(clock=clock)
    yield DelegatedGate(TokenAuthenticator(client, clockwork=clockwork), SubjectAccess(client, clockwork=clockwork))
    await client.close()
