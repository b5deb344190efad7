"""Validation of pods, with the messages of Kubernetes 1.36.2."""

import pytest

PODS = "/api/v1/namespaces/default/pods"


def container(name="c", **more):
    return {"name": name, "image": "i", **more}


def using(limits=None, requests=None, claims=None):
    resources = {"limits": limits, "requests": requests, "claims": claims}
    return {"containers": [container(resources={key: value for key, value in resources.items() if value})]}


def claim(name="gpu", **source):
    return {"name": name, **(source or {"resourceClaimTemplateName": "t"})}


GPU = "nvidia.com/gpu"
RESOURCES = "spec.containers[0].resources"
NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an"
    " alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"containers": []}, "spec.containers: Required value"),
        ({"containers": [{"name": "c"}]}, "spec.containers[0].image: Required value"),
        ({"containers": [{"image": "i"}]}, "spec.containers[0].name: Required value"),
        ({"containers": [container("A_")]}, f'spec.containers[0].name: Invalid value: "A_": {NO_LABEL}'),
        ({"containers": [container(), container()]}, 'spec.containers[1].name: Duplicate value: "c"'),
        (
            {"containers": [container()], "initContainers": [container()]},
            'spec.initContainers[0].name: Duplicate value: "c"',
        ),
        (
            using(requests={GPU: 1}),
            f"{RESOURCES}.limits: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            using({GPU: 2}, {GPU: 1}),
            f'{RESOURCES}.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        (
            using({"cpu": 1}, {"cpu": 2}),
            f'{RESOURCES}.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            using(claims=[{"name": "gpu"}]),
            f'{RESOURCES}.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty',
        ),
        (
            {**using(claims=[{"name": "gpu"}]), "resourceClaims": [claim("b"), claim("c")]},
            f'{RESOURCES}.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims: b, c',
        ),
        (
            {**using(claims=[{"name": "gpu"}, {"name": "gpu"}]), "resourceClaims": [claim()]},
            f'{RESOURCES}.claims[1]: Duplicate value: "gpu"',
        ),
        (
            {"containers": [container()], "resourceClaims": [claim(), claim()]},
            'spec.resourceClaims[1].name: Duplicate value: "gpu"',
        ),
        (
            {"containers": [container()], "resourceClaims": [{"name": "gpu"}]},
            (
                'spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":null,'
                '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`'
            ),
        ),
        (
            {
                "containers": [container()],
                "resourceClaims": [claim(resourceClaimName="u", resourceClaimTemplateName="t")],
            },
            (
                'spec.resourceClaims[0]: Invalid value: {"Name":"gpu","ResourceClaimName":"u",'
                '"ResourceClaimTemplateName":"t"}: at most one of `resourceClaimName` or `resourceClaimTemplateName` may be'
                " specified"
            ),
        ),
        (
            using({GPU: "0.5"}),
            (
                f'[{RESOURCES}.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer, {RESOURCES}'
                '.requests[nvidia.com/gpu]: Invalid value: "500m": must be an integer]'
            ),
        ),
        (
            using({GPU: -1}),
            (
                f'[{RESOURCES}.limits[nvidia.com/gpu]: Invalid value: "-1": must be greater than or equal to 0, {RESOURCES}'
                '.requests[nvidia.com/gpu]: Invalid value: "-1": must be greater than or equal to 0]'
            ),
        ),
    ],
)
async def test_pod_that_is_not_valid_is_422(api, spec, cause):
    answer = await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert (answer.code, answer.message) == (422, f'Pod "p" is invalid: {cause}')


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(using({GPU: 1}), id="limit"),
        pytest.param(using({GPU: 1}, {GPU: 1}), id="both"),
        pytest.param(using({"cpu": 2}, {"cpu": "500m", "memory": "1Gi"}), id="native"),
        pytest.param({**using(claims=[{"name": "gpu", "request": "a"}]), "resourceClaims": [claim()]}, id="claim"),
        pytest.param(
            {
                **using(claims=[{"name": "gpu", "request": "a"}, {"name": "gpu", "request": "b"}]),
                "resourceClaims": [claim()],
            },
            id="two-requests-of-a-claim",
        ),
    ],
)
async def test_valid_pod_is_stored(api, spec):
    assert (await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})).code == 201


GATED = {"containers": [container()], "schedulingGates": [{"name": "x.io/gate"}], "nodeSelector": {"a": "b"}}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            {"nodeSelector": {"a": "c"}},
            (
                'spec.nodeSelector: Invalid value: {"a":"c"}: only additions to spec.nodeSelector are allowed (no mutations or'
                " deletions)"
            ),
        ),
        (
            {"schedulingGates": [{"name": "x.io/gate"}, {"name": "y.io/gate"}]},
            "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'y.io/gate'",
        ),
        (
            {"containers": [container(), container("d")]},
            "spec.containers: Forbidden: pod updates may not add or remove containers",
        ),
    ],
)
async def test_change_of_a_pod_that_is_not_allowed_is_422(api, change, cause):
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": GATED})
    answer = await api.merge(f"{PODS}/p", {"spec": change})
    assert (answer.code, answer.message) == (422, f'Pod "p" is invalid: {cause}')


async def test_gated_pod_is_not_bound(api):
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": GATED})
    answer = await api.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    assert (answer.code, answer.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates',
    )
