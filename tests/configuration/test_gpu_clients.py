"""The file of GPU clients, without which the MIG manager divides no GPU."""

import pytest

from tests.findings import plain_text

GOOD = "version: v1\nsystemd-services:\n- nvidia-dcgm.service\n- nvsm.service\n"


@pytest.fixture
def found(examined):
    """`found(text)`: findings on a ConfigMap that has this as its clients.yaml."""

    def examine(text, name="ours"):
        indented = "".join(f"    {line}\n" for line in text.splitlines())
        metadata = f"metadata: {{name: {name}, namespace: gpu-operator}}"
        return examined(f"apiVersion: v1\nkind: ConfigMap\n{metadata}\ndata:\n  clients.yaml: |\n{indented}")

    return examine


def findings_of(findings):
    return [(each.rule.id, each.severity.value, each.place.line, plain_text(each)) for each in findings]


@pytest.mark.parametrize("text", [GOOD, "", "version: v1\n", "version: v1\nsystemd-services:\n"])
def test_file_that_can_be_read_passes(found, text):
    assert findings_of(found(text)) == []


@pytest.mark.parametrize(
    ("text", "severity", "line", "said"),
    [
        (
            GOOD.replace("- nvsm", "  - nvsm").replace("- nvidia", "nvidia: - x"),
            "deny",
            3,
            "data[clients.yaml]: is not YAML in line 3: ",
        ),
        ("- nvsm.service", "deny", 1, "data[clients.yaml]: must be a mapping; no node could be divided by MIG"),
        (
            "systemd-services: nvsm.service",
            "deny",
            1,
            "data[clients.yaml][systemd-services]: must be a list of strings; no node could be divided by MIG",
        ),
        (
            "version: v1\nsystemd-service: [nvsm.service]",
            "warn",
            2,
            (
                "data[clients.yaml][systemd-service]: unknown field: the MIG manager ignores it silently; write "
                '"systemd-services"'
            ),
        ),
    ],
)
def test_file_that_cannot_be_read_is_reported_with_its_line(found, text, severity, line, said):
    ((rule, *rest, text),) = findings_of(found(text))
    assert (rule, rest) == ("GA149", [severity, line])
    assert text.startswith(said)


def test_policy_that_names_a_broken_file_is_refused(examined):
    policy = (
        "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\n"
        "spec: {migManager: {gpuClientsConfig: {name: ours}}}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ours, namespace: gpu-operator}\ndata: {clients.yaml: '- a'}\n"
    )
    (finding,) = examined(policy)
    assert (finding.rule.id, finding.severity, str(finding.path)) == (
        "GA149",
        "deny",
        "spec.migManager.gpuClientsConfig.name",
    )
