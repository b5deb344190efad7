"""Secrets, as in Kubernetes 1.36.2."""

import pytest

SECRETS = "/api/v1/namespaces/default/secrets"
TLS = {"type": "kubernetes.io/tls", "data": {"tls.crt": "YQ==", "tls.key": "YQ=="}}


def secret(**more):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **more}


async def test_texts_become_data_and_the_type_is_opaque(api):
    body = (await api.post(SECRETS, secret(stringData={"a": "b"}))).body
    assert (body["type"], body["data"], "stringData" in body) == ("Opaque", {"a": "Yg=="}, False)


async def test_texts_are_added_to_data(api):
    await api.post(SECRETS, secret(stringData={"a": "b"}))
    assert (await api.merge(f"{SECRETS}/s", {"stringData": {"c": "d"}})).body["data"] == {"a": "Yg==", "c": "ZA=="}


async def test_type_stays(api):
    await api.post(SECRETS, secret(**TLS))
    answer = await api.merge(f"{SECRETS}/s", {"type": "Opaque"})
    assert answer.message == 'Secret "s" is invalid: type: Invalid value: "Opaque": field is immutable'


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key"])
async def test_certificate_needs_both_parts(api, missing):
    data = {key: value for key, value in TLS["data"].items() if key != missing}
    answer = await api.post(SECRETS, secret(**{**TLS, "data": data}))
    assert answer.message == f'Secret "s" is invalid: data[{missing}]: Required value'


async def test_data_that_is_no_base64_is_refused(api):
    assert (await api.post(SECRETS, secret(data={"a": "!!!"}))).code == 422
