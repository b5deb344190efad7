"""One replica beside an API server: answers for pods, writes, and probes."""

import asyncio
import base64
from datetime import UTC, datetime

import pytest

from certs import KeyPairFiles, issue_serving, make_authority
from tests.sandbox.faults import failing
from webhook.cluster.answers import APIError
from webhook.cluster.resources import RESOURCES
from webhook.server.caller_limits import Callers
from webhook.server.config import CannotServe

POD, LEASE, POLICY = RESOURCES["Pod"], RESOURCES["Lease"], RESOURCES["GPUAdmissionPolicy"]
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


async def test_pod_is_converted_and_its_template_exists(start, sandbox, client_of, gpu_pod):
    await start()
    stored = await (await client_of("alice")).post(POD.path("team-a"), gpu_pod())
    (claim,) = stored["spec"]["resourceClaims"]
    assert "nvidia.com/gpu" not in stored["spec"]["containers"][0]["resources"].get("limits", {})
    assert sandbox.get("ResourceClaimTemplate", claim["resourceClaimTemplateName"], "team-a") is not None


async def test_pod_that_is_refused_leaves_nothing(start, sandbox, client_of, gpu_pod):
    await start()
    pod = gpu_pod()
    pod["spec"]["nodeSelector"] = {"nvidia.com/gpu.count": "8"}
    with pytest.raises(APIError) as refused:
        await (await client_of("alice")).post(POD.path("team-a"), pod)
    assert refused.value.message.startswith('admission webhook "convert-pods.gpu-admission.io" denied the request: ')
    assert sandbox.objects("Pod", "team-a") == sandbox.objects("ResourceClaimTemplate") == []


async def test_url_and_authority_are_written_into_the_configurations(start, sandbox):
    running = await start()
    for kind in CONFIGURATIONS:
        for webhook in sandbox.get(kind, "gpu-admission")["webhooks"]:
            entry = webhook["name"].removesuffix(".gpu-admission.io")
            assert set(webhook["clientConfig"]) == {"url", "caBundle"}
            assert webhook["clientConfig"]["url"] == f"https://localhost:{running.ready.port}/{entry}"


async def test_service_stays_in_the_configurations_where_there_is_no_url(start, sandbox):
    await start(url="")
    for kind in CONFIGURATIONS:
        for webhook in sandbox.get(kind, "gpu-admission")["webhooks"]:
            entry = webhook["name"].removesuffix(".gpu-admission.io")
            service = {"namespace": "gpu-admission", "name": "gpu-admission", "path": f"/{entry}", "port": 443}
            assert webhook["clientConfig"]["service"] == service
            assert webhook["clientConfig"]["caBundle"]


async def test_certificate_is_for_the_service(start, sandbox):
    running = await start(url="")
    pair = running.replica._certificate._certificates._reloading.pair
    assert pair.names == ("gpu-admission.gpu-admission.svc",)


async def test_log_says_once_what_callers_can_do_who_are_not_authenticated(start, caplog):
    running = await start()
    (note,) = Callers().notes()
    assert note in (await running.readiness())["notes"]
    assert caplog.messages.count(note) == 1


async def test_missing_configurations_are_noted(start, sandbox):
    for kind in CONFIGURATIONS:
        sandbox.remove(kind, "gpu-admission")
    running = await start()
    notes = (await running.readiness())["notes"]
    assert [note for note in notes if "there is no" in note] == [
        f"there is no {kind} gpu-admission, so API servers call none of its webhooks" for kind in CONFIGURATIONS
    ]


async def test_replica_is_not_ready_while_the_cluster_cannot_be_read(make, sandbox, until):
    broken = sandbox.faults.add(failing(), path="/api/v1/nodes")
    replica = await make()
    starting = asyncio.create_task(replica.start())
    reasons = await until(
        replica._listeners._readiness.reasons, lambda reported: any("nodes" in reason for reason in reported)
    )
    assert reasons[0] == "the server is starting"
    assert not starting.done()
    sandbox.faults.remove(broken)
    await starting


async def test_api_servers_get_the_url_once_calls_are_answered(make, sandbox):
    phases = []

    async def note(request, handler):
        phases.append(replica._listeners._readiness.phase)
        return await handler(request)

    sandbox.faults.add(note, verb="PATCH", path="/apis/admissionregistration.k8s.io/*")
    replica = await make()
    await replica.start()
    assert phases == ["serving"] * len(CONFIGURATIONS)


async def test_lease_is_given_back_when_the_replica_drains(start, sandbox, until):
    # One that was given back before: it has to stand for a second only.
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
    metadata = {"name": "gpu-admission", "namespace": "gpu-admission"}
    sandbox.create({"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec})
    running = await start(host_name="gpu-admission-7d4b9-x2x4z")

    def holder():
        return sandbox.get("Lease", "gpu-admission", "gpu-admission")["spec"]["holderIdentity"]

    assert (await until(holder, bool)).startswith("gpu-admission-7d4b9-x2x4z_")
    await running.replica.drain(asyncio.Event())
    assert holder() == ""


async def test_leader_makes_a_missing_template_again(start, sandbox, client_of, gpu_pod, until):
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
    metadata = {"name": "gpu-admission", "namespace": "gpu-admission"}
    sandbox.create({"apiVersion": LEASE.api_version, "kind": "Lease", "metadata": metadata, "spec": spec})
    first = await start()
    await (await client_of("alice")).post(POD.path("team-a"), gpu_pod())
    await first.replica.close()
    (template,) = sandbox.objects("ResourceClaimTemplate")
    sandbox.remove("ResourceClaimTemplate", template["metadata"]["name"], "team-a")
    await start()
    (repaired,) = await until(lambda: sandbox.objects("ResourceClaimTemplate"), bool)
    assert repaired["spec"] == template["spec"]


async def test_settings_hold_without_a_restart(start, client_of, gpu_pod, until):
    await start()
    client = await client_of("admin")
    document = {
        "apiVersion": POLICY.api_version,
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"exemptions": [{"from": ["conversion"], "users": ["alice"]}]},
    }
    await client.post(POLICY.path(), document)
    alice = await client_of("alice")

    async def is_converted():
        stored = await alice.post(POD.path("team-a"), gpu_pod(), {"dryRun": "All"})
        return "resourceClaims" in stored["spec"]

    await until(is_converted, lambda converted: not converted)


async def test_namespaces_of_the_operator_are_watched_when_settings_name_them(start, client_of, sandbox, until):
    running = await start()
    client = await client_of("admin")
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nvidia"}})
    metadata = {"name": "plugin", "namespace": "nvidia"}
    sandbox.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"any": "version: v1"}})
    document = {
        "apiVersion": POLICY.api_version,
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"configuration": {"operatorNamespaces": ["nvidia"]}},
    }
    await client.post(POLICY.path(), document)
    view = running.replica._sync.view
    await until(lambda: view.get("ConfigMap", "plugin", "nvidia"), lambda found: isinstance(found, dict))


@pytest.fixture
def files(tmp_path):
    """Files with a certificate for the Service, and the authority that issued it."""
    authority = make_authority("cert-manager", now=datetime.now(UTC))
    pair = issue_serving(authority, ["gpu-admission.gpu-admission.svc"], now=datetime.now(UTC))
    files = KeyPairFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    files.certificate.write_bytes(pair.certificate_pem)
    files.key.write_bytes(pair.key_pem)
    return files, authority.certificate_pem


async def test_replica_with_files_is_ready_when_their_authority_is_published(make, files, sandbox, until):
    replica = await make(url="", certificate=files[0])
    await replica.start()
    readiness = replica._listeners._readiness
    (reason,) = await until(readiness.reasons, lambda reported: any("does not verify" in reason for reason in reported))
    assert reason.startswith(
        "the caBundle of webhook convert-pods.gpu-admission.io in MutatingWebhookConfiguration gpu-"
    )
    assert sandbox.objects("Secret", "gpu-admission") == []
    for kind in CONFIGURATIONS:
        configuration = sandbox.get(kind, "gpu-admission")
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = base64.b64encode(files[1]).decode()
        sandbox.replace(configuration)
    await replica._certificate.look()
    assert readiness.reasons() == []


async def test_files_that_hold_nothing_are_reported_at_once(make, tmp_path):
    with pytest.raises(CannotServe):
        await make(certificate=KeyPairFiles(tmp_path / "tls.crt", tmp_path / "tls.key"))
