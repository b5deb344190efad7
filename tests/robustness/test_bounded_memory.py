"""Content of tenants is cached within bounds of bytes or of nodes."""

import ast
import asyncio
import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from policies.admission.webhooks import ENTRIES
from policies.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector, selectors, split_conjuncts
from policies.claims.compared_values import mistakes, text_comparisons
from policies.claims.selected_devices import select_devices
from policies.conversion import record
from policies.devices.conditions import device_reads, read_condition
from policies.devices.effort import Effort
from policies.devices.possible_types import possible_types
from policies.devices.published_devices import DeviceGroup, PublishedDevices, SliceDevices
from policies.fleet.known_classes import KnownClasses
from policies.kubernetes.quantities import billionths
from policies.kubernetes.resourceslices import Device
from policies.nvidia.mig import parse_resource
from policies.nvidia.products import Product
from policies.nvidia.wish_words import product_spellings
from policies.quota.demands.classes import Classes
from policies.quota.demands.device_kinds import BARE, NodeKinds
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission import Admission
from webhook.server.memo import Memo
from webhook.server.metrics import Metrics

ROOT = Path(__file__).parent.parent.parent
A = 'device.attributes["gpu.nvidia.com"]'
SHAPES = {
    "macros": lambda number: "||".join([f"[1].all(x,x>{number})"] * 70),
    "comparisons": lambda number: "||".join([f"1<{number}"] * 220),
    "attributes": lambda number: "&&".join(f"{A}.a{number}x{index}==1" for index in range(30)),
    "mistakes": lambda number: "&&".join([f"{number}.a"] * 200),
}
"""Selectors of some 1,500 bytes, all different by their number."""


@pytest.fixture(autouse=True)
def _empty_caches():
    for each in (selectors._cached_selector, split_conjuncts, read_condition, device_reads, possible_types):
        each.cache.clear()
    selectors._VERDICTS.clear()


def compiled(text):
    try:
        return compile_selector(text)
    except CelCompileError:
        return None


@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_selectors_are_bounded_in_nodes(shape):
    cache = selectors._cached_selector.cache
    for number in range(1000, 1050):
        compiled(SHAPES[shape](number))
        assert 0 < cache.weight <= cache.most


def test_node_takes_no_more_memory_than_the_bound_counts_on():
    device = CelDevice.read({"driver": "gpu.nvidia.com"})
    compile_selector(SHAPES["macros"](1)).matches(device)
    kept = []

    def keep():
        selector = compile_selector("||".join(["[1].all(x,x>2)"] * 40))
        kept.append(selector)
        selector.matches(device)
        assert selector._code is not None
        assert selector.counted_program is not None

    assert _bytes_kept(keep) / kept[0].nodes < 2_000
    assert selectors._MOST_NODES * 2_000 < 64 << 20


@pytest.mark.parametrize(
    "text",
    [
        "||".join(f'{A}.driverVersion == "x{index}"' for index in range(30)),
        "||".join(f'semver("x{index}") == semver("1.0")' for index in range(40)),
        f"{A}.productName in {[str(index) for index in range(150)]}",
    ],
    ids=["versions", "mistakes", "texts"],
)
def test_what_rules_keep_with_a_selector_is_small_beside_its_nodes(text):
    # A cache that all tests share may grow meanwhile, but hardly three times.
    selectors_like_it = [compile_selector(f'{text}||{A}.again == "{number}"') for number in range(3)]
    assert 0 < min(map(_bytes_per_node, selectors_like_it)) < 400


def _bytes_per_node(selector):
    """What rules keep with a selector."""

    def keep():
        selector.derive(mistakes)
        selector.derive(text_comparisons)

    return _bytes_kept(keep) / selector.nodes


def _bytes_kept(work):
    """The memory that our code still holds after some work; threads of other tests may allocate meanwhile."""
    gc.collect()
    tracemalloc.start(25)
    try:
        work()
        gc.collect()
        places = tracemalloc.take_snapshot().statistics("traceback")
        return sum(each.size for each in places if any("/policies/" in frame.filename for frame in each.traceback))
    finally:
        tracemalloc.stop()


def test_conjuncts_and_conditions_are_bounded_in_bytes():
    for number in range(1000, 1050):
        text = "&&".join([f"a{number}"] * 1500)
        split_conjuncts(text)
        device_reads("||".join(f"{A}.a{number}x{index}" for index in range(40)))
        read_condition(f"{A}.a == " + "x" * 9000 + str(number))
        assert split_conjuncts.cache.weight <= split_conjuncts.cache.most <= 8 << 20
        assert device_reads.cache.weight <= device_reads.cache.most <= 4 << 20
        assert read_condition.cache.weight <= read_condition.cache.most <= 4 << 20


def test_records_of_converted_pods_are_bounded_in_characters():
    record._parse.cache.clear()
    record._CLAIMS.clear()
    gc.collect()
    tracemalloc.start()
    for number in range(1500):
        container = {"name": "app", "kind": "container", "resources": {"nvidia.com/gpu": 1}}
        selector = {"nvidia.com/gpu.product": f"NVIDIA-H100-{number}"}
        parsed = record.ConversionRecord.parse(json.dumps({"containers": [container], "nodeSelector": selector}))
        assert parsed.claim.name.startswith("gpu-")
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    for cache in (record._parse.cache, record._CLAIMS):
        assert 0 < cache.weight <= cache.most
    assert taken < 8 << 20


def test_types_are_bounded_in_bytes():
    for number in range(1000, 1300):
        possible_types(f"'{'x' * 9000}' == '{number}'")
    assert possible_types.cache.weight <= possible_types.cache.most <= 2 << 20


def test_verdicts_of_all_selectors_are_bounded_together():
    devices = [CelDevice.read({"driver": "d", "attributes": {"uuid": {"string": f"{index}"}}}) for index in range(500)]
    for number in range(60):
        compile_selector(f'device.attributes["d"].uuid == "{number}"').matches_all(devices)
    cache = selectors._VERDICTS
    assert cache.weight <= cache.most
    assert len(cache) <= cache.most // 5


def test_long_messages_weigh_more():
    devices = [CelDevice.read({"driver": f"d{index}"}) for index in range(20)]
    selector = compile_selector(f"device.attributes[device.driver].{'x' * 6000} == 1")
    assert all(isinstance(each, CelRuntimeError) for each in selector.matches_all(devices))
    assert selectors._VERDICTS.weight > 20 * 100


def test_divided_groups_of_a_fleet_are_bounded():
    names = ("uuid", "index", "minor", "pciBusID", "parentUUID")
    members = [
        Device("gpu.nvidia.com", "pool", f"gpu-{number}", "", {"attributes": {name: {"int": number} for name in names}})
        for number in range(4000)
    ]
    fleet = PublishedDevices([SliceDevices(members)])
    for bits in range(1, 2 ** len(names)):
        text = " && ".join(f"{A}.{name} > 0" for index, name in enumerate(names) if bits >> index & 1)
        fleet.divide(fleet.groups, compile_selector(text).reads)
    assert fleet._parts.weight <= fleet._parts.most


def test_too_many_groups_are_not_kept():
    members = [
        Device("gpu.nvidia.com", "pool", f"gpu-{number}", "", {"attributes": {"uuid": {"string": f"{number}"}}})
        for number in range(5000)
    ]
    fleet = PublishedDevices([SliceDevices(members)])
    reads = compile_selector(f"{A}.uuid == 'x'").reads
    assert fleet.divide(fleet.groups, reads) is fleet.divide(fleet.groups, reads) is None
    assert fleet._parts.weight == 1


def test_evaluations_of_a_fleet_are_bounded():
    members = [
        Device("gpu.nvidia.com", "pool", f"gpu-{number}", "", {"attributes": {"uuid": {"string": f"{number}"}}})
        for number in range(500)
    ]
    fleet = PublishedDevices([SliceDevices(members)])
    for number in range(60):
        missing = f"{A}.uuid == '{number}' || {A}.{'x' * 100}{number} == 1"
        assert select_devices(fleet, fleet.groups, [compile_selector(missing)], Effort()).failed
    assert 0 < fleet.evaluations.weight <= fleet.evaluations.most
    assert len(fleet.evaluations) <= fleet.evaluations.most // 500


def test_names_of_classes_that_do_not_exist_are_kept_once():
    known = Classes(KnownClasses(()), PublishedDevices([]))
    for number in range(100):
        known.devices(f"made-up-{number}")
    assert len(known._of_class) == 1


def test_kinds_of_nodes_are_cached_no_longer_than_their_group():
    known = NodeKinds({})
    group = DeviceGroup([Device("d", "pool", "gpu-0", "node-1", {})])
    assert known.with_devices(group) == {BARE}
    del group
    gc.collect()
    assert not known._of_group


def test_long_labels_products_resources_and_quantities_are_not_kept():
    gc.collect()
    tracemalloc.start()
    for number in range(200):
        text = f"{number}" + "x" * 50_000
        Product.parse(text)
        product_spellings(text)
        billionths(text)
        parse_resource(f"nvidia.com/mig-{text}")
    del text
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 1 << 20


COUNTED = {
    "policies/kubernetes/quantities.py": "quantities and texts of at most 256 characters, and at most 16 resources of a stored pod",
    "policies/nvidia/mig_configs.py": "8 files of at most 1 MiB and 10,000 nodes each",
    "policies/cel/conditions.py": "conditions of webhooks and policies; only the sandbox and suites evaluate them",
    "policies/cel/libraries/strings.py": "16 patterns of at most 64 Ki characters, 4 programs of at most 6 MB",
    "policies/cel/libraries/times.py": "zones that exist",
    "policies/devices/device_sharing.py": "capacities of devices in stored ResourceSlices",
    "policies/devices/published_devices.py": "items of stored ResourceSlices",
    "policies/fleet/gpu_nodes.py": "labels and resources of nodes; keys of at most 256 characters",
    "policies/nvidia/product_names.py": "names of at most 64 characters and their words; the products of a cluster, for 16 states",
    "policies/nvidia/mig_products.py": "product labels of nodes; names of MIG profiles",
    "policies/nvidia/mig_layouts.py": "counts of a dozen profiles; only a command uses them",
    "policies/outcome/grants.py": "kinds of the GPUs that pods of a cluster get",
    "policies/placement/wish_labels.py": "the products of all nodes, for 4 states of the cluster; known MIG profiles",
    "policies/quota/demands/device_kinds.py": "kinds of nodes; devices of stored ResourceSlices",
    "policies/quota/ledger/status.py": "texts of at most 256 characters",
    "policies/rules/settings/choices.py": "8 versions of the settings",
    "webhook/server/app.py": "64 queries of at most 8 KiB, which is aiohttp's limit of a request line",
    "webhook/server/turns.py": "64 texts of at most 100 characters",
}
"""The files that use lru_cache, and why their entries have a bounded size."""


def test_every_cache_that_counts_entries_says_why_these_are_small():
    found = set()
    for path in [*(ROOT / "policies").rglob("*.py"), *(ROOT / "webhook").rglob("*.py")]:
        where = str(path.relative_to(ROOT))
        if "/sandbox/" in where or where == "policies/kubernetes/bounds.py":
            continue
        text = path.read_text()
        if "lru_cache" in text and any(
            isinstance(node, ast.Name) and node.id == "lru_cache" for node in ast.walk(ast.parse(text))
        ):
            found.add(where)
    assert found == COUNTED.keys()


def test_answers_for_pods_of_a_template_are_bounded_in_bytes():
    memo = Memo(ManifestsView(), most=1 << 20)
    admission = Admission(ManifestsView(), lambda: DEFAULTS, Metrics())
    admission._memo = memo
    entry = ENTRIES["place-pods"]
    gc.collect()
    tracemalloc.start()
    with asyncio.Runner() as runner:
        for number in range(200):
            container = {
                "name": "c",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
                "image": "x" * 50 * (number % 100),
            }
            pod = {"metadata": {"labels": {"a": str(number)}}, "spec": {"containers": [container]}}
            question = {"uid": "1", "kind": {"kind": "Pod"}, "namespace": "a", "operation": "CREATE", "object": pod}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": question}
            for _ in range(2):
                runner.run(admission.answer(entry, json.dumps(review).encode(), admission.deadline(None)))
            assert memo.answers.weight <= memo.answers.most
    number, weight = len(memo.answers), memo.answers.weight
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    memo.answers.clear()
    gc.collect()
    taken -= tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 50 < number < 200
    # How much less depends on the tests before: their caches may hold parts of the same answers.
    assert 0 < taken < weight * 1.1


def test_pods_that_are_seen_once_leave_only_numbers():
    memo = Memo(ManifestsView())
    for number in range(10_000):
        request = Request({"metadata": {}, "spec": {"nodeSelector": {"a": str(number)}}}, entry="guard-pods")
        assert memo.find(ENTRIES["guard-pods"], request, DEFAULTS) is None
    assert (len(memo.answers), len(memo._seen)) == (0, 4096)


def test_facts_that_changed_are_not_kept():
    memo, question = Memo(ManifestsView()), ("list", "Node", "")
    kept = [memo.fact(question, [{"number": number}]) for number in range(100)]
    assert sum(isinstance(each.answer, list) for each in kept) == 1
