"""Reviews of what is generated."""

from copy import deepcopy

import pytest

from tests.generate.applied_objects import CLUSTER_POLICY, findings, labelled_node, patched_policy


@pytest.fixture
def applied():
    """`applied(generated, product)`: the findings in everything that is generated, alone and together."""

    def apply(generated, product, **labels):
        policy, node = patched_policy(generated), labelled_node(generated, product, **labels)
        document = [generated.document] if generated.document else []
        bare = deepcopy(node)
        bare["metadata"]["labels"].popitem()
        return [
            *(findings(each) for each in document),
            *(findings(each, policy, bare) for each in document),
            *(findings(each, policy, node) for each in document),
            findings(policy, *document, bare, old=CLUSTER_POLICY),
            findings(policy, *document, node, old=CLUSTER_POLICY),
            findings(node, *document, policy, old=bare),
        ]

    return apply
