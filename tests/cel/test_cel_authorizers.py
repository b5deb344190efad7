"""Functions of authorizers: declared for error messages, never called."""

from __future__ import annotations

import pytest

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.optionals import AUTHORIZER_LIBRARY

OVERLOADS = {overload.id: overload for overload in AUTHORIZER_LIBRARY}


def test_every_function_of_kubernetes_is_declared():
    assert {overload.name for overload in AUTHORIZER_LIBRARY} == {
        *("path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "check"),
        *("errored", "error", "allowed", "reason", "fieldSelector", "labelSelector"),
    }


def test_every_function_is_a_method_of_what_an_authorizer_gives():
    assert all(overload.is_member for overload in OVERLOADS.values())
    assert {str(overload.parameters[0]).rpartition(".")[0] for overload in OVERLOADS.values()} == {
        "kubernetes.authorization"
    }


@pytest.mark.parametrize("overload_id", sorted(OVERLOADS))
def test_no_value_is_taken_for_an_authorizer(overload_id):
    overload = OVERLOADS[overload_id]
    with pytest.raises(CelRuntimeError) as failed:
        overload.implementation(*("x" for _ in overload.parameters))
    assert failed.value.message == "no such overload"
