"""The parts of a JSON document, and documents with another part."""

import copy


def places(document, path=()):
    """All paths of a document but its root, its version and its kind."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for step, value in items:
        if (*path, step) not in (("apiVersion",), ("kind",)):
            yield (*path, step)
        yield from places(value, (*path, step))


def with_part(document, path, value):
    changed = copy.deepcopy(document)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return changed
