"""Nodes, policies and ConfigMaps with MIG configurations."""

MIG, PLUGIN = "nvidia.com/mig.config", "nvidia.com/device-plugin.config"


WORKLOAD, OWNER = "nvidia.com/gpu.workload.config", "nvidia.com/gpu-operator.driver.owner"


FILE = """version: v1
mig-configs:
  all-disabled: [{devices: all, mig-enabled: false}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]
  ninth: [{devices: [0, 9], mig-enabled: true, mig-devices: {3g.20gb: 2}}]
  too-much: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}]
  of-h100: [{device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]
"""


STATE = "; nvidia.com/mig.config.state would become failed"


def node(name="gpu-1", **labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def policy(**spec):
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy"},
        "spec": spec,
    }


def config_map(name, **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "data": data,
    }


def mig(strategy="mixed", **spec):
    return policy(mig={"strategy": strategy}, **spec)


OWN = (mig(migManager={"config": {"name": "cuts"}}), config_map("cuts", **{"config.yaml": FILE}))


SHARING = (
    policy(devicePlugin={"config": {"name": "slices", "default": "any"}}),
    config_map("slices", any="version: v1", a100="version: v1"),
)
