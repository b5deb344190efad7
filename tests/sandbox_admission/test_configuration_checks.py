"""Webhook configurations that the API server refuses."""

import pytest

from policies.cel import NO_AUTHORIZER


def configuration(**changed):
    webhook = {
        "name": "a.gpu-admission.io",
        "clientConfig": {"url": "https://localhost/a"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changed,
    }
    return {"kind": "MutatingWebhookConfiguration", "metadata": {"name": "m"}, "webhooks": [webhook]}


async def test_a_configuration_in_order_is_stored(validate, attempt):
    await validate(attempt(configuration()))


async def test_a_configuration_that_is_deleted_is_not_checked(validate, attempt):
    await validate(attempt(None, "DELETE", old=configuration(name="")))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": ""}, "webhooks[0].name: Required value"),
        (
            {"name": "a.b"},
            'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots',
        ),
        ({"sideEffects": None}, "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        (
            {"sideEffects": "Some"},
            'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
        ),
        (
            {"admissionReviewVersions": []},
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ),
        (
            {"timeoutSeconds": 31},
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ),
        (
            {"timeoutSeconds": "5"},
            'webhooks[0].timeoutSeconds: Invalid value: "5": the timeout value must be between 1 and 30 seconds',
        ),
        (
            {"failurePolicy": "Maybe"},
            'webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
        ),
        (
            {"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"]}]},
            "webhooks[0].rules[0].resources: Required value",
        ),
        (
            {"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["FOO"], "resources": ["pods"]}]},
            (
                'webhooks[0].rules[0].operations[0]: Unsupported value: "FOO": supported values: "*", "CONNECT", "CREATE",'
                ' "DELETE", "UPDATE"'
            ),
        ),
        (
            {"clientConfig": {"url": "http://x/y"}},
            (
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired"
                " format: https://host[/path]"
            ),
        ),
        (
            {"clientConfig": {"url": "https:///x"}},
            (
                'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format:'
                " https://host[/path]"
            ),
        ),
        (
            {"clientConfig": {"url": "https://x/y?a=b"}},
            'webhooks[0].clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL',
        ),
        (
            {"clientConfig": {"url": "https://x/y#c"}},
            'webhooks[0].clientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
        ),
        (
            {"clientConfig": {"url": "https://u@x/y"}},
            'webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
        ),
        ({"clientConfig": {}}, "webhooks[0].clientConfig: Required value: exactly one of url or service is required"),
        (
            {"clientConfig": {"service": {"name": "s"}}},
            "webhooks[0].clientConfig.service.namespace: Required value",
        ),
        (
            {"matchConditions": [{"name": "a"}]},
            "webhooks[0].matchConditions[0].expression: Required value",
        ),
    ],
)
async def test_a_webhook_that_could_not_be_called_is_refused(validate, attempt, refusal, changed, message):
    status = await refusal(validate(attempt(configuration(**changed))))
    named = "MutatingWebhookConfiguration.admissionregistration.k8s.io"
    assert (status["code"], status["message"]) == (422, f'{named} "m" is invalid: {message}')


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param(
            "foo == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^",
            id="unknown name",
        ),
        pytest.param(
            "cel.bind(a, 1, a == 1)",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'cel' (in container '')"
            "\n | cel.bind(a, 1, a == 1)\n | ^",
            id="bind",
        ),
        pytest.param("object.spec", "must evaluate to bool but got dyn", id="dyn"),
        pytest.param("1", "must evaluate to bool but got int", id="int"),
        pytest.param(
            'request.nmae == "a"',
            "compilation failed: ERROR: <input>:1:8: undefined field 'nmae'\n | request.nmae == \"a\"\n | .......^",
            id="unknown field",
        ),
        pytest.param(
            'authorizer.group("x").resource("y").check("z").allowed()',
            NO_AUTHORIZER,
            id="authorizer",
        ),
    ],
)
async def test_a_condition_that_does_not_compile_is_refused_when_it_is_written(
    validate, attempt, refusal, expression, why
):
    conditions = [{"name": "a", "expression": "true"}, {"name": "b", "expression": expression}]
    status = await refusal(validate(attempt(configuration(matchConditions=conditions))))
    quoted = expression.replace('"', '\\"')
    cause = f'Invalid value: "{quoted}": {why}'
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert status["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": cause, "field": "webhooks[0].matchConditions[1].expression"}
    ]
