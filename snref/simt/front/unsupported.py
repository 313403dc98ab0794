"""What Python has and kernels do not: how a message calls it, and what to write."""

from __future__ import annotations

import ast

_ASYNC = "an ordinary function"
_INSTEAD: dict[str, tuple[str, str]] = {
    "Try": ("try", "a test before the operation that may fail"),
    "TryStar": ("try", "a test before the operation that may fail"),
    "With": ("with", "the statements inside"),
    "Import": ("import", "the import before the kernel"),
    "ImportFrom": ("import", "the import before the kernel"),
    "List": ("a list", "cuda.local.array, or a tuple"),
    "ListComp": ("a list comprehension", "a loop that fills a cuda.local.array"),
    "Set": ("a set", "a tuple"),
    "SetComp": ("a set comprehension", "a loop"),
    "Dict": ("a dictionary", "two arrays"),
    "DictComp": ("a dictionary comprehension", "a loop"),
    "GeneratorExp": ("a generator expression", "a loop"),
    "Global": ("global", "an array that is a parameter"),
    "Nonlocal": ("nonlocal", "the variable as an argument"),
    "ClassDef": ("class", "a record of an array, or a tuple"),
    "FunctionDef": ("def in a branch or loop", "the def at the kernel's beginning"),
    "AsyncFunctionDef": ("async def", _ASYNC),
    "AsyncFor": ("async for", _ASYNC),
    "AsyncWith": ("async with", _ASYNC),
    "Await": ("await", _ASYNC),
    "Yield": ("yield", "a store to an array"),
    "YieldFrom": ("yield from", "a loop"),
    "Starred": ("a starred expression", "a variable for each value"),
    "JoinedStr": ("an f-string as a value", "an f-string in print only"),
    "TemplateStr": ("a t-string", "an f-string in print only"),
    "Lambda": ("a lambda as a value", "f = lambda x: ..., and call f"),
    "Delete": ("del of an element", "the statements without it"),
    "TypeAlias": ("type", "the type before the kernel"),
}


def unsupported(node: ast.AST) -> str:
    """The problem to tell of for a statement or expression that no kernel can have.

    >>> unsupported(ast.parse("[i for i in range(3)]").body[0].value)
    'a list comprehension is not supported in a kernel: write a loop that fills a \
cuda.local.array'
    """
    what, instead = _INSTEAD.get(type(node).__name__, (f"'{ast.unparse(node)}'", ""))
    refused = f"{what} is not supported in a kernel"
    return f"{refused}: write {instead}" if instead else refused
