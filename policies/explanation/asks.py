"""Asks of questions: what the cluster has for a question, put together once for all its nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.dra.allocation.index import SliceIndex
from policies.explanation.class_facts import classes_of
from policies.explanation.extended_resources import served_by_classes
from policies.explanation.feature_gates import features_of
from policies.explanation.solver import Ask

if TYPE_CHECKING:
    from policies.dra.keeping_on import KeepOn
    from policies.explanation.cluster import Cluster
    from policies.explanation.question import Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["ask_of"]


def ask_of(
    question: Question, cluster: Cluster, view: ClusterView, settings: GPUAdmissionPolicy, keep_on: KeepOn
) -> Ask:
    """The ask of a question; of its claims alone where nodes are unknown, for nobody knows their labels and limits then."""
    by_resource = served_by_classes(question, view) if cluster.index is not None and cluster.nodes_known else {}
    return Ask(
        question=question if cluster.nodes_known else replace(question, pod=None, resources={}),
        claims=question.claims,
        classes=(*classes_of(question.claims, view), *by_resource.values()),
        by_resource=by_resource,
        index=cluster.index or SliceIndex(()),
        nodes=cluster.nodes,
        features=features_of(view, settings),
        keep_on=keep_on,
    )
