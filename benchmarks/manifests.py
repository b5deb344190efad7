"""Reading the manifests of a cluster: 5,000 nodes of 8 GPUs, as `kubectl get -o json|yaml` prints.

Run it with `.venv/bin/python benchmarks/manifests.py`. Processor time of one reading each.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from explain import GPUS, NODES, gpu

from webhook.cli.manifest_reader import ManifestReader


def objects(node: int) -> list[dict[str, Any]]:
    """A node and its slice."""
    name = f"node-{node}"
    labels = {"kubernetes.io/hostname": name, "nvidia.com/gpu.present": "true"}
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [gpu(node, number) for number in range(GPUS)],
    }
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}},
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{name}-gpu"},
            "spec": spec,
        },
    ]


def main() -> None:
    """Print a line per form."""
    items = [item for node in range(NODES) for item in objects(node)]
    cluster = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    texts = {"json": json.dumps(cluster, indent=4), "yaml": yaml.dump(cluster, Dumper=yaml.CSafeDumper)}
    with tempfile.TemporaryDirectory() as folder:
        for form, text in texts.items():
            file = Path(folder, f"cluster.{form}")
            file.write_text(text)
            begin = time.process_time()
            ManifestReader().cluster([str(file)])
            print(f"{form}{len(text) / 1e6:7.1f} MB{time.process_time() - begin:7.2f} s")


if __name__ == "__main__":
    main()
