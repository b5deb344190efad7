"""Reviews of pods for access to GPUs, on a cluster given by its objects."""

import pytest

from policies.access import validate
from policies.rules.request import Request
from policies.rules.settings import Access, GPUAdmissionPolicy
from testbed import libyaml
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
WARN = GPUAdmissionPolicy()


@pytest.fixture
def found():
    """`found(spec, ...)`: the findings on a pod with this spec, as YAML or as JSON, that is created in `team-a`."""

    def find(spec, *, cluster="", settings=DENY, namespace="team-a", metadata=None, **request):
        spec = libyaml.load(spec) if isinstance(spec, str) else spec
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata or {"name": "p"}, "spec": spec}
        view = ManifestsView(list(libyaml.load_all(cluster)))
        return list(validate(Request(pod, namespace=namespace, **request), view, settings))

    return find


@pytest.fixture
def findings_of(found):
    """`findings_of(spec, ...)`: what is said of a pod, each as `RULE severity text`."""

    def tell(spec, **options):
        return [f"{finding.rule.id} {finding.severity} {plain_text(finding)}" for finding in found(spec, **options)]

    return tell


@pytest.fixture
def rules(found):
    """`rules(spec, ...)`: the ids of the rules that have something to say of a pod."""

    def ids(spec, **options):
        return [finding.rule.id for finding in found(spec, **options)]

    return ids
