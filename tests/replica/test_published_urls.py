"""Webhook configurations of a service that API servers call by URL."""

import base64

import pytest

from webhook.cluster.resources import RESOURCES
from webhook.controllers.ca_bundles import CABundles

KIND = "MutatingWebhookConfiguration"
BUNDLE = b"an authority"


def bundles(client, url):
    return CABundles(client, [(KIND, "mine")], url)


@pytest.fixture
async def configured(sandbox, client_of):
    """Store a configuration with these client configurations; publish for a URL, and give what is stored then."""
    client = await client_of()

    async def publish(*clients, url):
        webhooks = [
            {
                "name": f"w{number}.example.com",
                "clientConfig": configured,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            for number, configured in enumerate(clients)
        ]
        metadata = {"name": "mine"}
        resource = RESOURCES[KIND]
        document = {"apiVersion": resource.api_version, "kind": KIND, "metadata": metadata, "webhooks": webhooks}
        await client.post(resource.path(), document)
        publisher = bundles(client, url)
        (configuration,) = await publisher.read()
        await publisher.publish(configuration, BUNDLE)
        return [webhook["clientConfig"] for webhook in sandbox.get(KIND, "mine")["webhooks"]]

    return publish


PUBLISHED = base64.b64encode(BUNDLE).decode()


async def test_service_gives_way_to_the_url_with_its_path(configured):
    service = {"service": {"namespace": "a", "name": "b", "path": "/convert-pods"}}
    (client,) = await configured(service, url="https://10.0.0.7:9443")
    assert client == {"url": "https://10.0.0.7:9443/convert-pods", "caBundle": PUBLISHED}


async def test_service_without_a_path_is_called_at_the_root(configured):
    (client,) = await configured({"service": {"namespace": "a", "name": "b"}}, url="https://localhost:8443")
    assert client["url"] == "https://localhost:8443/"


async def test_url_of_another_host_is_replaced(configured):
    (client,) = await configured({"url": "https://other:1/nodes"}, url="https://localhost:8443")
    assert client == {"url": "https://localhost:8443/nodes", "caBundle": PUBLISHED}


async def test_right_url_gets_only_the_bundle(configured):
    clients = {"url": "https://localhost:8443/nodes"}, {"url": "https://localhost:8443/claims", "caBundle": PUBLISHED}
    assert await configured(*clients, url="https://localhost:8443") == [
        {"url": "https://localhost:8443/nodes", "caBundle": PUBLISHED},
        {"url": "https://localhost:8443/claims", "caBundle": PUBLISHED},
    ]
