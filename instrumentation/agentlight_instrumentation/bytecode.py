"""Wrap a named function by replacing its code object, before the code that defines it runs.

The module's code holds the code of every function in it as a constant. Swapping that constant covers all names
that the function will ever be bound to, early or late, every closure and every decorated form, in `__main__` too.
The new code has the old one's signature, flags and free variables; it runs the old code between two calls of a handler.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Generator, Iterator
from types import CodeType
from typing import Any, Protocol

_HANDLER = "agentlight handler"
# Names of our own start with `agentlight_`: a parameter or free variable may be called `inner` or `result`.
_HEAD = """\
def outer():
  {free}
  {define} replacement({parameters}):
    {doc}
    def agentlight_inner(): {names}
    agentlight_handler = {handler!r}
"""
_FUNCTION = """\
    agentlight_state = agentlight_handler.begin({values})
    try:
        agentlight_result = {get} agentlight_inner({arguments})
    except BaseException as agentlight_error:
        agentlight_handler.end(agentlight_state, None, agentlight_error)
        raise
    agentlight_handler.end(agentlight_state, agentlight_result, None)
    return agentlight_result
"""
_GENERATOR = """\
    return (yield from agentlight_handler.steps({values}, agentlight_inner({arguments})))
"""
_ASYNC_GENERATOR = """\
    agentlight_steps, agentlight_value = agentlight_inner({arguments}), None
    agentlight_step, agentlight_state = agentlight_steps.asend, agentlight_handler.begin({values})
    try:
        while True:
            try:
                agentlight_value = await agentlight_step(agentlight_value)
            except StopAsyncIteration:
                break
            agentlight_handler.leave(agentlight_state)
            try:
                agentlight_value = yield agentlight_value
                agentlight_step = agentlight_steps.asend
            except GeneratorExit:
                await agentlight_steps.aclose()
                raise
            except BaseException as agentlight_error:
                agentlight_step, agentlight_value = agentlight_steps.athrow, agentlight_error
            agentlight_handler.enter(agentlight_state)
    except BaseException as agentlight_error:
        agentlight_handler.end(agentlight_state, None, agentlight_error)
        raise
    agentlight_handler.end(agentlight_state, None, None)
"""
_HAS_DOCSTRING = 0x4000000  # from Python 3.13 on; before, a first constant that is text is the docstring


class NotFound(LookupError):
    """The module's code defines no function of that name; the message lists what it does define."""


class Handler(Protocol):
    """What is done around each call of a function; none of it may raise."""

    def begin(self, arguments: dict[str, Any]) -> Any:
        """The function is about to run with these arguments; what this returns is handed to the others."""

    def end(self, state: Any, result: Any, error: BaseException | None) -> None:
        """The function has returned, or raised."""

    def leave(self, state: Any) -> None:
        """A generator hands out a value: until `enter`, other code runs."""

    def enter(self, state: Any) -> None: ...

    def steps(self, arguments: dict[str, Any], generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """All of that around a generator."""
        ...


def observe(module: CodeType, qualname: str, handler: Handler) -> CodeType:
    """The module's code with `handler` around each call of the function. Raises NotFound."""
    functions = list(_functions(module, ""))
    targets = [code for name, code in functions if name == qualname]  # an if and its else may define one each
    if not targets:
        known = dict.fromkeys(name for name, _ in functions)
        raise NotFound(f"no function {qualname!r}; it defines: {', '.join(known) or 'no function'}")
    for target in targets:
        module = _replaced(module, target, trampoline(target, handler))
    return module


def _functions(code: CodeType, prefix: str) -> Iterator[tuple[str, CodeType]]:
    # co_qualname is 3.11; the names of the enclosing code objects give the same.
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            name = prefix + constant.co_name
            is_function = bool(constant.co_flags & inspect.CO_NEWLOCALS)
            if is_function and not constant.co_name.startswith("<"):
                yield name, constant
            if constant.co_name.startswith("<generic parameters of "):  # `def f[T](x: T)`, Python 3.12
                yield from _functions(constant, prefix)
            else:
                yield from _functions(constant, f"{name}.<locals>." if is_function else f"{name}.")


def _replaced(code: CodeType, old: CodeType, new: CodeType) -> CodeType:
    return code.replace(
        co_consts=tuple(
            new if constant is old else _replaced(constant, old, new) if isinstance(constant, CodeType) else constant
            for constant in code.co_consts
        )
    )


def trampoline(code: CodeType, handler: Handler) -> CodeType:
    """Code with `code`'s signature and kind that runs it between the calls of `handler`."""
    flags = code.co_flags
    is_async = bool(flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
    body = _GENERATOR if flags & inspect.CO_GENERATOR else _FUNCTION
    body = _ASYNC_GENERATOR if flags & inspect.CO_ASYNC_GENERATOR else body
    parameters, arguments = _signature(code)
    names = [name for name in code.co_varnames[: _parameters(code)] if not name.startswith("agentlight_")]
    # A function compiled inside another that binds the same names gets the same free variables, in the same
    # order, so the closure that was made for the old code fits the new one and the old one within it.
    source = (_HEAD + body).format(
        free="; ".join(f"{name} = None" for name in code.co_freevars) or "pass",
        define="async def" if is_async else "def",
        parameters=parameters,
        doc=repr(_docstring(code)),
        names="; ".join(code.co_freevars) or "pass",
        get="await" if is_async else "",
        arguments=arguments,
        values="{" + ", ".join(f"{name!r}: {name}" for name in names) + "}",
        handler=_HANDLER,
    )
    tree = ast.parse(source)
    for node in ast.walk(tree):  # in a traceback, our frame is at the line of the definition
        if isinstance(node, (ast.stmt, ast.expr, ast.arg)):
            node.lineno = node.end_lineno = code.co_firstlineno
            node.col_offset = node.end_col_offset = 0
    compiled = compile(tree, code.co_filename, "exec", dont_inherit=True)
    replacement = _constant(_constant(compiled, "outer"), "replacement")
    consts = tuple(
        code if isinstance(constant, CodeType) else handler if constant == _HANDLER else constant
        for constant in replacement.co_consts
    )
    changes: dict[str, Any] = {
        "co_consts": consts, "co_name": code.co_name, "co_firstlineno": code.co_firstlineno,
        "co_flags": replacement.co_flags | (code.co_flags & inspect.CO_NESTED),
    }  # fmt: skip
    if hasattr(code, "co_qualname"):
        changes["co_qualname"] = code.co_qualname  # type: ignore[attr-defined]  # 3.11
    return replacement.replace(**changes)


def _docstring(code: CodeType) -> str | None:
    marked = sys.version_info < (3, 13) or code.co_flags & _HAS_DOCSTRING
    first = code.co_consts[0] if marked and code.co_consts else None
    return first if isinstance(first, str) else None


def _constant(code: CodeType, name: str) -> CodeType:
    return next(item for item in code.co_consts if isinstance(item, CodeType) and item.co_name == name)


def _parameters(code: CodeType) -> int:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _signature(code: CodeType) -> tuple[str, str]:
    """The parameter list of a definition and the argument list of a call that passes everything on."""
    names = list(code.co_varnames)
    positional, keyword_only = names[: code.co_argcount], names[code.co_argcount :][: code.co_kwonlyargcount]
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    parameters, arguments = list(positional), list(positional)
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        star = rest.pop(0)
        parameters.append(f"*{star}")
        arguments.append(f"*{star}")
    elif keyword_only:
        parameters.append("*")
    parameters += keyword_only
    arguments += [f"{name}={name}" for name in keyword_only]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        parameters.append(f"**{rest[0]}")
        arguments.append(f"**{rest[0]}")
    return ", ".join(parameters), ", ".join(arguments)
