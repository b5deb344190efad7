"""The functions of authorizers, declared for error messages only: selectors have no authorizer.

Source: k8s.io/apiserver/pkg/cel/library/authz.go.
"""

from __future__ import annotations

from policies.dra.cel.declarations import Function, Library, Overload, member, no_overload
from policies.dra.cel.types import BOOL, STRING, Type

__all__ = ["LIBRARY"]

_AUTHORIZER = Type("kubernetes.authorization.Authorizer", kind="object")
_PATH_CHECK = Type("kubernetes.authorization.PathCheck", kind="object")
_GROUP_CHECK = Type("kubernetes.authorization.GroupCheck", kind="object")
_RESOURCE_CHECK = Type("kubernetes.authorization.ResourceCheck", kind="object")
_DECISION = Type("kubernetes.authorization.Decision", kind="object")


def _of(id_: str, target: Type, result: Type, *arguments: Type) -> Overload:
    return member(id_, (target, *arguments), result, no_overload)


LIBRARY = Library(
    functions=(
        Function("path", (_of("authorizer_path", _AUTHORIZER, _PATH_CHECK, STRING),)),
        Function("group", (_of("authorizer_group", _AUTHORIZER, _GROUP_CHECK, STRING),)),
        Function("serviceAccount", (_of("authorizer_serviceaccount", _AUTHORIZER, _AUTHORIZER, STRING, STRING),)),
        Function("resource", (_of("groupcheck_resource", _GROUP_CHECK, _RESOURCE_CHECK, STRING),)),
        Function("subresource", (_of("resourcecheck_subresource", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),)),
        Function("namespace", (_of("resourcecheck_namespace", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),)),
        Function("name", (_of("resourcecheck_name", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),)),
        Function(
            "check",
            (
                _of("pathcheck_check", _PATH_CHECK, _DECISION, STRING),
                _of("resourcecheck_check", _RESOURCE_CHECK, _DECISION, STRING),
            ),
        ),
        Function("errored", (_of("decision_errored", _DECISION, BOOL),)),
        Function("error", (_of("decision_error", _DECISION, STRING),)),
        Function("allowed", (_of("decision_allowed", _DECISION, BOOL),)),
        Function("reason", (_of("decision_reason", _DECISION, STRING),)),
        Function("fieldSelector", (_of("authorizer_fieldselector", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),)),
        Function("labelSelector", (_of("authorizer_labelselector", _RESOURCE_CHECK, _RESOURCE_CHECK, STRING),)),
    )
)
