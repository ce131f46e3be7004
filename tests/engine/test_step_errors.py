"""What a step raises is recorded, and raised again: the same exception in every session."""

# ruff: noqa: TRY301, BLE001 - raised and caught as people do

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
import sys
from functools import partial

import pytest

from engine.rig import Actor, Rig, Solver, State, interrupt, simple_task
from holdfast import Answer, StepError
from holdfast.engine.trials.asking.step_errors import record_error, remade_error
from holdfast.models.errors import Unavailable
from holdfast.models.redaction import known_secrets
from holdfast.run.core.codec import decode, encode
from holdfast.run.core.records import Status, StepRecord

KILL = 50.0


class PlainError(Exception):
    """As most people write them."""


class WithStateError(Exception):
    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


class WithSlotsError(Exception):
    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code

    def __str__(self) -> str:
        return f"slot {self.code}"


class OwnNewError(Exception):
    def __new__(cls, *_args):
        raise RuntimeError("nobody makes me again")


def own_new() -> OwnNewError:
    made = Exception.__new__(OwnNewError, "made by a trick")
    made.code = 3
    return made


class OsWithInitError(OSError):
    def __init__(self, name: str) -> None:
        super().__init__(errno.ENOENT, f"no {name}")
        self.name = name


class WithObjectError(Exception):
    def __init__(self, thing: object) -> None:
        super().__init__("an object")
        self.thing = thing

    def __str__(self) -> str:
        return f"about {self.thing.name}"


class BrokenTextError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class LiarError(Exception):
    @property
    def __class__(self):
        return KeyboardInterrupt

    @property
    def __dict__(self):
        raise RuntimeError("no dict")

    args = property(lambda _: 1 / 0)


class OwnGroupError(ExceptionGroup):
    def __new__(cls, *_args):
        raise RuntimeError("nobody makes me again")


class DeepError(Exception):
    pass


def deep() -> DeepError:
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    return DeepError(nested)


def local() -> Exception:
    class LocalError(Exception):
        pass

    return LocalError("from inside")


def with_cause() -> Exception:
    try:
        raise KeyError("deep down")
    except KeyError as error:
        try:
            raise PlainError("because of it") from error
        except PlainError as raised:
            return raised


def with_notes() -> Exception:
    made = PlainError("noted")
    made.add_note("seen at noon")
    return made


def undecodable() -> Exception:
    try:
        b"ab\xff".decode()
    except UnicodeDecodeError as error:
        return error
    raise AssertionError


def unparsable() -> Exception:
    try:
        json.loads("{oops")
    except ValueError as error:
        return error
    raise AssertionError


SAME = {
    "plain": lambda: PlainError("a", 1, None, 2.5, True),
    "no arguments": PlainError,
    "built-in": lambda: ValueError("bad"),
    "key": lambda: KeyError("k"),
    "tuple": lambda: KeyError(("a", (1, 2))),
    "bytes": lambda: PlainError(b"\x00\xff", {"deep": [b"x"]}),
    "state": lambda: WithStateError(7, detail="seven"),
    "slots": lambda: WithSlotsError(7),
    "own __new__": own_new,
    "file": lambda: FileNotFoundError(errno.ENOENT, "no such file", "/tmp/x"),
    "own __init__ of an OSError": lambda: OsWithInitError("x"),
    "process": lambda: subprocess.CalledProcessError(2, ["make", "test"], b"out\xff", "err"),
    "timeout": lambda: subprocess.TimeoutExpired(["sleep"], 3.0),
    "unicode": undecodable,
    "json": unparsable,
    "syntax": lambda: SyntaxError("wrong", ("f.py", 3, 4, "x = (", 3, 5)),
    "import": lambda: ImportError("none", name="numpy", path="/x"),
    "attribute": lambda: AttributeError("no a", name="a", obj=object()),
    "cause": with_cause,
    "notes": with_notes,
    "no text": lambda: BrokenTextError("x"),
    "huge": lambda: subprocess.CalledProcessError(1, "x", "y" * 9_000_000),
    "group": lambda: ExceptionGroup("several", [ValueError("a"), ExceptionGroup("inner", [PlainError(("b",))])]),
    "group of its own": lambda: ExceptionGroup.__new__(OwnGroupError, "own", [ValueError("a")]),
    "refused connection": lambda: ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
}


def state(error: BaseException) -> tuple:
    """Everything that a solver could compare."""
    members = [state(one) for one in getattr(error, "exceptions", ())]
    names = ("errno", "strerror", "filename", "encoding", "object", "start", "end", "reason", "msg", "name", "path")
    found = [getattr(error, name, None) for name in (*names, "lineno", "text", "code")]
    args = () if members else error.args
    try:
        text = str(error)
    except RuntimeError:
        text = "broken"
    return type(error), args, dict(vars(error)), found, text, members


def recorded_twice(error: Exception) -> tuple[Exception, Exception]:
    """The exception as it is raised live, and as it is read back from the journal."""
    raised = record_error(error, frozenset(sys.modules))
    line = encode(StepRecord(trial="t", attempt=1, step="s", raised=raised))
    return remade_error("s", raised), remade_error("s", decode(line).raised)


@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_steps_5_the_same_exception_comes_back(make):
    """Type, arguments, attributes, slots and message; no constructor of its class is called."""
    error = make()
    for again in recorded_twice(error):
        assert again is not error
        assert state(again) == state(error)
        assert again.__cause__ is None and again.__traceback__ is None


OTHERS = {
    "local class": (local, "LocalError: from inside", "top level of a module"),
    "object in arguments": (lambda: PlainError(object()), "PlainError: <object", "arguments cannot be recorded"),
    "message from an object": (
        lambda: WithObjectError(type("T", (), {"name": "x"})),
        "WithObjectError: about x",
        "message",
    ),
    "deep": (deep, "DeepError: ", "arguments cannot be recorded"),
    "infinite": (lambda: PlainError(float("inf")), "PlainError: inf", "arguments"),
    "surrogate": (lambda: PlainError("\ud800"), "PlainError: ", "arguments"),
    "looks like a tuple": (lambda: PlainError({"!tuple": [1]}), "PlainError: ", "arguments"),
}


@pytest.mark.parametrize(("make", "text", "reason"), OTHERS.values(), ids=OTHERS)
def test_steps_5_what_cannot_be_made_again_is_a_step_error_both_times(make, text, reason):
    """It names the class and the message, and says why."""
    live, replayed = recorded_twice(make())
    assert type(live) is type(replayed) is StepError
    assert text in str(live) and reason in live.hint
    assert str(live) == str(replayed) and live.error_type == replayed.error_type


def test_steps_5_an_exception_that_lies_about_itself_harms_nobody():
    """Neither its class, nor its arguments, nor its __dict__ is what it says."""
    live, replayed = recorded_twice(LiarError("x"))
    assert type(live) is type(replayed)
    assert str(live) == str(replayed)


def test_steps_5_a_class_that_is_imported_later_is_not_made_again(monkeypatch):
    """The next session may not have it either: what decides is what was there before the first trial."""
    raised = record_error(PlainError("x"), frozenset(sys.modules) - {__name__})
    error = remade_error("s", raised)
    assert type(error) is StepError and "import it at the top" in error.hint
    gone = record_error(PlainError("x"), frozenset(sys.modules))
    monkeypatch.delitem(sys.modules, __name__)
    assert type(remade_error("s", gone)) is StepError


@pytest.mark.parametrize("name", ["os:system", "os:path", "builtins:SystemExit", "nowhere:X", "builtins:int", ":", "x"])
def test_steps_5_only_an_exception_is_ever_made_from_a_record(name):
    """Whatever the bytes say, nothing else is called."""
    raised = record_error(ValueError("x"), frozenset(sys.modules))
    forged = type(raised)(name, "x", raised.args)
    assert type(remade_error("s", forged)) is StepError


def test_steps_5_no_known_key_is_recorded(monkeypatch):
    """Neither in arguments, nor in attributes, nor in bytes, nor in the traceback."""
    secret = "sk-verysecret-0123456789"
    monkeypatch.setattr(known_secrets, "_names", {})
    monkeypatch.setattr(known_secrets, "_needles", ())
    known_secrets.remember("MY_KEY", secret)
    error = subprocess.CalledProcessError(1, ["curl", secret], f"Bearer {secret}".encode(), {secret: secret})
    raised = record_error(error, frozenset(sys.modules))
    line = encode(StepRecord(trial="t", attempt=1, step="s", raised=raised))
    made = remade_error("s", raised)
    assert secret.encode() not in line and secret not in repr(vars(made))
    assert made.output == b"Bearer [MY_KEY]" and made.cmd == ["curl", "[MY_KEY]"]


# In trials.


class Catcher(State):
    """A solver that catches what a step raises, and waits for a kill in its first session."""

    def __init__(self, function, *args, **kwargs) -> None:
        super().__init__(partial(function, *args, **kwargs))
        self.is_stopped = True
        self.caught: list[BaseException] = []
        self.ran = 0

    async def __call__(self, trial):
        def counted():
            self.ran += 1
            return self.value()

        try:
            await trial.step("risky", counted)
        except Exception as error:
            self.caught.append(error)
        if self.is_stopped:
            await asyncio.sleep(10_000.0)
        return "done"


def killed_and_resumed(tmp_path, solver) -> Rig:
    rig = Rig(tmp_path / "r", simple_task(1, solver), settings={"max_retries": 0})
    rig.killed_session(KILL)
    solver.is_stopped = False
    rig.session()
    assert rig.is_sound()
    return rig


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error", [PlainError("a", 1), KeyError(("x", 1)), WithStateError(3, detail="d"), local()], ids=repr
)
def test_steps_5_a_caught_exception_is_raised_again_and_the_function_does_not_run_again(tmp_path, error):
    """The solver catches the same in both sessions; the step is one record."""
    solver = Catcher(fail, error)
    rig = killed_and_resumed(tmp_path, solver)
    live, replayed = solver.caught
    assert solver.ran == 1 and len(rig.records(StepRecord)) == 1
    assert state(live) == state(replayed)
    assert rig.ends()[-1].status is Status.VALID


OUTAGES = {
    "full disk": OSError(errno.ENOSPC, "No space left on device"),
    "quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "read-only": OSError(errno.EROFS, "Read-only file system"),
    "files": OSError(errno.EMFILE, "Too many open files"),
    "input/output": OSError(errno.EIO, "Input/output error"),
    "memory": MemoryError(),
    "model": Unavailable("no reply"),
    "group": ExceptionGroup("g", [ValueError("x"), OSError(errno.ENOSPC, "full")]),
}


def because_of(error):
    try:
        raise error
    except Exception as cause:
        raise PlainError("could not write") from cause


def while_handling(error):
    try:
        raise error
    except Exception:
        raise PlainError("could not write")  # noqa: B904 - as people do


@pytest.mark.parametrize("error", OUTAGES.values(), ids=OUTAGES)
@pytest.mark.parametrize("way", [fail, because_of, while_handling])
def test_steps_5_an_outage_is_not_recorded_and_the_step_runs_again(tmp_path, way, error):
    """Also where the function has wrapped it in an error of its own."""
    solver = Catcher(way, error)
    rig = killed_and_resumed(tmp_path, solver)
    assert solver.ran == 2
    assert rig.records(StepRecord) == []


def test_steps_5_what_the_solver_was_handling_is_no_cause_of_what_the_step_raised(tmp_path):
    """A step that a solver calls after an outage of its own is recorded all the same."""
    ran, caught = [], []

    async def cleanup():
        ran.append(1)
        raise PlainError("not cleaned")

    async def work(trial):
        try:
            raise OSError(errno.ENOSPC, "full")
        except OSError:
            try:
                await trial.step("clean up", cleanup)
            except PlainError as error:
                caught.append(error)
        if len(caught) < 2:
            await asyncio.sleep(10_000.0)
        return "done"

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)))
    rig.killed_session(KILL)
    rig.session()
    assert len(ran) == 1 and len(caught) == 2


def test_steps_5_an_exception_after_a_signal_is_not_recorded(tmp_path):
    """The signal may have ended what the function was waiting for; it runs again when the run is resumed."""
    ran = []

    async def slow():
        ran.append(1)
        if len(ran) == 1:
            await asyncio.sleep(10.0)
            raise PlainError("ended by the signal")
        return "fine"

    async def work(trial):
        return await trial.step("slow", slow)

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), at={5.0: interrupt})
    rig.session()
    assert rig.records(StepRecord) == []
    rig.session()
    assert len(ran) == 2 and rig.ends()[-1].status is Status.VALID


def test_steps_5_a_step_that_raises_uncaught_fails_the_attempt_and_the_next_one_asks_anew(tmp_path):
    """The record belongs to its attempt: another attempt runs the function again."""
    ran = []

    def flaky():
        ran.append(1)
        if len(ran) == 1:
            raise PlainError("once")
        return "fine"

    async def work(trial):
        return Answer(await trial.step("flaky", flaky))

    settings = {"max_retries": 1, "fail_fast": False}
    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)), {"m": Actor()}, settings=settings)
    rig.session()
    first, last = rig.ends()
    assert (first.status, last.status) == (Status.FAILED, Status.VALID)
    assert first.error.kind == "PlainError" and "flaky" in first.error.traceback
    assert len(ran) == 2


def test_steps_5_a_result_that_cannot_be_recorded_is_not_computed_again(tmp_path):
    """The function has run: the refusal of its result is what a replay raises."""
    solver = Catcher(object)
    killed_and_resumed(tmp_path, solver)
    assert solver.ran == 1
    assert [str(error) for error in solver.caught] == [str(solver.caught[0])] * 2


def lying(of: type) -> Exception:
    """An exception that says it is something else, and raises wherever it is looked at."""
    fields = dict.fromkeys(
        ("exceptions", "errno", "__cause__", "__context__", "__traceback__"), property(lambda _: 1 / 0)
    )
    return type("LyingError", (OSError,), {**fields, "__class__": property(lambda _: of), "__module__": "a\ud800b"})(
        "x"
    )


@pytest.mark.parametrize("of", [ExceptionGroup, MemoryError, KeyboardInterrupt, StepError, int])
def test_steps_5_what_an_exception_says_it_is_does_not_count(tmp_path, of):
    """It is recorded as what it is, and the session goes on."""
    solver = Catcher(fail, lying(of))
    rig = killed_and_resumed(tmp_path, solver)
    assert solver.ran == 1 and len(rig.records(StepRecord)) == 1
    assert [type(error) for error in solver.caught] == [StepError] * 2


class EndingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def surrogates() -> Exception:
    made = PlainError("x")
    made.__dict__["\ud800"] = 1
    made.table = {"\ud800": 1}
    return made


@pytest.mark.parametrize("make", [lambda: EndingError("x"), surrogates])
def test_steps_5_an_exception_that_cannot_even_be_printed_is_recorded(tmp_path, make):
    """Whatever happens when it is looked at, the solver gets the same twice."""
    solver = Catcher(fail, make())
    killed_and_resumed(tmp_path, solver)
    assert solver.ran == 1
    assert type(solver.caught[0]) is type(solver.caught[1])


def test_steps_5_an_answer_to_a_cancellation_is_not_recorded(tmp_path):
    """A function that turns its cancellation into an error of its own runs again."""
    ran = []

    async def slow():
        ran.append(1)
        try:
            await asyncio.sleep(100.0)
        except asyncio.CancelledError:
            raise PlainError("stopped") from None

    async def work(trial):
        try:
            async with asyncio.timeout(1.0):
                await trial.step("slow", slow)
        except (PlainError, TimeoutError):
            pass
        return "done"

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)))
    rig.session()
    assert ran == [1] and rig.records(StepRecord) == []


def test_steps_5_a_timeout_of_the_function_is_recorded(tmp_path):
    """Behind it is a cancellation, but one of the function's own."""
    ran, caught = [], []

    async def slow():
        ran.append(1)
        async with asyncio.timeout(1.0):
            await asyncio.sleep(100.0)

    async def work(trial):
        try:
            await trial.step("slow", slow)
        except TimeoutError as error:
            caught.append(error)
        if len(caught) < 2:
            await asyncio.sleep(10_000.0)
        return "done"

    rig = Rig(tmp_path / "r", simple_task(1, Solver(work)))
    rig.killed_session(KILL)
    rig.session()
    assert ran == [1] and len(caught) == 2
