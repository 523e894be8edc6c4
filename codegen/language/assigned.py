"""Which names an expression may write through.

Views share storage, so a view that is still to be read must be copied before a write to its variable. The writes
are slice assignments and rebindings of what a loop carries.
"""

from __future__ import annotations

from collections.abc import Iterator

from kilotune.codegen.language import syntax as ast


def assigned_names(node: ast.Expression, carried: frozenset[str]) -> frozenset[str]:
    """Names bound outside `node` whose elements `node` may change.

    `carried` are the names that enclosing loops carry: a plain `let` of one of them is a write, not a new binding.
    """
    names: set[str] = set()
    shadowed: set[str] = set()
    while isinstance(node, ast.LetExpression):  # no recursion along chains of lets, which are long
        for span in node.spans:
            names |= assigned_names(span.start, carried) - shadowed
        names |= assigned_names(node.value, carried) - shadowed
        if node.spans or node.name in carried:
            names |= {node.name} - shadowed
        else:
            shadowed.add(node.name)
        node = node.body
    if isinstance(node, ast.LoopExpression):
        names |= (assigned_names(node.body, carried | {node.carried.name}) | {node.carried.name}) - shadowed
        return frozenset(names)
    for part in ast.parts(node):
        names |= assigned_names(part, carried) - shadowed
    return frozenset(names)


def source_names(node: ast.Expression) -> frozenset[str]:
    """Every name that a program binds."""
    names: set[str] = set()
    for current in _expressions_in(node):
        if isinstance(current, ast.LetExpression):
            names.add(current.name)
        elif isinstance(current, ast.SumExpression | ast.LoopExpression):
            names.add(current.index)
    return frozenset(names)


def written_names(node: ast.Expression) -> frozenset[str]:
    """Every name that `assigned_names` finds in some part of a program: it need not be asked, which takes long, about others."""
    names: set[str] = set()
    for current in _expressions_in(node):
        if isinstance(current, ast.LoopExpression):
            names.add(current.carried.name)
        elif isinstance(current, ast.LetExpression) and current.spans:
            names.add(current.name)
    return frozenset(names)


def _expressions_in(node: ast.Expression) -> Iterator[ast.Expression]:
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(ast.parts(current))
