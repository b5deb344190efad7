"""Writes for which a webhook is called: rules and selectors."""

import pytest

from webhook.cluster.resources import RESOURCES

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {}}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new", "labels": {"team": "a"}}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": "team-a"}}


def rule(resources=("pods",), operations=("CREATE",), groups=("",), versions=("v1",), **more):
    written = {"apiGroups": groups, "apiVersions": versions, "operations": operations, "resources": resources}
    return {key: list(value) for key, value in written.items()} | more


@pytest.mark.parametrize(
    ("rules", "subresource", "asked"),
    [
        pytest.param(rule(), "", True, id="exactly"),
        pytest.param(rule(resources=["*"]), "", True, id="all resources"),
        pytest.param(rule(resources=["nodes"]), "", False, id="another resource"),
        pytest.param(rule(), "binding", False, id="a resource is not its subresources"),
        pytest.param(rule(resources=["*"]), "binding", False, id="all resources are not their subresources"),
        pytest.param(rule(resources=["pods/*"]), "binding", True, id="all subresources"),
        pytest.param(rule(resources=["pods/*"]), "", True, id="all subresources and the resource"),
        pytest.param(rule(resources=["*/binding"]), "binding", True, id="one subresource of all"),
        pytest.param(rule(resources=["*/*"]), "binding", True, id="everything"),
        pytest.param(rule(operations=["UPDATE"]), "", False, id="another operation"),
        pytest.param(rule(operations=["*"]), "", True, id="all operations"),
        pytest.param(rule(groups=["apps"]), "", False, id="another group"),
        pytest.param(rule(groups=["*"], versions=["*"]), "", True, id="all groups and versions"),
        pytest.param(rule(versions=["v1beta1"]), "", False, id="another version"),
        pytest.param(rule(scope="Cluster"), "", False, id="another scope"),
        pytest.param(rule(scope="Namespaced"), "", True, id="the right scope"),
    ],
)
async def test_a_rule_takes_writes_in(validating, validate, attempt, pod, server, rules, subresource, asked):
    validating("a", rules=[rules])
    await validate(attempt(pod(), subresource=subresource))
    assert server.paths() == (["/a"] if asked else [])


async def test_a_namespace_is_cluster_scoped(validating, validate, attempt, server):
    validating("a", rules=[rule(resources=["namespaces"], scope="Cluster")])
    validating("b", rules=[rule(resources=["namespaces"], scope="Namespaced")])
    await validate(attempt(NAMESPACE))
    assert server.paths() == ["/a"]


@pytest.mark.parametrize(
    ("selector", "asked"),
    [
        pytest.param({"matchLabels": {"team": "a"}}, True, id="label"),
        pytest.param({"matchLabels": {"team": "b"}}, False, id="another value"),
        pytest.param({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True, id="exists"),
        pytest.param({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False, id="does not exist"),
        pytest.param({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]}, True, id="in"),
        pytest.param({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False, id="not in"),
        pytest.param({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a"]}]}, True, id="absent"),
    ],
)
async def test_the_namespace_of_an_object_is_selected_by_labels(
    validating, validate, attempt, pod, server, selector, asked
):
    validating("a", namespaceSelector=selector)
    await validate(attempt(pod(namespace="team-a")))
    assert server.paths() == (["/a"] if asked else [])


async def test_a_cluster_scoped_object_is_never_kept_away_by_namespaces(validating, validate, attempt, server):
    validating("a", rules=[rule(resources=["nodes"])], namespaceSelector={"matchLabels": {"team": "none"}})
    await validate(attempt(NODE))
    assert server.paths() == ["/a"]


async def test_a_namespace_is_selected_by_the_labels_that_it_is_to_have(validating, validate, attempt, server):
    validating(
        "a", rules=[rule(["namespaces"], ["CREATE", "UPDATE"])], namespaceSelector={"matchLabels": {"team": "a"}}
    )
    without = {**NAMESPACE, "metadata": {"name": "new"}}
    await validate(attempt(NAMESPACE))
    await validate(attempt(without, "UPDATE", old=NAMESPACE))
    assert server.paths() == ["/a"]


async def test_a_namespace_that_does_not_exist_is_not_found(validating, validate, attempt, pod, refusal):
    validating("a", namespaceSelector={"matchLabels": {"team": "a"}})
    status = await refusal(validate(attempt(pod(namespace="nowhere"))))
    assert (status["code"], status["message"]) == (404, 'namespaces "nowhere" not found')


@pytest.mark.parametrize("labelled", ["object", "old"])
async def test_the_object_is_selected_by_what_it_is_or_was(validating, validate, attempt, pod, server, labelled):
    validating("a", rules=[rule(operations=["UPDATE"])], objectSelector={"matchLabels": {"gpu": "yes"}})
    with_label, without = pod(labels={"gpu": "yes"}), pod()
    new, old = (with_label, without) if labelled == "object" else (without, with_label)
    await validate(attempt(new, "UPDATE", old=old))
    assert server.paths() == ["/a"]


async def test_an_object_without_the_label_is_not_selected(validating, validate, attempt, pod, server):
    validating("a", objectSelector={"matchLabels": {"gpu": "yes"}})
    await validate(attempt(pod()))
    assert server.paths() == []


async def test_an_operator_that_does_not_exist_is_an_internal_error(validating, validate, attempt, pod, refusal):
    validating("a", objectSelector={"matchExpressions": [{"key": "a", "operator": "Gt"}]})
    status = await refusal(validate(attempt(pod())))
    assert status["message"] == 'Internal error occurred: "Gt" is not a valid label selector operator'


async def test_a_review_of_a_subresource_has_the_kind_that_was_sent(validating, validate, attempt, server):
    validating("a", rules=[rule(["pods/binding"])])
    await validate(attempt(BINDING, subresource="binding", resource=RESOURCES["Pod"]))
    request = server.calls[0].request
    assert (request["kind"]["kind"], request["resource"]["resource"], request["subResource"]) == (
        "Binding",
        "pods",
        "binding",
    )
