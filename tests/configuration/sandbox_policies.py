"""ClusterPolicies and nodes for sandbox workloads, and the findings on them."""

from tests.findings import plain_text

CHART = {
    "vgpuDeviceManager": "{enabled: true, config: {name: '', default: default}}",
    "vfioManager": "{enabled: true}",
    "sandboxDevicePlugin": "{enabled: true}",
    "kataSandboxDevicePlugin": "{enabled: true}",
    "ccManager": "{enabled: true, defaultMode: 'on'}",
}


SANDBOX_RULES = ("GA186", "GA187", "GA188", "GA189", "GA190", "GA191")


def policy(*cluster, sandbox="enabled: true", **components):
    written = "".join(f"  {component}: {value}\n" for component, value in components.items())
    return "\n---\n".join(
        [
            (
                "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {name: cluster-policy}\n"
                f"spec:\n  sandboxWorkloads: {{{sandbox}}}\n{written}"
            ),
            *cluster,
        ]
    )


def node(name="gpu-1", **labels):
    spelled = {
        "workload": "nvidia.com/gpu.workload.config",
        "mig": "nvidia.com/mig.config",
        "family": "nvidia.com/gpu.family",
        "vgpu": "nvidia.com/vgpu.config",
    }
    text = "".join(f", {spelled[label]}: {value}" for label, value in labels.items())
    return f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels: {{nvidia.com/gpu.present: 'true'{text}}}}}"


def findings_of(found, *rules):
    return [(finding.severity, plain_text(finding)) for finding in found if finding.rule.id in (rules or SANDBOX_RULES)]
