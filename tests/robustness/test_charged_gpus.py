"""Every request that may give a pod a GPU is charged to the quota of its namespace."""

from hypothesis import given
from hypothesis import strategies as st

from policies.fleet import GPUAccess, RequestKind, gpu_requests
from policies.fleet.pod_claims import template_claims
from policies.kubernetes.pods import Pod
from policies.quota.demands.pods import demands_of_pod
from policies.rules.settings import DEFAULTS
from tests.fleet.fleet_objects import (
    CHANNEL,
    EITHER,
    GPU,
    IMPLICIT,
    MIG,
    OTHER,
    claim,
    cluster,
    container,
    device_class,
    exactly,
    first_available,
    pod,
    template,
)

NAMES = ["gpu.nvidia.com", "fast.gpu.nvidia.com", "fast.example.com", "missing.example.com"]
RESOURCES = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "example.com/fast", "amd.com/gpu"]
SELECTORS = st.lists(st.sampled_from([GPU, MIG, CHANNEL, OTHER, EITHER, "not CEL"]), max_size=2)
CLASS_NAMES = st.sampled_from(NAMES)


@st.composite
def classes(draw):
    extended = st.one_of(st.none(), st.sampled_from(RESOURCES))
    names = draw(st.lists(st.sampled_from(NAMES[:-1]), unique=True))
    return [device_class(name, *draw(SELECTORS), extended=draw(extended)) for name in names]


@st.composite
def requests(draw):
    if draw(st.booleans()):
        return first_available(*draw(st.lists(CLASS_NAMES, min_size=1, max_size=3)))
    return exactly(draw(CLASS_NAMES), *draw(SELECTORS))


@st.composite
def asking(draw):
    names = st.sampled_from([*RESOURCES, *(IMPLICIT + name for name in NAMES)])
    limits = draw(st.dictionaries(names, st.integers(0, 2), max_size=2))
    return pod(
        container(limits=limits, requests=limits),
        container("other", claims=draw(st.sampled_from([[], [{"name": "gpu"}]]))),
        claims=draw(st.sampled_from([[], [{"name": "gpu", "resourceClaimTemplateName": "t"}]])),
    )


@given(asking(), classes(), st.lists(requests(), max_size=2))
def test_request_that_may_give_a_gpu_is_charged(pod_asking, known, requests_of_template):
    view = cluster(template(*requests_of_template), claim(), *known)
    claims = template_claims(pod_asking, "team-a", view)
    charged = demands_of_pod(Pod.read(pod_asking), claims, view, DEFAULTS.quota).pieces
    requested = list(gpu_requests(pod_asking, "team-a", view))
    by_claim = any(each.kind is RequestKind.CLAIM for each in requested)
    by_resource = any(each.kind is not RequestKind.CLAIM for each in requested)
    assert bool(charged.get("gpu")) == by_claim
    assert any(charged[piece] for piece in charged if piece != "gpu") == by_resource
    assert all(each.access is not GPUAccess.NONE for each in requested)
