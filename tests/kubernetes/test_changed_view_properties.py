"""A changed view answers every question as a view of the changed objects does, and the view below keeps its answers."""

from dataclasses import dataclass
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.view import UNKNOWN, ChangedView
from webhook.cluster.manifests import ManifestsView

KINDS = ("Node", "Pod", "ResourceClaim")
NAMESPACES = ("team-a", "team-b")
NAMES = ("a", "b", "c")


def label_of(document):
    return document["metadata"]["labels"]["version"]


def is_odd(document):
    return label_of(document) % 2 or None


@dataclass(frozen=True)
class Digest:
    """A function of a view: the answers to some questions, such as `("list", "Pod", "")`."""

    questions: tuple

    def __call__(self, view):
        return [shown(getattr(view, method)(*arguments)) for method, *arguments in self.questions]


def shown(answer):
    """An answer that can be compared: sequences as lists."""
    return [*answer] if isinstance(answer, list | tuple) else answer


def anything(_):
    return True


kinds = st.sampled_from(KINDS)
keys = st.tuples(kinds, st.sampled_from(NAMESPACES), st.sampled_from(NAMES)).map(
    lambda key: (key[0], "" if key[0] == "Node" else key[1], key[2])
)
versions = st.integers(0, 9)
questions = st.one_of(
    keys.map(lambda key: ("get", key[0], key[2], key[1])),
    st.tuples(st.just("list"), kinds, st.sampled_from(("", *NAMESPACES))),
    st.tuples(st.just("derive_each"), kinds, st.sampled_from((label_of, is_odd))),
    st.tuples(st.just("count_each"), kinds, st.sampled_from((label_of, is_odd)), st.just(anything)),
    st.tuples(st.just("others_on"), st.just("a")),
)
digests = st.recursive(
    st.lists(questions, max_size=4).map(tuple).map(Digest),
    lambda inner: st.tuples(inner, st.lists(questions, max_size=2)).map(
        lambda found: Digest((("derive", found[0]), *found[1]))
    ),
    max_leaves=3,
)
changes = st.dictionaries(keys, st.one_of(st.none(), versions), max_size=4)


def made(key, version):
    kind, namespace, name = key
    where = {"namespace": namespace} if namespace else {}
    group = "resource.k8s.io/v1" if kind == "ResourceClaim" else "v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, **where, "labels": {"version": version}}}


def manifests(objects, known):
    """A view of objects, whose kinds are known even if there is none."""
    groups = {"ResourceClaim": "resource.k8s.io/v1"}
    empty = ({"apiVersion": groups.get(kind, "v1"), "kind": f"{kind}List", "items": []} for kind in known)
    return ManifestsView([*empty, *objects.values()])


def with_changes(view, changed, is_lazy):
    objects = {key: None if version is None else made(key, version) for key, version in changed.items()}
    if is_lazy:
        return ChangedView(view, {key: partial(lambda found: found, each) for key, each in objects.items()})
    return ChangedView(view, objects)


def after(objects, changed):
    """The objects after a change; replaced ones stay in their place, and new ones come last."""
    found = {**objects, **{key: made(key, version) for key, version in changed.items() if version is not None}}
    return {key: each for key, each in found.items() if changed.get(key, each) is not None}


@given(
    stored=st.dictionaries(keys, versions, max_size=8),
    first=changes,
    second=changes,
    asked=st.lists(digests, min_size=1, max_size=3),
    is_lazy=st.booleans(),
)
def test_changed_view_answers_as_a_view_of_the_changed_objects(stored, first, second, asked, is_lazy):
    objects = {key: made(key, version) for key, version in stored.items()}
    below = manifests(objects, KINDS)
    before = [below.derive(digest) for digest in asked]
    once = with_changes(below, first, is_lazy)
    twice = with_changes(once, second, is_lazy)
    for view, expected in (
        (once, manifests(after(objects, first), KINDS)),
        (twice, manifests(after(after(objects, first), second), KINDS)),
        (below, manifests(objects, KINDS)),
    ):
        for digest in asked:
            assert view.derive(digest) == digest(view) == digest(expected)
    assert [below.derive(digest) for digest in asked] == before


@given(changed=changes, kind=kinds)
def test_unknown_kind_stays_unknown(changed, kind):
    view = with_changes(ManifestsView(), changed, is_lazy=False)
    assert view.list(kind) is view.derive_each(kind, label_of) is view.count_each(kind, label_of, anything) is UNKNOWN
