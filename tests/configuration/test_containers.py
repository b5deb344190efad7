"""Environment and resources of components."""

import pytest

POLICY = "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\nspec:\n"


@pytest.fixture
def findings_of(examined):
    def tell(rule, spec, *cluster):
        text = POLICY + "\n".join(f"  {line}" for line in spec.splitlines())
        found = examined("\n---\n".join([text, *cluster]))
        return [(str(one.path), str(one.severity), one.message, one.remedy) for one in found if one.rule.id == rule]

    return tell


def test_second_variable_of_a_name_is_warned_of(findings_of):
    spec = "driver: {env: [{name: A, value: '1'}, {name: B}, {name: A, value: '2'}]}"
    assert findings_of("GA115", spec) == [
        (
            "spec.driver.env[2].name",
            "warn",
            '"A" is set by env[0] already; the last value wins silently',
            "remove one A",
        )
    ]


@pytest.mark.parametrize(
    ("name", "shown", "remedy"),
    [
        ("A=", '"A=" with its =', "write name: A"),
        ("", "the empty name", "write a name of letters, digits and underscores"),
        ("=", '"=" with its =', "write a name of letters, digits and underscores"),
        ("Ä", '"Ä"', "write a name of letters, digits and underscores"),
    ],
)
def test_name_that_no_kubernetes_takes_is_refused(findings_of, name, shown, remedy):
    message = f"{shown} is not a name of an environment variable, so Kubernetes refuses the pods"
    found = findings_of("GA115", f'validator: {{plugin: {{env: [{{name: "{name}"}}]}}}}')
    assert found == [("spec.validator.plugin.env[0].name", "deny", message, remedy)]


@pytest.mark.parametrize(
    ("version", "severity"), [("v1.31.4", "deny"), ("v1.32.0", None), ("v1.34.2", None), (None, "warn")]
)
def test_unusual_name_depends_on_the_version_of_kubernetes(findings_of, version, severity):
    cluster = [f"serverVersion: {{gitVersion: {version}}}"] if version else []
    found = findings_of("GA115", "toolkit: {env: [{name: 1 A}]}", *cluster)
    assert [one[1] for one in found] == ([severity] if severity else [])


def test_environment_of_what_is_not_deployed_passes(findings_of):
    assert findings_of("GA115", "vgpuManager: {env: [{name: '='}]}\ndriver: {enabled: false, env: [{name: '='}]}") == []


def test_request_above_its_limit_is_refused(findings_of):
    spec = "dcgm: {resources: {requests: {cpu: 1500m, memory: 1Gi}, limits: {cpu: 1, memory: 1024Mi}}}"
    assert findings_of("GA116", spec) == [
        (
            "spec.dcgm.resources.requests.cpu",
            "deny",
            "is 1500m; Kubernetes would report: must be less than or equal to cpu limit of 1",
            "write cpu: 1 or less, or raise the limit",
        )
    ]


def test_extended_resources_are_never_overcommitted(findings_of):
    spec = """gfd:
  resources:
    requests: {example.com/port: 1, example.com/lane: 2}
    limits: {example.com/lane: 3}"""
    assert [(path, message) for path, _, message, _ in findings_of("GA116", spec)] == [
        (
            "spec.gfd.resources.requests[example.com/port]",
            "is 1 without a limit; Kubernetes would report: Limit must be set for non overcommitable resources",
        ),
        (
            "spec.gfd.resources.requests[example.com/lane]",
            "is 2; Kubernetes would report: must be equal to example.com/lane limit of 3",
        ),
    ]


def test_huge_pages_need_cpu_or_memory(findings_of):
    spec = "gfd: {resources: {limits: {hugepages-2Mi: 4Mi}}}"
    assert [(path, message) for path, _, message, _ in findings_of("GA116", spec)] == [
        (
            "spec.gfd.resources.limits[hugepages-2Mi]",
            "stands without cpu and memory; Kubernetes would report: HugePages require cpu or memory",
        )
    ]
    assert findings_of("GA116", "gfd: {resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}}}") == []


def test_what_is_no_quantity_is_left_to_the_schema(findings_of):
    assert (
        findings_of("GA116", "gfd: {resources: {requests: {cpu: lots, memory: []}, limits: {cpu: 1, memory: 1Gi}}}")
        == []
    )
