"""An API server that presents a client certificate to webhooks, as docs/client-certificates.md has it."""

import json
import os
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import make_authority
from policies.admission.webhooks import ENTRIES
from testbed import manifests
from testbed.client_certificates import issue_client
from testbed.control_plane import ControlPlane
from testbed.real_cluster import RealCluster
from testbed.waiting import until

NAME = "kube-apiserver"
EFFECTS = [name for name, entry in ENTRIES.items() if entry.side_effects != "None"]


@pytest.fixture(scope="module")
def guarded(background, tmp_path_factory):
    """A control plane of our own, whose API server has a certificate that the service requires."""
    if "KUBEBUILDER_ASSETS" not in os.environ:
        pytest.skip("an API server has to be started with a file of its own: set KUBEBUILDER_ASSETS")
    folder = tmp_path_factory.mktemp("guarded")
    authority = make_authority("clients", now=datetime.now(UTC))
    (folder / "clients.crt").write_bytes(authority.certificate_pem)
    client = issue_client(authority, NAME, now=datetime.now(UTC))
    control_plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]), webhook_client=client)
    options = {"client_ca": folder / "clients.crt", "client_name": NAME}
    cluster = RealCluster.of_control_plane(background, control_plane, folder, **options)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


def test_calls_of_the_api_server_pass_and_have_effects(guarded):
    team = guarded.namespace(dra="enabled", quota="enforced")
    guarded.create(manifests.quota(team, 2))
    pod = until(
        lambda: (answer := guarded.create(manifests.pod(team, gpus=2))).accepted and answer.object,
        "the quota is counted, and the pod admitted",
    )
    (claim,) = pod["spec"]["resourceClaims"]
    assert guarded.get("ResourceClaimTemplate", claim["resourceClaimTemplateName"], team).accepted


def test_refusal_names_the_holders_because_the_caller_is_known(guarded):
    team = guarded.namespace(quota="enforced")
    guarded.create(manifests.quota(team, 2))
    until(lambda: guarded.create(manifests.pod(team, gpus=2)).accepted, "the quota is counted, and the pod admitted")
    until(
        lambda: f"{team}/train has held 2 for" in guarded.create(manifests.pod(team, "more", gpus=1)).message,
        "the refusal names the pod",
    )


@pytest.mark.parametrize("entry", EFFECTS)
def test_call_without_the_certificate_is_refused(guarded, entry):
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "1"}}
    request = urllib.request.Request(
        f"{guarded.service.url}/{entry}", json.dumps(review).encode(), {"Content-Type": "application/json"}
    )
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=context)
    assert refused.value.code == 403
    assert refused.value.read().decode() == (
        f"/{entry} has effects and answers only to known clients, and this one showed no certificate with a common "
        "name; give the API server a client certificate for this webhook.\n"
    )


def test_readiness_has_no_note_about_callers(guarded):
    assert not any("no client CA" in note for note in guarded.service.probe()["notes"])
