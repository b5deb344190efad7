"""CEL exactly as Kubernetes evaluates it: device selectors, and conditions of webhooks and policies.

`compile_selector` compiles a text to a Selector; `Selector.matches` evaluates it on a device. `compile_condition` and its
like compile expressions over other variables. Code outside this package imports from here only.
"""

from __future__ import annotations

from policies.cel.checker import check
from policies.cel.conditions import (
    NO_AUTHORIZER,
    Condition,
    DeclaredVariables,
    compile_condition,
    compile_rule,
    compile_validation,
    compile_variable,
    value_of,
)
from policies.cel.devices import CelDevice
from policies.cel.environment import DEVICE, STORED, CelFeatures, Environment, selector_environment
from policies.cel.errors import CelCompileError, CelRuntimeError, Issue, begin_evaluation, steps_spent
from policies.cel.interpreter.compiler import CountedProgram
from policies.cel.interpreter.planner import plan_expression
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.parser import parse
from policies.cel.selectors import (
    MOST_COST,
    UNBOUNDED_COST,
    Conjunct,
    Selector,
    compile_selector,
    split_conjuncts,
    without_conjunct,
)
from policies.cel.syntax import (
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
from policies.cel.types import BOOL, DYN, STRING, Type, list_of, map_of
from policies.cel.values import Map, UInt, Value
from policies.kubernetes.resourceslices import Read

__all__ = [
    "BOOL",
    "DEVICE",
    "DYN",
    "MOST_COST",
    "NO_AUTHORIZER",
    "STORED",
    "STRING",
    "UNBOUNDED_COST",
    "Call",
    "CelCompileError",
    "CelDevice",
    "CelFeatures",
    "CelRuntimeError",
    "Checked",
    "Comprehension",
    "Condition",
    "Conjunct",
    "Constant",
    "CountedProgram",
    "DeclaredVariables",
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
    "compile_condition",
    "compile_rule",
    "compile_selector",
    "compile_validation",
    "compile_variable",
    "function_name",
    "list_of",
    "map_of",
    "parse",
    "plan_expression",
    "selector_environment",
    "split_conjuncts",
    "steps_spent",
    "value_of",
    "without_conjunct",
]
