"""Reviewing a full ClusterPolicy, in process: the one that the Helm chart renders with its defaults.

Run it with `.venv/bin/python benchmarks/configuration.py`; the aim is below 2 ms.
"""

from __future__ import annotations

import timeit
from pathlib import Path

import yaml

from policies.request import Request
from policies.review import review
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "tests" / "configuration" / "valid" / "cluster-policy-helm-defaults.yaml"


def main() -> None:
    """Print milliseconds per review, alone and beside a cluster."""
    document = yaml.safe_load(POLICY.read_text())
    request = Request(document, group="nvidia.com", kind="ClusterPolicy", name="cluster-policy", entry="configuration")
    cluster = [
        found
        for path in sorted((ROOT / "examples" / "cluster").glob("*.yaml"))
        for found in yaml.safe_load_all(path.open())
    ]
    for name, view in (("nothing known", ManifestsView()), ("examples/cluster", ManifestsView(cluster))):
        review(request, view, DEFAULTS)
        runs = timeit.repeat(lambda view=view: review(request, view, DEFAULTS), number=50, repeat=7)
        print(f"{name:20}{min(runs) / 50 * 1e3:6.2f} ms")


if __name__ == "__main__":
    main()
