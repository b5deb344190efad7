"""Reviews of claims in the form of rule examples."""

import re

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView


def documents(text):
    """The reviewed object, the object before an update, and what the cluster has.

    `---` begins something that the cluster has, `--- # before` the object as it was.
    """
    parts = re.split(r"(?m)^---(.*)$", text)
    before, cluster = None, []
    for mark, part in zip(parts[1::2], parts[2::2], strict=True):
        if "before" in mark:
            before = libyaml.load(part)
        else:
            cluster.append(libyaml.load(part))
    return libyaml.load(parts[0]), before, cluster


@pytest.fixture
def examined():
    """`examined(text)`: the findings on an example; `entry` is the webhook that is asked, none offline."""

    def examine(text, *, settings=DEFAULTS, entry=""):
        document, before, cluster = documents(text)
        metadata = document.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        request = Request(
            document,
            old_object=before,
            operation="UPDATE" if before is not None else "CREATE",
            group=document["apiVersion"].rpartition("/")[0],
            kind=document["kind"],
            namespace=metadata.get("namespace") or "",
            name=metadata.get("name") or "",
            entry=entry,
        )
        return review(request, ManifestsView(cluster, [document]), settings).findings

    return examine


@pytest.fixture
def findings_of(examined):
    """`findings_of(rule, text)`: what a rule says about an example, as sentences."""

    def tell(rule, text, **options):
        return [plain_text(finding) for finding in examined(text, **options) if finding.rule.id == rule]

    return tell
