"""Wishes come from annotations, and from the settings for pods without them."""

import pytest

from policies.admission import review
from policies.kubernetes.names import RECORD
from policies.kubernetes.pods import Pod
from policies.nvidia.wishes import WORDS, Wish
from policies.placement.wish_annotations import read_wishes
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, WishDefault
from tests.findings import plain_text

DEFAULT = " (a default of the GPUAdmissionPolicy, which an annotation replaces)"


def annotated(**words):
    return {f"gpu-admission.io/{word.replace('_', '-')}": text for word, text in words.items()}


def defaults(*wishes):
    return GPUAdmissionPolicy(placement=Placement(wishes=wishes))


@pytest.fixture
def read(pod, cluster):
    """What is read of a pod with these annotations in the namespace team-a."""

    def read(annotations=None, settings=DEFAULTS):
        return read_wishes(pod(annotations=annotations), "team-a", cluster(), settings)

    return read


def test_pod_that_says_nothing_wishes_nothing(read):
    assert not read().wish
    assert read().findings == ()


def test_every_word_is_read(read):
    words = annotated(product="H100*,!*MIG*", min_memory="40Gi", max_memory="100Gi", min_compute_capability="9")
    words |= annotated(family="hopper", min_driver="550", min_cuda="12.4", sharing="exclusive")
    texts = {key.removeprefix("gpu-admission.io/"): text for key, text in words.items()}
    assert read(words).wish == Wish.of(texts)
    assert read(words).findings == ()


@pytest.mark.parametrize(
    ("word", "text", "reported"),
    [
        (
            "min-memory",
            "80GB",
            'metadata.annotations[gpu-admission.io/min-memory]: is "80GB", which is not a Kubernetes quantity; write "80G"',
        ),
        (
            "family",
            "hoper",
            'metadata.annotations[gpu-admission.io/family]: has "hoper", which is not a GPU family; write "hopper"',
        ),
    ],
    ids=["quantity", "family"],
)
def test_word_that_cannot_be_read_is_refused_with_its_remedy(read, word, text, reported):
    found = read({f"gpu-admission.io/{word}": text}).findings
    assert [(finding.rule.id, finding.severity, plain_text(finding)) for finding in found] == [
        ("GA401", Severity.DENY, reported)
    ]


def test_malformed_wish_of_a_daemon_set_refuses_nothing(pod, cluster):
    document = pod(annotations=annotated(min_memory="80GB")).document
    document["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "exporter", "controller": True}]
    found = read_wishes(Pod.read(document), "team-a", cluster(), DEFAULTS).findings
    assert [(finding.rule.id, finding.severity) for finding in found] == [("GA401", Severity.WARN)]


def test_words_that_can_be_read_count_beside_one_that_cannot(read):
    wishes = read(annotated(product="H100*", min_cuda="new"))
    assert wishes.wish == Wish.of({"product": "H100*"})
    assert list(wishes.texts) == ["product"]


def test_findings_are_in_the_order_of_the_words(read):
    found = read(annotated(sharing="x", min_memory="x", zzz="x", product="a|b")).findings
    assert [finding.path[-1].removeprefix("gpu-admission.io/") for finding in found] == [
        "product",
        "min-memory",
        "sharing",
        "zzz",
    ]


def test_default_holds_where_the_pod_says_nothing(read):
    wishes = read(annotated(min_memory="40Gi"), defaults(WishDefault({"product": "H100*", "min-memory": "80Gi"})))
    assert wishes.wish == Wish.of({"product": "H100*", "min-memory": "40Gi"})
    assert wishes.defaults == {"product"}


def test_default_of_another_namespace_does_not_hold(read):
    assert not read(settings=defaults(WishDefault({"product": "H100*"}, namespaces=("team-b",)))).wish


def test_last_default_for_a_word_counts(read):
    settings = defaults(
        WishDefault({"product": "H100*", "sharing": "any"}),
        WishDefault({"product": "A100*"}, namespaces=("team-*",)),
        WishDefault({"product": "T4"}, namespaces=("other",)),
    )
    assert read(settings=settings).wish == Wish.of({"product": "A100*", "sharing": "any"})


def test_default_gives_way_to_an_annotation_that_contradicts_it(read):
    settings = defaults(WishDefault({"min-memory": "80Gi", "product": "H100*"}))
    wishes = read(annotated(max_memory="40Gi"), settings)
    assert wishes.wish == Wish.of({"max-memory": "40Gi", "product": "H100*"})


def test_word_says_where_it_is_written(read):
    wishes = read(annotated(product="H100*"), defaults(WishDefault({"sharing": "exclusive"})))
    assert wishes.said("product") == "gpu-admission.io/product: H100*"
    assert wishes.said("sharing") == f"gpu-admission.io/sharing: exclusive{DEFAULT}"


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("memory", "is an unknown annotation; write gpu-admission.io/min-memory"),
        ("min_driver", "is an unknown annotation; write gpu-admission.io/min-driver"),
        (
            "zone",
            f"is an unknown annotation; remove it, or write one of {', '.join(WORDS)}",
        ),
        ("dra", "is read as a label of namespaces and pods, and is an annotation here; write it under metadata.labels"),
        ("dra-strategy", "is read as a label of namespaces, and is an annotation here; label the namespace"),
        ("quota", "is read as a label of namespaces, and is an annotation here; label the namespace"),
        ("managed", "is a label that gpu-admission writes, and is an annotation here; remove the annotation"),
    ],
    ids=["near a word", "underscore", "near nothing", "dra", "dra-strategy", "quota", "managed"],
)
def test_unknown_annotation_is_reported(read, name, reported):
    (finding,) = read(annotated() | {f"gpu-admission.io/{name}": "x"}).findings
    assert (finding.rule.id, finding.severity) == ("GA406", Severity.WARN)
    assert plain_text(finding) == f"metadata.annotations[gpu-admission.io/{name}]: {reported}"


def test_record_of_a_conversion_waivers_and_annotations_of_others_are_no_wishes(read):
    waiver = {"gpu-admission.io/ignore": "GA405 because the GPUs arrive on Monday"}
    assert (
        read({**waiver, "gpu-admission.io/converted": "{}", "example.com/product": "x", "product": "x"}).findings == ()
    )


def test_record_that_conversion_did_not_write_leaves_the_wish_of_a_pod(pod, cluster):
    record = {RECORD: '{"containers":[{"name":"main","kind":"container","resources":{"nvidia.com/gpu":1}}]}'}
    forged = pod({"nvidia.com/gpu": 1}, annotations={**annotated(min_memory="lots"), **record})
    decision = review(Request(forged.document, namespace="team-a", entry="place-pods"), cluster(), DEFAULTS)
    assert [finding.rule.id for finding in decision.denials] == ["GA401"]
