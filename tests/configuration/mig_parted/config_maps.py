"""mig-parted ConfigMaps, and nodes that use them."""

import textwrap

HEAD = "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"


def config_map(body, key="config.yaml", name="mig-config", label="labels: {gpu-admission.io/config: mig-parted}"):
    text = textwrap.indent(body, "    ")
    meta = f"metadata:\n  name: {name}\n  namespace: gpu-operator\n  {label}\n"
    return f"apiVersion: v1\nkind: ConfigMap\n{meta}data:\n  {key}: |-\n{text}\n"


def policy(**config):
    spec = {"migManager": {"config": config}}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": spec}
