"""Exceptions that functions of steps raise: as they are recorded, and made again from the record.

**What a solver catches is the same in the session that ran the step and in every later one.** So an exception is
always raised as it was recorded. It is made again without any code of its own: by the built-in `__new__` that it
inherits, with the recorded arguments and attributes, and only from a class that was imported before the first trial.
Whether that gives the same exception is tried when it is recorded; if not, `StepError` is raised, then and later.

Outages are not recorded, because the function may do better the next time: it runs again.
"""

from __future__ import annotations

import base64
import errno
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from types import BuiltinFunctionType, MemberDescriptorType, ModuleType, TracebackType
from typing import Any, cast

from holdfast.engine.trials.error_boundary import LimitReached, error_text, guard_call, redacted_traceback
from holdfast.errors import RunHeld, StepError, StorageFailure
from holdfast.models.errors import ModelError
from holdfast.models.message import encodable
from holdfast.models.redaction import redact_error, redact_error_json
from holdfast.run.core.records import RaisedError
from holdfast.tasks.json_values import Unrecordable, recorded
from holdfast.tasks.source.importing import main_module_name

_OUTAGES = (ModelError, LimitReached, MemoryError, StorageFailure, RunHeld)
_OUTAGE_NUMBERS = frozenset(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EIO", "EROFS", "EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "ENOBUFS", "ESTALE")
    if hasattr(errno, name)
)
"""The disk is full, broken or read-only; memory, files or processes have run out: states of this machine, not of what
the function was asked. A refused connection or a missing file may be just what it was to find out, and is recorded."""
_TUPLE, _BYTES = "!tuple", "!bytes"
_NOT_STATE = {AttributeError: {"obj"}, BaseExceptionGroup: {"message", "exceptions"}}
"""Fields of built-in exceptions that hold other objects, or that their `__new__` sets."""


class _CannotRemake(ValueError):  # noqa: N818 - reads as a sentence where it is raised
    """The exception cannot be made again; the message is a sentence about it."""


# Outages.


def is_outage(error: BaseException, handled: BaseException | None = None) -> bool:
    """Whether it says nothing about what the function was asked: it is not an `Exception`, or an outage led to it.

    `handled` is what the solver was handling when it called the step: no part of what the function did.
    """
    if not all(issubclass(type(one), Exception) for one in _leaves(error)):
        return True
    return any(_is_outage_itself(one) for one in _causes(error, handled))


def _leaves(error: BaseException) -> Iterator[BaseException]:
    waiting = [error]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += _group_members(one)


# What an exception says of itself may be overridden in its class: the following ask what it really is.


def _group_members(error: BaseException) -> Sequence[BaseException]:
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    members: Sequence[BaseException] = vars(BaseExceptionGroup)["exceptions"].__get__(error)
    return members


def _field(error: BaseException, name: str, owner: type = BaseException) -> Any:
    return vars(owner)[name].__get__(error)


def traceback_of(error: BaseException) -> TracebackType | None:
    """Its traceback."""
    found: TracebackType | None = _field(error, "__traceback__")
    return found


def with_traceback(error: Exception, trace: TracebackType | None) -> Exception:
    """The same exception with another traceback."""
    BaseException.with_traceback(error, trace)
    return error


def _causes(error: BaseException, handled: BaseException | None) -> Iterator[BaseException]:
    """The error and everything that led to it, each once."""
    waiting: list[BaseException | None] = [error]
    seen = {id(handled)}
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [_field(one, "__cause__"), _field(one, "__context__"), *_group_members(one)]


def _is_outage_itself(error: BaseException) -> bool:
    if issubclass(type(error), OSError):
        return _field(error, "errno", OSError) in _OUTAGE_NUMBERS
    return issubclass(type(error), _OUTAGES)


# Recording.


def record_error(error: BaseException, imported: Collection[str]) -> RaisedError:
    """The exception as it is recorded; `imported` are the modules whose classes may be made again."""
    described = guard_call(_describe, error, imported)
    if isinstance(described.value, RaisedError):
        return described.value
    reason = str(described.error) if type(described.error) is _CannotRemake else "It cannot be described."
    name, text, trace = (guard_call(make, error).value for make in (_type_name, error_text, redacted_traceback))
    return RaisedError(str(name or "?:?"), str(text or ""), traceback=str(trace or ""), lost=reason)


def _type_name(error: BaseException) -> str:
    """The module and the qualified name of its class; of the file that a process was started with, as if imported."""
    module, name = (type.__getattribute__(type(error), part) for part in ("__module__", "__qualname__"))
    spelled = f"{main_module_name() or module}:{name}" if module == "__main__" else f"{module}:{name}"
    # Where the file is also imported, its classes are other ones.
    found: str = encodable(spelled if _find_class(spelled) is type(error) else f"{module}:{name}")
    return found


def _describe(error: BaseException, imported: Collection[str]) -> RaisedError:
    """Raises _CannotRemake, or anything that the exception's own code raises."""
    name = _type_name(error)
    if type.__getattribute__(type(error), "__module__") not in imported:
        raise _CannotRemake("Its class was not imported before the first trial: import it at the top of the file.")
    if _find_class(name) is not type(error):
        raise _CannotRemake("Its class cannot be found by its name: define it at the top level of a module.")
    args, attributes = _state_of(error)
    members = tuple([record_error(one, imported) for one in _group_members(error)])
    raised = RaisedError(name, error_text(error), args, attributes, members, redacted_traceback(error))
    recorded(raised)
    _check_remade(error, raised)
    return raised


def _state_of(error: BaseException) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of an exception and those of its attributes that can be recorded."""
    args: tuple[Any, ...] = _field(error, "args")
    if _group_members(error):
        args = args[:1]
    spelled = guard_call(_spell, list(args))
    if spelled.error is not None:
        raise _CannotRemake("Its arguments cannot be recorded.")
    found = {name: guard_call(_spell, value) for name, value in _attributes(error)}
    kept = {name: one.value for name, one in found.items() if one.error is None}
    return cast("list[Any]", spelled.value), cast("dict[str, Any]", redact_error_json(kept))


def _attributes(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What is in its `__dict__`, and in the fields and slots of its classes."""
    for name, member in _members(type(error)).items():
        value = guard_call(member.__get__, error).value
        if value is not None:
            yield name, value
    yield from ((name, value) for name, value in _own_dict(error).items() if type(name) is str)


def _members(type_: type) -> dict[str, MemberDescriptorType]:
    return {
        name: member
        for base in reversed(type_.__mro__)
        for name, member in vars(base).items()
        if isinstance(member, MemberDescriptorType) and not name.startswith("__")
        if name not in _NOT_STATE.get(base, ())
    }


def _own_dict(error: BaseException) -> dict[str, Any]:
    """Its `__dict__`, also where its class calls something else so."""
    found: dict[str, Any] = _field(error, "__dict__")
    return found


def _spell(value: Any) -> Any:
    """A value as JSON that is read back as the same; what JSON cannot tell apart has a mark.

    Raises:
        Unrecordable: it cannot be recorded.
    """
    if type(value) is tuple:
        return {_TUPLE: [_spell(item) for item in value]}
    if type(value) is bytes:
        # Keys are ASCII, so they are found in any bytes.
        return {_BYTES: base64.b64encode(redact_error(value.decode("latin-1")).encode("latin-1")).decode()}
    if type(value) is list:
        return [_spell(item) for item in value]
    if type(value) is dict and all(type(key) is str for key in value):
        if not value.keys().isdisjoint((_TUPLE, _BYTES)):
            raise Unrecordable("looks like something else")
        return {redact_error(key): _spell(item) for key, item in value.items()}
    return redact_error_json(recorded(str(value) if isinstance(value, PurePath) else value))


def _unspell(value: Any) -> Any:
    if isinstance(value, list):
        return [_unspell(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and _TUPLE in value:
        return tuple(_unspell(value[_TUPLE]))
    if len(value) == 1 and _BYTES in value:
        return base64.b64decode(value[_BYTES])
    return {key: _unspell(item) for key, item in value.items()}


def _check_remade(error: BaseException, raised: RaisedError) -> None:
    """Raises _CannotRemake if the recorded exception would not be the same."""
    made = _remake(raised)
    if _state_of(made) != (raised.args, raised.attributes):
        raise _CannotRemake("Its arguments or attributes cannot be set again.")
    before, after = guard_call(str, error), guard_call(str, made)
    if type(before.error) is not type(after.error) or (
        before.error is None and redact_error(str(before.value)) != redact_error(str(after.value))
    ):
        raise _CannotRemake("Its message depends on something that cannot be recorded.")


# Making it again.


def remade_error(step: str, raised: RaisedError) -> Exception:
    """The exception that a step raised, or `StepError` where it cannot be made again."""
    made = guard_call(_remake, raised) if not raised.lost else None
    if made is not None and isinstance(made.value, Exception):
        return made.value
    module, _, name = raised.type.partition(":")
    shown = name if module == "builtins" else f"{module}.{name}"
    hint = raised.lost or "Its class is not imported here, or is another one than it was."
    return StepError(step, shown, raised.message, hint=hint)


def _remake(raised: RaisedError) -> Exception:
    class_ = _find_class(raised.type)
    if class_ is None:
        raise _CannotRemake("Its class does not exist here.")
    args = _unspell(raised.args)
    given = [*args, [remade_error(raised.type, one) for one in raised.members]] if raised.members else args
    made = _builtin_new(class_)(class_, *given)
    if type(made) is not class_:
        raise _CannotRemake("Its class makes another one.")
    if not raised.members:
        BaseException.args.__set__(made, tuple(args))  # type: ignore[attr-defined]
    members = _members(class_)
    for name, value in _unspell(raised.attributes).items():
        if name in members:
            members[name].__set__(made, value)
        else:
            _own_dict(made)[name] = value
    return made


def _find_class(name: str) -> type[Exception] | None:
    """The class of an exception, if it is imported; neither it nor anything on the way to it is executed."""
    module, _, path = name.partition(":")
    found: object = sys.modules.get(module) or (
        sys.modules.get("__main__") if module and module == main_module_name() else None
    )
    for part in path.split("."):
        # Not getattr: a module may import something for a name that it does not have.
        found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _builtin_new(class_: type[Exception]) -> Any:
    """The first `__new__` that is not written in Python."""
    found = (vars(base).get("__new__") for base in class_.__mro__)
    return next(new for new in found if isinstance(new, BuiltinFunctionType))
