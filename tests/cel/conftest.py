import pytest

from policies.cel.parser import parse
from policies.cel.syntax import Call, Identifier, ListLiteral, Literal, MapLiteral, Select, StructLiteral


def _listed(nodes):
    return ", ".join(map(_written, nodes))


def _entries(entries):
    return ", ".join(
        f"{'?' * entry.optional}{entry.key if isinstance(entry.key, str) else _written(entry.key)}: {_written(entry.value)}"
        for entry in entries
    )


def _written(node):
    match node:
        case Literal():
            return repr(node.value)
        case Identifier():
            return node.name
        case Select():
            return f"{_written(node.operand)}.{node.field}{'~' * node.test_only}"
        case Call():
            return f"{_written(node.target) + '.' if node.target else ''}{node.function}({_listed(node.arguments)})"
        case ListLiteral():
            return f"[{_listed(node.elements)}]" + f"?{sorted(node.optional)}" * bool(node.optional)
        case MapLiteral():
            return f"{{{_entries(node.entries)}}}"
        case StructLiteral():
            return f"{node.type_name}{{{_entries(node.fields)}}}"
    variables = f"{node.variable}, {node.second_variable}" if node.second_variable else node.variable
    return (
        f"fold {variables} in {_written(node.range)}: {node.accumulator} = {_written(node.initial)} "
        f"while {_written(node.condition)} do {_written(node.step)} give {_written(node.result)}"
    )


@pytest.fixture(scope="session")
def tree_of():
    """What an expression is read as: calls with their functions' names, `~` behind a test for presence, folds spelled out."""
    return lambda text, **options: _written(parse(text, **options))
