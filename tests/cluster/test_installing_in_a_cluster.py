"""What deploy/ installs, as an API server takes it."""

import pytest

from testbed import deploy
from testbed.kubectl import difference

INSTALLED = {f"{document['kind']} {document['metadata']['name']}": document for document in deploy.all_objects()}


@pytest.mark.parametrize("what", INSTALLED)
def test_manifest_is_taken_without_a_warning(real, what):
    """Unknown fields and wrong values would be refused, and deprecated ones warned about."""
    answer = real.create(INSTALLED[what], dry_run=True)
    assert answer.accepted or answer.body["reason"] == "AlreadyExists", answer.message
    assert answer.warnings == ()


@pytest.mark.parametrize(
    "what", sorted(f"{each['kind']} {each['metadata']['name']}" for each in deploy.objects_outside())
)
def test_manifest_that_is_applied_again_changes_nothing(real, what):
    """GitOps tools see no difference where there is none: every field is written as the API server stores it."""
    document = INSTALLED[what]
    namespace = document["metadata"].get("namespace", "")
    stored = real.get(document["kind"], document["metadata"]["name"], namespace).object
    if "webhooks" in document:
        document = {**document, "webhooks": [without_client(webhook) for webhook in document["webhooks"]]}
    assert difference(stored, document) == {}


def without_client(webhook):
    """The service outside of the cluster has another address."""
    return {field: value for field, value in webhook.items() if field != "clientConfig"}
