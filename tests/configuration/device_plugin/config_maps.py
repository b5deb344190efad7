"""Device-plugin ConfigMaps, and the policies, nodes, pods and quotas beside them."""

import json

GPU = {"name": "nvidia.com/gpu", "replicas": 4}


def sliced(resource=GPU, strategy="timeSlicing", flags=None, **fields):
    sharing = {strategy: {**fields, "resources": [resource]}}
    return {"version": "v1", **({"flags": flags} if flags else {}), "sharing": sharing}


def config_map(namespace="gpu-operator", name="time-slicing", labels=None, **configurations):
    data = {key.replace("_", "-"): json.dumps(value) for key, value in (configurations or {"any": sliced()}).items()}
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def policy(default="any", **spec):
    plugin = {"config": {"name": "time-slicing", "default": default}, **spec.pop("devicePlugin", {})}
    metadata = {"name": "cluster-policy"}
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": metadata,
        "spec": {"devicePlugin": plugin, **spec},
    }


def node(name="gpu-1", **labels):
    found = {"nvidia.com/gpu.present": "true", **{f"nvidia.com/{key}": value for key, value in labels.items()}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": found}}


def labelled(key, name="gpu-1", **labels):
    return node(name, **{"device-plugin.config": key, **labels})


def pod(amount=1, resource="nvidia.com/gpu", where="gpu-1", **status):
    container = {"name": "main", "resources": {"limits": {resource: amount}}}
    spec = {"containers": [container], **({"nodeName": where} if where else {})}
    metadata = {"name": "train", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def quota(**hard):
    metadata = {"name": "gpus", "namespace": "team-a"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}


def text(*documents, before=None):
    parts = [json.dumps(documents[0])]
    if before:
        parts.append(f"# before\n{json.dumps(before)}")
    return "\n--- ".join([parts[0], *parts[1:]]) + "".join(
        f"\n---\n{json.dumps(document)}" for document in documents[1:]
    )


FOR_ITSELF = {"gpu-admission.io/config": "device-plugin"}
