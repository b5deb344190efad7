"""Device selectors of DRA: CEL exactly as Kubernetes evaluates it.

`compile_selector` compiles a text to a Selector; `Selector.matches` evaluates it on a device. Code outside this package
imports from here only.
"""

from __future__ import annotations

from policies.dra.cel.checker.checker import check
from policies.dra.cel.conjuncts import Conjunct, split_conjuncts, without_conjunct
from policies.dra.cel.devices import CelDevice
from policies.dra.cel.environment import DEVICE, CelFeatures, Environment, selector_environment
from policies.dra.cel.errors import CelCompileError, CelRuntimeError, Issue
from policies.dra.cel.interpreter.compiler import CountedProgram
from policies.dra.cel.interpreter.planner import plan_expression
from policies.dra.cel.libraries.quantities import Quantity
from policies.dra.cel.libraries.semvers import Semver
from policies.dra.cel.parser.parser import parse
from policies.dra.cel.selectors import MOST_COST, UNBOUNDED_COST, Selector, compile_selector
from policies.dra.cel.steps import begin_evaluation, steps_spent
from policies.dra.cel.syntax import (
    Call,
    Checked,
    Comprehension,
    Constant,
    Expression,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    StructLiteral,
    function_name,
)
from policies.dra.cel.types import BOOL, DYN, STRING, Type, list_of, map_of
from policies.dra.cel.values import Map, UInt, Value
from policies.dra.device_reads import Read

__all__ = [
    "BOOL",
    "DEVICE",
    "DYN",
    "MOST_COST",
    "STRING",
    "UNBOUNDED_COST",
    "Call",
    "CelCompileError",
    "CelDevice",
    "CelFeatures",
    "CelRuntimeError",
    "Checked",
    "Comprehension",
    "Conjunct",
    "Constant",
    "CountedProgram",
    "Environment",
    "Expression",
    "Identifier",
    "Issue",
    "ListLiteral",
    "Literal",
    "Map",
    "MapLiteral",
    "Quantity",
    "Read",
    "Select",
    "Selector",
    "Semver",
    "StructLiteral",
    "Type",
    "UInt",
    "Value",
    "begin_evaluation",
    "check",
    "compile_selector",
    "function_name",
    "list_of",
    "map_of",
    "parse",
    "plan_expression",
    "selector_environment",
    "split_conjuncts",
    "steps_spent",
    "without_conjunct",
]
