"""Every supported way to use the public names; checked by the type checker, never executed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from holdfast import (
    Answer,
    Blocked,
    ConfigurationError,
    HoldfastError,
    ImagePart,
    Message,
    ModelError,
    NotARun,
    RawPart,
    Reply,
    ReplyWithoutText,
    Report,
    ResumeAborted,
    Run,
    RunHeld,
    Sample,
    Score,
    ScoreScope,
    StorageFailure,
    Task,
    TextPart,
    ToolCall,
    ToolCallReply,
    Trial,
    TrialLimits,
    Usage,
    UsageError,
    __version__,
    choice,
    evaluate,
    evaluate_async,
    exact,
    fork,
    generate,
    includes,
    list_recoverable,
    numeric,
    recover,
    recover_async,
    regex,
    scorer,
    task,
)
from holdfast.events import (
    AttemptEnded,
    CallRetried,
    Event,
    Interrupted,
    LimitChanged,
    ModelDisabled,
    Note,
    Observer,
    SessionEnded,
    SessionStarted,
    StepRecorded,
    TrialLeft,
    TrialStarted,
    UploadReported,
)
from holdfast.providers import (
    Generation,
    ModelSpec,
    Opener,
    PassingError,
    Provider,
    RateLimited,
    Rejected,
    Request,
    Timeouts,
    Unavailable,
    read_key,
    read_options,
    redact,
)
from holdfast.sampling import Repair, length

version: str = __version__


class ProviderOptions(msgspec.Struct):
    mark: str = "!"


class OwnProvider:
    def __init__(self, options: ProviderOptions, key: str, timeouts: Timeouts) -> None:
        self.mark, self.key, self.seconds = options.mark, key, timeouts.total

    async def send(self, request: Request) -> Reply:
        generation: Generation = request.generation
        last: Message = request.messages[-1]
        if generation.temperature:
            raise RateLimited("slower", status=429, retry_after=2.0)
        if generation.max_tokens == 1:
            raise Unavailable("later", detail="down")
        if not last.content:
            raise Rejected("empty", status=400, hint="Say something.")
        return Reply(redact(last.text + self.mark), "stop", Usage(1, 2), model="own")

    async def close(self) -> None:
        return None


def open_own(spec: ModelSpec) -> OwnProvider:
    """An own provider."""
    options = read_options(f"Model {spec.model}", spec.args, ProviderOptions)
    return OwnProvider(options, read_key(spec.model, spec.api_key_env or "OWN_KEY"), spec.timeouts)


opener: Opener = open_own
provider: Provider = open_own(ModelSpec(provider="own", model="m"))


def wait_of(error: ModelError) -> float:
    return error.retry_after or 0.0 if isinstance(error, PassingError) else 0.0


async def returns_a_reply(trial: Trial) -> Reply:
    reply = await trial.generate("one", temperature=0.5)
    reply = await trial.generate(Message("user", reply.text))
    return await trial.generate([Message("system", "brief"), Message("user", "two")], max_tokens=5)


async def returns_text(trial: Trial) -> str:
    place: tuple[str, int, int] = (trial.model, trial.epoch, trial.seed)
    tone: str = trial.axes["tone"]
    said: list[str] = [message.text for message in trial.messages]
    return f"{place} {tone} {said} {trial.sample.input}"


def count(words: list[str]) -> int:
    return len(words)


async def fetch(url: str) -> str:
    return url


async def returns_an_answer(trial: Trial) -> Answer:
    number = await trial.step("count", count, ["a", "b"])
    page = await trial.step("fetch", fetch, "u", on_interrupted="fail")
    padded: str = await trial.step("pad", str.rjust, "x", width=3)
    moment: float = (await trial.now()).timestamp() + await trial.random() + (await trial.uuid()).time
    assert moment and padded
    first, second = await asyncio.gather(trial.generate("a"), trial.generate("b"))
    usage: Usage = (first.usage or Usage()) + (second.usage or Usage(input_tokens=1))
    return Answer(first.text, value={"number": number, "page": page, "tokens": usage.output_tokens})


async def calls_tools(trial: Trial) -> Reply | str:
    picture = ImagePart("https://example.org/a.png", detail="low")
    asked = Message("user", (TextPart("What is it?"), picture, RawPart({"type": "file", "file": {"file_id": "f"}})))
    reply = await trial.generate(asked, extra_body={"tools": []})
    calls: tuple[ToolCall, ...] = reply.tool_calls
    results = [Message("tool", call.arguments, tool_call_id=call.id) for call in calls]
    reply = await trial.generate([*trial.messages[:-1], reply.message, *results])
    try:
        return reply.text or reply.refusal or str(reply.other)
    except ToolCallReply as error:
        return error.hint
    except ReplyWithoutText as error:
        return error.message


async def samples_twice(trial: Trial) -> str:
    first = await trial.generate("one", requirements=[length(max=9)])
    found = await trial.scope("again").generate("two", strategy=Repair(loop_budget=2), temperature=0.5)
    return found.text if found.success else f"{found.stop_reason} {len(first.candidates)}"


async def returns_any(trial: Trial) -> Answer | Reply | str:
    try:
        return await trial.generate("x")
    except Blocked as error:
        return f"blocked {error.status}"
    except ModelError as error:
        return error.detail


@scorer
def by_length(answer: Answer, sample: Sample) -> bool:
    return len(answer.text) > len(str(sample.target))


@scorer(name="graded", needs_target=True)
async def graded(answer: Answer, sample: Sample) -> Score:
    return Score(0.5, answer=answer.text, explanation="half", metadata={"target": sample.target})


@scorer
async def judged(answer: Answer, sample: Sample, scope: ScoreScope) -> Score:
    reply = await scope.generate(f"Is it polite? {answer.text}", model="judge", temperature=0.0)
    with scope.scope("again"):
        length: int = await scope.step("length", len, reply.text)
    return Score(length) if length else Score(None, explanation="no verdict")


def plain(answer: Answer, sample: Sample) -> float:
    return 0.0 if sample.id else float(len(answer.text))


samples: list[Sample] = [
    Sample("text", target="x"),
    Sample([Message("user", "hello")], target=["a", "b"], id="s2"),
    Sample("pick", target="A", choices=["x", "y"], metadata={"k": 1}, scoring={"numeric": {"absolute": 1}}),
]

solvers: list[Callable[[Trial], Awaitable[Answer | Reply | str]]] = [
    returns_a_reply,
    returns_text,
    returns_an_answer,
    returns_any,
    generate(),
    generate("{input}!", system="brief", few_shot=[("1", "2")], temperature=0.0),
    generate({"short": "{input}", "long": "Please: {input}"}),
]


@task
def configured(n: int = 3, *, tone: str = "kind") -> Task:
    """A task with arguments."""
    return Task(
        samples=samples[:n],
        solver=returns_a_reply,
        scorers=[
            exact(),
            includes(ignore_case=True),
            numeric(absolute=0.1),
            regex("a+"),
            choice(),
            by_length,
            graded,
            judged,
            plain,
            "exact",
        ],
        epochs=2,
        axes={"tone": [tone, "rude"]},
        system="be brief",
        limits=TrialLimits(time=10.0, tokens=100, cost=0.5),
    )


by_path = Task(name="by path", dataset=Path("rows.jsonl"), solver=returns_text, scorers=exact())
by_text_path = Task(name="by text", dataset="rows.csv", solver=generate(), scorers="exact")
by_former_keywords = Task(name="former", samples=samples, solve=generate(), score=[exact(), plain])
its_solver: Callable[[Trial], Awaitable[object]] = by_former_keywords.solver
its_scorers: list[str] = [one.name for one in by_former_keywords.scorers]


def in_every_way() -> None:
    run: Run = evaluate(configured(), models=["scripted/echo"])
    run = evaluate(configured, "scripted/echo", run="here", name="n", seed=1, concurrency_limit=4)
    run = evaluate(configured, "scripted/echo", run="s3://bucket/run", reuse=[run.place, Path("there")])
    run = evaluate(
        [configured(2, tone="x"), by_path], {"m": {"provider": "scripted", "model": "echo"}}, run=Path("there")
    )
    changes = {"concurrency_limit": 8, "models.m.generation.temperature": 0}
    run = evaluate(configured, "scripted/echo", epochs=3, limit=10, set=changes, progress=False, reuse=Path("there"))
    run = fork(run, run="forked", set={"seed": 2}, config=Path("eval.yaml"), tasks=[configured()])
    kept: int = run.forked.taken if run.forked is not None else 0
    rows: int = len(run.to_pandas("status=valid")) + run.to_polars(rows="steps").height + kept
    report: Report = run.report()
    text: str = str(report)
    accuracy: float = report.tasks["t"]["m"].metrics["exact"]["accuracy"].value
    counted: tuple[int, int, int] = (report.coverage.planned, report.coverage.valid, report.usage.input_tokens)
    print(text, accuracy, counted, rows, run.path.name, (run.planned or 0) - run.finished, run.is_complete)
    if run.ended is not None and run.ended.exit_code:
        print(run.ended.how, run.ended.counts.remaining, run.ended.warning)


async def in_a_coroutine() -> float:
    run = await evaluate_async([configured()], ("scripted/echo",))
    with Run.open(run.path) as opened:
        seconds = sum(trial.seconds for trial in opened.trials() if trial.state == "valid")
        steps = [step.result for key in opened.trial_keys() for step in opened.steps(key)]
        explanations: list[str] = [score.explanation for score in opened.scores_of(opened.key_of("fr#1"))]
        changes = [change.path for session in opened.lineage for change in session.changes]
        return (
            seconds
            + len(steps)
            + len(changes)
            + len(list(opened.steps()))
            + len(opened.records_of("key"))
            + len(explanations)
        )


def with_errors() -> int:
    try:
        in_every_way()
    except (ConfigurationError, NotARun, UsageError) as error:
        return error.exit_code
    except (ResumeAborted, RunHeld, StorageFailure) as error:
        print(error.message, error.hint, error.kind)
    except HoldfastError:
        pass
    return 0


async def recovering() -> list[str]:
    brought = recover("s3://bucket/run", Path("home"), merge=True)
    again = await recover_async("s3://bucket/run", steps=False)
    counts: list[int] = [brought.finished, brought.planned, again.fetched, again.published or 0]
    return [item.source for item in list_recoverable("s3://bucket")] + brought.warnings + [str(sum(counts))]


def observe(event: Event) -> None:
    """An observer tells the kinds apart by their classes."""
    text = type(event).__name__
    match event:
        case SessionStarted():
            text = f"{event.run} {event.place} {event.session} {event.planned - event.finished}"
        case SessionEnded():
            text = f"{event.session} {event.ended_as} {event.exit_code} {event.counts.remaining}"
        case TrialStarted():
            text = f"{event.trial} {event.task} {event.model} {event.sample} {event.epoch} {event.axes.get('tone')}"
        case StepRecorded():
            tokens = event.usage.output_tokens if event.usage else 0
            text = f"{event.trial} {event.attempt} {event.step} {event.name} {event.replayed} {tokens} {event.source}"
        case AttemptEnded():
            text = f"{event.record.status.value} {event.record.scores} {event.will_retry} {event.was_finished}"
        case TrialLeft():
            text = event.trial
        case CallRetried():
            text = f"{event.model} {event.kind} {event.reason} {event.pause + event.tries}"
        case ModelDisabled():
            text = f"{event.model} {event.reason} {event.is_other_model}"
        case LimitChanged():
            text = f"{event.name} {event.value or 0} {event.reason}"
        case UploadReported():
            text = f"{event.uploaded + event.behind} {event.failure}"
        case Interrupted():
            text = f"{event.signal} {event.in_flight} {event.at_once}"
        case Note():
            text = f"{event.kind} {event.subject} {event.text} {event.error.message if event.error else ''}"
    print(text)


observer: Observer = observe
observed: Run = evaluate(configured(), ["scripted/echo"], observers=[observe])
