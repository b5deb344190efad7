"""Any body gets the answer to a valid review, or a plain sentence."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.admission.webhooks import ENTRIES

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
# Likely enough to be nearly right that the mistakes are found deeper inside.
RESOURCES = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "cpu"]), ANY_JSON, max_size=3)
CONTAINER = st.fixed_dictionaries(
    {"name": st.text(max_size=5) | ANY_JSON},
    optional={"resources": st.fixed_dictionaries({}, optional={"limits": RESOURCES, "requests": RESOURCES}) | ANY_JSON},
)
POD = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Pod")},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": ANY_JSON, "annotations": ANY_JSON}) | ANY_JSON,
        "spec": st.fixed_dictionaries({"containers": st.lists(CONTAINER, max_size=3)}) | ANY_JSON,
    },
)
QUESTION = st.fixed_dictionaries(
    {"uid": st.text(max_size=40), "kind": st.just({"group": "", "version": "v1", "kind": "Pod"})},
    optional={
        "operation": st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"]) | ANY_JSON,
        "object": POD | ANY_JSON,
        "oldObject": POD | ANY_JSON,
        "name": st.text() | ANY_JSON,
        "namespace": st.sampled_from(["team-a", "nowhere"]) | ANY_JSON,
        "userInfo": ANY_JSON,
        "dryRun": st.booleans() | ANY_JSON,
    },
)
BODY = st.one_of(
    st.binary(max_size=200),
    ANY_JSON.map(lambda value: json.dumps(value).encode()),
    QUESTION.map(
        lambda question: json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question}
        ).encode()
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(body=BODY, entry=st.sampled_from(sorted(ENTRIES)))
async def test_any_body_gets_a_review_or_a_sentence(webhook, body, entry):
    answer = await webhook.client.post(f"/{entry}", body)
    if answer.status != 200:
        assert answer.status == 400
        assert answer.text.startswith("The ")
        assert answer.text.endswith(".\n")
        assert len(answer.text) < 400
        return
    response = answer.response
    assert response["uid"] == json.loads(body)["request"]["uid"]
    assert isinstance(response["allowed"], bool)
    assert ("patch" in response) == ("patchType" in response)
    assert response["allowed"] or (response["status"]["code"] >= 400 and response["status"]["message"])
    assert not (response.keys() - {"uid", "allowed", "status", "patch", "patchType", "warnings", "auditAnnotations"})
    assert all(len(warning) <= 120 and warning.isprintable() for warning in response.get("warnings", []))
