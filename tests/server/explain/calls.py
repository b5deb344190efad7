"""Calls for explanations, and a cluster that is slow to answer them."""

import json

PATH = "/v1/explain"


async def ask(client, question, query=""):
    return await client.post(PATH + query, json.dumps(question).encode())


def plain(answer, status):
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.text.endswith("\n")
    return answer.text[:-1]


def answered(answer):
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    return json.loads(answer.text)


CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "gpu", "namespace": "team-a"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}
