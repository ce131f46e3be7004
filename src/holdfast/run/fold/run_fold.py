"""The state of a run and of its trials: what is finished, which record counts, and what remains.

It reads the rows that `FoldWriter` keeps in the index, and gives them the names that follow from the newest plan.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from holdfast.journal import RecordId
from holdfast.run.core.axes.choices import AxisChoice, ChoiceKey, waiting_reason, waiting_trials
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import PanelEntry, PlanEntry, ScoreRecord, SessionRecord
from holdfast.run.core.sampling_figures import SamplingSums
from holdfast.run.core.slots.slot_names import VERSION_MARK, base_name
from holdfast.run.core.slots.slot_versions import replaced_versions, slot_titles
from holdfast.run.core.task_stops import TaskDecision, TaskStop, WatchStep
from holdfast.run.fold.panels import with_panels
from holdfast.run.fold.rows.fold_tables import (
    KEPT,
    REPLY,
    REQUEST,
    UNANSWERED,
    pack_key,
    unpack_key,
    unpack_places,
    unpack_row,
)
from holdfast.run.fold.rows.score_slot import UNSCORED
from holdfast.run.fold.rows.spent import Spent, SpentFigures
from holdfast.run.fold.rows.trial_row import INTERRUPTED, NOT_SCORED, SCORE, DecidingEnd, TrialRow
from holdfast.run.fold.states import (
    FINISHED,
    NOT_STARTED,
    NOT_UPLOADED,
    RUNNING,
    SAME_ERROR,
    State,
    StateCounts,
    failed_slot,
    is_failed_slot,
)

Query = Callable[..., Iterator[tuple[Any, ...]]]
"""Gives the rows of a statement, as `Index.query` does."""
_COLUMNS = "key, standing, row, places"
_KEY, _KEY_AND_SCORER = itemgetter(0), itemgetter(0, 1)
_COUNTING = f"attempt BETWEEN answer AND abs(counted) AND state <= {UNSCORED}"
"""Which slots count: those that are filled, from the attempt that gave the answer to the one that counts."""
_NOT_ENDED = {INTERRUPTED, NOT_SCORED}
_axes_decoder = msgspec.json.Decoder(dict[str, str])
_names_decoder = msgspec.json.Decoder(list[str])


class Group(NamedTuple):
    """Trials of one task, model and combination of axes."""

    task: str
    model: str
    axes: Mapping[str, str]


_NO_GROUP = Group("", "", {})


class LedgerEntry(NamedTuple):
    """Calls of one kind that the trials of a task made, or replies that they did not ask for, in one session."""

    session: int
    task: str
    kind: str
    calls: int
    model: str = ""


class Standing(NamedTuple):
    """The state of a number of trials, in the terms of the plan."""

    number: int
    group: Group
    state: State
    reason: str
    scorers: frozenset[str]
    """Whose scores the attempt that counts has."""
    missing: frozenset[str]
    """Planned scorers whose scores a valid trial is missing."""
    is_hollow: bool
    trials: int

    @property
    def is_kept(self) -> bool:
        """Whether an end is recorded that is kept; a score may still be missing."""
        return self.state.is_finished or bool(self.missing)

    @property
    def lacks_scores(self) -> bool:
        """Whether they have their answers, and nothing but scores is left to be done."""
        is_in_slot = self.reason == NOT_SCORED or f"({SCORE}" in self.reason
        return self.state is State.UNFINISHED and (bool(self.missing) or is_in_slot)

    @property
    def has_failed_in_slots(self) -> bool:
        """Whether only scorers have failed, and none of the others is left to be asked."""
        return self.state is State.FAILED and is_failed_slot(self.reason)


class FoldedTrial(NamedTuple):
    """One trial as the fold has it."""

    key: str
    standing: Standing
    row: TrialRow
    placed: bytes
    """Where its records lie, as it is stored."""

    @property
    def packed_key(self) -> bytes:
        """Its key, as sets of keys hold it; only those of planned trials are digests."""
        packed = pack_key(self.key)
        return packed if isinstance(packed, bytes) else b""

    @property
    def places(self) -> list[tuple[int, int]]:
        """The segments and offsets of the frames that hold its records."""
        return unpack_places(self.placed)

    @property
    def state(self) -> State:
        return self.standing.state

    @property
    def has_transcript(self) -> bool:
        """Whether it was run: a result that came from a file has scores and nothing behind them."""
        return self.row.end is None or self.row.end.steps >= 0

    @property
    def has_spare_transcript(self) -> bool:
        """Whether it is finished, and everything that counts is known without its steps."""
        return self.state.is_finished and not self.row.needs_replies(self.standing.group.model)

    @property
    def spent(self) -> Spent:
        """What its attempts took."""
        shares = self.row.total_spent(self.standing.group.model).items()
        return reduce(Spent.plus, (figures.as_spent(key) for key, figures in shares), Spent())

    @property
    def end_id(self) -> RecordId | None:
        """The record that decides about it, if an attempt has ended."""
        end = self.row.end
        return RecordId(end.session, end.writer, end.seq, end.place) if end is not None else None


class SlotValue(NamedTuple):
    """A score that counts, and the state of its trial."""

    key: bytes | str
    """Of the trial, as it is stored."""
    standing: Standing
    scorer: str
    value: float | None
    row: bytes
    """Of the trial, as it is stored."""
    reason: str = ""
    """Why a panel has left the answer unscored, if it has."""

    @property
    def trial(self) -> str:
        """The key of the trial."""
        return unpack_key(self.key)


class RunFold:
    """What the index says of the trials of a run, by the plan of its newest session."""

    def __init__(
        self,
        query: Query,
        sessions: list[SessionRecord],
        offered: list[PlanEntry] | None = None,
        working: int | None = None,
        unmetered: Callable[[], Collection[str]] = tuple,
        decisions: Callable[[], Mapping[str, TaskDecision]] = dict,
        choices: Callable[[], Mapping[ChoiceKey, AxisChoice]] = dict,
    ) -> None:
        """With an `offered` plan, that one decides instead of the newest session's.

        `working` is the session that is running now: trials that it has started and not ended are running.
        `unmetered` gives the models with replies of unknown usage, `decisions` those of `fail_fast`, by task, and
        `choices` those for axis values that depend on others.
        """
        self._query, self._offered, self._working, self._unmetered = query, offered, working, unmetered
        self._decisions, self._choices = decisions, choices
        self._sessions = sessions
        self.session = sessions[-1] if sessions else None

    def with_plan(self, offered: list[PlanEntry]) -> "RunFold":
        """The same trials by another plan."""
        sources = self._unmetered, self._decisions, self._choices
        return RunFold(self._query, self._sessions, offered, self._working, *sources)

    @property
    def plan(self) -> list[PlanEntry]:
        if self._offered is not None:
            return self._offered
        return self.session.plan if self.session else []

    @cached_property
    def prices(self) -> Prices:
        """What the models cost, by the newest recorded configuration."""
        config = self.session.config if self.session else {}
        return Prices(config, self.unmetered, {entry.model for entry in self.plan})

    @cached_property
    def unmetered(self) -> frozenset[str]:
        """The models with replies of unknown usage: of their tokens only some are known."""
        return frozenset(self._unmetered())

    # Tasks that were stopped.

    @cached_property
    def stopped(self) -> dict[str, TaskStop]:
        """The tasks of which nothing more is started; one valid trial is enough for a task not to be one of them."""
        stops = [one for one in self._decisions().values() if one.step is WatchStep.STOPPED]
        valid = self.valid_tasks if stops else frozenset()
        return {one.task: TaskStop(one.task, one.error, one.trials) for one in stops if one.task not in valid}

    @cached_property
    def valid_tasks(self) -> frozenset[str]:
        """The tasks that have a valid trial, whether all of its scores are there or not."""
        query = (
            "SELECT DISTINCT task FROM standings JOIN groups ON groups.id = group_ WHERE status = 'valid' AND trials"
        )
        return frozenset(task for (task,) in self._query(query))

    def reason_not_started(self, task: str, model: str = "", axes: Mapping[str, str] | None = None) -> str:
        """Why a trial that has no record remains."""
        if task in self.stopped:
            return SAME_ERROR
        for entry in self._dependent_entries if axes else ():
            if (entry.task, entry.model) == (task, model):
                return _reason_to_wait(entry, axes or {}, self.choices) or NOT_STARTED
        return NOT_STARTED

    # Axis values that depend on others.

    @cached_property
    def choices(self) -> Mapping[ChoiceKey, AxisChoice]:
        """The values that were chosen for those which depend on others."""
        return self._choices() if self._dependent_entries else {}

    @cached_property
    def _dependent_entries(self) -> list[PlanEntry]:
        return [entry for entry in self.plan if entry.depends]

    def _waiting(self, entry: PlanEntry, recorded: Iterable[Standing]) -> dict[str, int]:
        """By reason, how many trials of a task and model are not started because they wait for a choice."""
        if not entry.depends or entry.task in self.stopped:
            return {}
        started: Counter[tuple[str, str]] = Counter()
        for standing in recorded:
            for place in standing.group.axes.items():
                started[place] += standing.trials
        return waiting_trials(entry, self.choices, started)

    def _all_waiting(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        by_pair = self._standings_by_pair() if self._dependent_entries else {}
        for entry in self._dependent_entries:
            found.update(self._waiting(entry, by_pair.get((entry.task, entry.model), [])))
        return dict(found)

    def _stopped_waiting(self, entry: PlanEntry, recorded: Iterable[Standing]) -> int:
        """How many trials of a task that was stopped are not started, of one model."""
        if entry.task not in self.stopped:
            return 0
        return max(entry.planned - sum(standing.trials for standing in recorded), 0)

    # Counts.

    @cached_property
    def groups(self) -> dict[int, Group]:
        rows = self._query("SELECT id, task, model, axes FROM groups")
        return {number: Group(task, model, _axes_decoder.decode(axes)) for number, task, model, axes in rows}

    @property
    def scorers(self) -> list[str]:
        """Everybody who has given a score, by the names that people know."""
        names = [name for (name,) in self._query("SELECT name FROM scorers ORDER BY name")]
        return sorted({title for name in names for title in self._titles_of(name)}) if self._titles else names

    def _titles_of(self, name: str) -> set[str]:
        """What a slot is called in the tasks that plan its scorer; in others it has its own name."""
        planned = [task for task, slots in self.planned_scorers.items() if base_name(name) in map(base_name, slots)]
        return {self.title(task, name) for task in planned} or {name}

    @cached_property
    def _titles(self) -> dict[str, dict[str, str]]:
        """By task, what people call each of its slots; empty while no scorer has more than one version."""
        names = [name for (name,) in self._query("SELECT name FROM scorers")]
        planned = self.planned_scorers
        if not any(VERSION_MARK in name for name in chain(names, *planned.values())):
            return {}
        return {
            task: slot_titles(slots, names, replaced_versions(self._sessions, task)) for task, slots in planned.items()
        }

    def title(self, task: str, slot: str) -> str:
        """What people call a slot: those of the plan by their plain names, others with their versions."""
        return self._titles.get(task, {}).get(slot, slot) if self._titles else slot

    def binary_titles(self, entry: PlanEntry) -> list[str] | None:
        """The names of scores that are nothing but 0 and 1, those of earlier versions too; None where it is unknown."""
        if entry.binary is None or not self._titles:
            return entry.binary
        earlier = [
            self.title(entry.task, slot)
            for session in self._sessions
            for before in session.plan
            if (before.task, before.model) == (entry.task, entry.model)
            for slot in before.scorers
            if base_name(slot) in (before.binary or ())
        ]
        return [*entry.binary, *(title for title in dict.fromkeys(earlier) if VERSION_MARK in title)]

    def titled(self, trial: FoldedTrial, score: ScoreRecord) -> ScoreRecord:
        """A score of a trial under the name that people know."""
        title = self.title(trial.standing.group.task, score.scorer)
        return score if title == score.scorer else msgspec.structs.replace(score, scorer=title)

    @cached_property
    def standings(self) -> dict[int, Standing]:
        """Every state of trials, by its number."""
        columns = "id, group_, status, reason, scorers, failed, hollow, trials"
        rows = self._query(f"SELECT {columns} FROM standings WHERE trials")  # noqa: S608 - no value in the text
        return {row[0]: self._standing(*row) for row in rows}

    def _standing(
        self, number: int, group: int, status: str, reason: str, scorers: str, failed: str, hollow: int, trials: int
    ) -> Standing:
        where, filled = self.groups.get(group, _NO_GROUP), frozenset(_names_decoder.decode(scorers))
        state, missing = State(status), frozenset[str]()
        has_failed = state is State.FAILED and reason == SCORE
        if state is State.VALID or has_failed:
            unfilled = [name for name in self.planned_scorers.get(where.task, ()) if name not in filled]
            missing = frozenset(unfilled) if state is State.VALID else missing
            if unfilled or has_failed:
                state, reason = _state_by_slots(unfilled, _names_decoder.decode(failed))
        elif state is State.UNFINISHED and where.task in self.stopped:
            reason = SAME_ERROR
        return Standing(number, where, state, reason, filled, missing, bool(hollow), trials)

    @cached_property
    def planned_scorers(self) -> dict[str, list[str]]:
        """Who has to score the trials of a task."""
        return {entry.task: entry.scorers for entry in self.plan}

    @cached_property
    def panels(self) -> dict[str, dict[str, PanelEntry]]:
        """The scorers with judges, by task and name; tasks that have none are left out."""
        return {entry.task: entry.panels for entry in self.plan if entry.panels}

    @property
    def planned(self) -> int:
        if self._offered is not None:
            return sum(entry.planned for entry in self._offered)
        return self.session.planned if self.session else 0

    @cached_property
    def counts(self) -> StateCounts:
        """How many trials of the plan are in which state."""
        stopped, waiting = self._all_stopped_waiting(), self._all_waiting()
        return StateCounts.of(self.planned, self._by_state(self._of_plan()), stopped, waiting)

    def _all_stopped_waiting(self) -> int:
        if not self.stopped:
            return 0
        found = self._standings_by_pair()
        return sum(self._stopped_waiting(entry, found.get((entry.task, entry.model), [])) for entry in self.plan)

    def _of_plan(self) -> Iterator[Standing]:
        """The standings of trials that belong to the plan; one that was interrupted may not say where."""
        pairs = {(entry.task, entry.model) for entry in self.plan}
        for standing in self.standings.values():
            pair = standing.group[:2]
            if not pairs or pair in pairs or pair == ("", ""):
                yield standing

    def counts_by_group(self) -> dict[tuple[str, str], StateCounts]:
        """The same for every task and model of the plan."""
        found = self._standings_by_pair()
        return {(entry.task, entry.model): self._counts_of(entry, found) for entry in self.plan}

    def _counts_of(self, entry: PlanEntry, found: Mapping[tuple[str, str], list[Standing]]) -> StateCounts:
        standings = found.get((entry.task, entry.model), [])
        stopped, waiting = self._stopped_waiting(entry, standings), self._waiting(entry, standings)
        return StateCounts.of(entry.planned, self._by_state(standings), stopped, waiting)

    def _standings_by_pair(self) -> dict[tuple[str, str], list[Standing]]:
        found: dict[tuple[str, str], list[Standing]] = {}
        for standing in self.standings.values():
            found.setdefault(self._pair(standing.group), []).append(standing)
        return found

    def _by_state(self, standings: Iterable[Standing]) -> Counter[tuple[State, str]]:
        found: Counter[tuple[State, str]] = Counter()
        for standing in standings:
            running = self._running[standing.number]
            found[standing.state, standing.reason] += standing.trials - running
            found[standing.state, RUNNING] += running
        return found

    @cached_property
    def _running(self) -> Counter[int]:
        """How many trials the session that works now is at, by their states; few, however large the run is."""
        if self._working is None:
            return Counter()
        numbers = [one.number for one in self.standings.values() if _may_be_running(one)]
        rows = self._rows(f" WHERE standing IN ({','.join(map(str, numbers))})")
        return Counter(standing for _, standing, row, _ in rows if unpack_row(row).session == self._working)

    def _rows(self, where: str) -> Iterator[tuple[Any, ...]]:
        return self._query(f"SELECT {_COLUMNS} FROM trials{where} ORDER BY key")  # noqa: S608 - numbers

    def _pair(self, group: Group) -> tuple[str, str]:
        """Where a trial belongs; one that does not say it can only be of the one task and model that there is."""
        if not group.task and len(self.plan) == 1:
            return self.plan[0].task, self.plan[0].model
        return group.task, group.model

    def counts_when_uploaded(self, is_uploaded: Callable[[FoldedTrial], bool]) -> StateCounts:
        """The counts if a trial counts only once its result is in a store."""
        planned = {standing.number for standing in self._of_plan()}
        held_back = Counter(
            trial.standing.number
            for trial in self.trials(*FINISHED)
            if trial.standing.number in planned and not is_uploaded(trial)
        )
        by_state = self._by_state(self._of_plan())
        for number, count in held_back.items():
            standing = self.standings[number]
            by_state[standing.state, standing.reason] -= count
            by_state[State.UNFINISHED, NOT_UPLOADED] += count
        return StateCounts.of(self.planned, by_state, self._all_stopped_waiting(), self._all_waiting())

    @property
    def unassigned(self) -> int:
        """How many trials belong to an unknown task: the record that names it was lost to damage."""
        without = (standing for standing in self.standings.values() if not self._pair(standing.group)[0])
        return sum(standing.trials for standing in without)

    @property
    def kept(self) -> int:
        """How many trials have a final record that is kept, whatever the plan asks for."""
        return sum(standing.trials for standing in self.standings.values() if standing.is_kept)

    @property
    def on_record(self) -> int:
        """How many trials have a record of any kind."""
        return sum(standing.trials for standing in self.standings.values())

    @property
    def hollow(self) -> int:
        """How many finished trials are missing records that their ends rest on."""
        return sum(standing.trials for standing in self.standings.values() if standing.is_hollow)

    def spent(self) -> dict[tuple[str, str], Spent]:
        """What all attempts took, by task and model."""
        found: dict[tuple[str, str], Spent] = {}
        for group, spent in self.spent_by_group():
            pair = self._pair(group)
            found[pair] = found.get(pair, Spent()).plus(spent)
        return found

    def spent_by_group(self) -> Iterator[tuple[Group, Spent]]:
        """The same by task, model and combination of axes, in parts."""
        for group, model, reused, figures in self._query("SELECT group_, model, reused, figures FROM spent"):
            known = self.groups.get(group, _NO_GROUP)
            share = model or self._pair(known)[1], bool(reused)
            yield known, SpentFigures(*map(int, figures.split())).as_spent(share)

    def samplings(self) -> dict[tuple[str, str], SamplingSums]:
        """How the samplings of the attempts that count went, by task and model; only where there are any."""
        found: dict[tuple[str, str], SamplingSums] = {}
        query = "SELECT group_, kind, name, figure FROM sampled WHERE figure ORDER BY kind, name, group_"
        for group, *figure in self._query(query):
            pair = self._pair(self.groups.get(group, _NO_GROUP))
            found.setdefault(pair, SamplingSums()).add([tuple(figure)])
        return found

    @cached_property
    def has_samplings(self) -> bool:
        """Whether any trial that counts has sampled."""
        return next(self._query("SELECT 1 FROM sampled WHERE figure LIMIT 1"), None) is not None

    def written(self, kind: str) -> dict[int, int]:
        """How many records of a kind each session wrote."""
        return dict(self._query("SELECT session, records FROM written WHERE kind = ?", (kind,)))

    def record_counts(self) -> dict[str, int]:
        """How many records there are of each type."""
        query = "SELECT kind, sum(records) FROM written WHERE kind NOT IN (?, ?, ?, ?) GROUP BY kind"
        return dict(self._query(query, (KEPT, REPLY, UNANSWERED, REQUEST)))

    @cached_property
    def has_results(self) -> bool:
        """Whether anything is on record that was asked for: a reply, an answer, the result of a step."""
        counts = self.record_counts()
        steps = counts.get("step", 0) - sum(self.written(UNANSWERED).values())
        found = [*self.written(REPLY).values(), *self.written(KEPT).values(), counts.get("answer", 0)]
        return steps > 0 or any(found)

    def ledger(self) -> Iterator[LedgerEntry]:
        """The calls that the ledger names, by session, task and kind; usually there are none."""
        query = "SELECT session, group_, kind, calls FROM ledger ORDER BY session, group_, kind"
        for session, group, kind, calls in self._query(query):
            task, model = self._pair(self.groups.get(group, _NO_GROUP))
            yield LedgerEntry(session, task, kind, calls, model)

    # Trials.

    def find(self, key: str) -> FoldedTrial | None:
        """One trial; None if nothing is recorded for it."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE key = ?"  # noqa: S608
        row = next(self._query(query, (pack_key(key),)), None)
        return self._trial(*row) if row is not None else None

    def deciding_end(self, key: str) -> DecidingEnd | None:
        """The end that decides about a trial; None if it has not ended."""
        trial = self.find(key)
        return trial.row.end if trial is not None else None

    def _trial(self, key: bytes | str, standing: int, data: bytes, places: bytes) -> FoldedTrial:
        row, known = unpack_row(data), self.standings[standing]
        if self._working is not None and row.session == self._working and _may_be_running(known):
            known = known._replace(reason=RUNNING)
        return FoldedTrial(unpack_key(key), known, row, places)

    def attempted_again(self) -> Iterator[FoldedTrial]:
        """The trials of which not the first attempt gave the answer or the scores that they have."""
        for row in self._rows(" WHERE answer > 1 OR counted > 1 OR counted < -1"):
            yield self._trial(*row)

    def trials_in_order(self, *states: State) -> Iterator[FoldedTrial]:
        """Every trial that is recorded, or those in some states, in the order in which they were written."""
        # Sorted by their keys alone: whoever wants a few does not wait for all rows to be sorted.
        for (key,) in self._query(f"SELECT key FROM trials{self._where(states)} ORDER BY moment, key"):  # noqa: S608
            if (trial := self.find(unpack_key(key))) is not None:
                yield trial

    def trials(self, *states: State) -> Iterator[FoldedTrial]:
        """The same in the order of their keys."""
        for row in self._rows(self._where(states)):
            yield self._trial(*row)

    def trials_of(self, task: str) -> Iterator[FoldedTrial]:
        """The same of one task."""
        numbers = [str(one.number) for one in self.standings.values() if one.group.task == task]
        for row in self._rows(f" WHERE standing IN ({','.join(numbers)})"):
            yield self._trial(*row)

    def trials_with_text(self, texts: Iterable[str]) -> Iterator[FoldedTrial]:
        """The trials whose rows contain one of these texts, as the sample's key or elsewhere; few, and found fast."""
        wanted = [text.encode(errors="surrogatepass") for text in texts if text]
        if wanted:
            test = " OR ".join(["instr(row, ?)"] * len(wanted))
            for row in self._query(f"SELECT {_COLUMNS} FROM trials WHERE {test} ORDER BY key", tuple(wanted)):  # noqa: S608
                yield self._trial(*row)

    def keys(self, *states: State) -> Iterator[str]:
        """Their keys, sorted."""
        query = f"SELECT key FROM trials{self._where(states)} ORDER BY key"  # noqa: S608 - numbers
        return (unpack_key(key) for (key,) in self._query(query))

    def _where(self, states: Iterable[State]) -> str:
        wanted = set(states)
        if not wanted:
            return ""
        numbers = [str(one.number) for one in self.standings.values() if one.state in wanted]
        return f" WHERE standing IN ({','.join(numbers)})"

    def raw_rows(self) -> Iterator[tuple[bytes | str, int, int, int, int, bytes, bytes]]:
        """The rows of all trials as they are stored, in the order of their keys."""
        return self._query("SELECT key, standing, counted, answer, moment, row, places FROM trials ORDER BY key")

    def finished(self) -> Iterator[str]:
        """The keys of the trials that have nothing left to be done, sorted."""
        return self.keys(*FINISHED)

    def keys_with_end(self) -> Iterator[str]:
        """The keys of the trials that have an end which is kept, sorted; some may be missing a score of the plan."""
        return (unpack_key(key) for (key,) in self._query("SELECT key FROM trials WHERE counted > 0 ORDER BY key"))

    def missing_scores(self) -> Iterator[str]:
        """The keys of valid trials without a score of the plan, sorted, except those that have failed in slots."""
        return self._keys_standing(lambda one: bool(one.missing) and one.state is State.UNFINISHED)

    def answered_without_end(self) -> Iterator[str]:
        """The keys of trials that have their answers and no end that is kept: what is left of them are scores."""
        return self._keys_standing(lambda one: one.lacks_scores and not one.missing)

    def failed_in_slots(self) -> Iterator[str]:
        """The keys of trials that have their answers and failed in scorers, sorted."""
        return self._keys_standing(lambda one: one.has_failed_in_slots)

    def _keys_standing(self, test: Callable[[Standing], bool]) -> Iterator[str]:
        numbers = [str(one.number) for one in self.standings.values() if test(one)]
        query = f"SELECT key FROM trials WHERE standing IN ({','.join(numbers)}) ORDER BY key"  # noqa: S608 - numbers
        return (unpack_key(key) for (key,) in self._query(query))

    # Scores.

    def scores_of(self, key: str) -> dict[str, float | None]:
        """The scores of one trial as people see them, those of panels among them; None for one without a number."""
        scores = self.recorded_scores(key)
        trial = self.find(key) if self.panels or self._titles else None
        if trial is None:
            return scores
        task = trial.standing.group.task
        titles = {self.title(task, name): value for name, value in scores.items()}
        # Those of the plan first, whichever were given first.
        scores = {name: titles[name] for name in sorted(titles, key=lambda name: VERSION_MARK in name)}
        panels = self.panels.get(task)
        return {name: found.value for name, found in with_panels(scores, panels).items()} if panels else scores

    def recorded_scores(self, key: str) -> dict[str, float | None]:
        """The scores that count of one trial, by slot: those of the attempt that counts; None for one without a
        number.
        """
        query = (
            "SELECT name, value, state FROM slots JOIN scorers ON scorers.id = scorer"  # noqa: S608 - no value
            " JOIN trials USING (key)"
            f" WHERE key = ? AND {_COUNTING} ORDER BY scorer, attempt"
        )
        rows = self._query(query, (pack_key(key),))
        return {name: value for name, value, state in rows if value is not None or state == UNSCORED}

    def slot_ids(self, key: str) -> Iterator[RecordId]:
        """The records that fill the slots of one trial which count."""
        query = (
            "SELECT session, writer, seq, place FROM slots JOIN trials USING (key)"  # noqa: S608 - no value
            f" WHERE key = ? AND {_COUNTING}"
        )
        return (RecordId(*row) for row in self._query(query, (pack_key(key),)))

    def slots(self, standings: Collection[int] | None = None) -> Iterator[SlotValue]:
        """Every score that counts, trial by trial; those of panels are among them. Of trials with these `standings`
        alone, if they are given.
        """
        if not self.panels:
            yield from self.recorded_slots(standings)
            return
        for _, group in groupby(self.recorded_slots(standings), _KEY):
            yield from self._with_panels(list(group))

    def _with_panels(self, slots: list[SlotValue]) -> Iterator[SlotValue]:
        """The scores of one trial, those of panels added."""
        panels = self.panels.get(slots[0].standing.group.task)
        if not panels:
            yield from slots
            return
        for name, found in with_panels({slot.scorer: slot.value for slot in slots}, panels).items():
            yield slots[0]._replace(scorer=name, value=found.value, reason=found.reason)

    def recorded_slots(self, only: Collection[int] | None = None) -> Iterator[SlotValue]:
        """Every score on record that counts, trial by trial; `only` as for `slots`."""
        names: dict[int, str] = dict(self._query("SELECT id, name FROM scorers"))
        standings = self.standings
        query = (
            "SELECT slots.key, scorer, standing, value, row FROM slots JOIN trials USING (key)"  # noqa: S608 - no value
            f" WHERE {_COUNTING}{_with_standings(only)} ORDER BY slots.key, scorer, attempt"
        )
        for (key, scorer), rows in groupby(self._query(query), _KEY_AND_SCORER):
            *_, (_, _, standing, value, row) = rows
            known = standings[standing]
            yield SlotValue(key, known, self.title(known.group.task, names[scorer]), value, row)

    def score_sums(self) -> dict[tuple[str, str], dict[str, tuple[int, float]]]:
        """How many scores of finished trials count, and their sum: by task and model, then by scorer.

        A running score needs no more than this; metrics are computed from `slots`.
        """
        return self._summed_slots() if self.panels else self._stored_sums()

    def _summed_slots(self) -> dict[tuple[str, str], dict[str, tuple[int, float]]]:
        """The same where panels have to be computed, trial by trial."""
        found: dict[tuple[str, str], dict[str, tuple[int, float]]] = {}
        for slot in self.slots():
            if slot.standing.state.is_finished and slot.value is not None:
                sums = found.setdefault(self._pair(slot.standing.group), {})
                count, total = sums.get(slot.scorer, (0, 0.0))
                sums[slot.scorer] = count + 1, total + slot.value
        return found

    def _stored_sums(self) -> dict[tuple[str, str], dict[str, tuple[int, float]]]:
        names: dict[int, str] = dict(self._query("SELECT id, name FROM scorers"))
        last = (
            "SELECT standing, scorer, value, max(attempt) FROM slots JOIN trials USING (key)"  # noqa: S608 - no value
            f" WHERE {_COUNTING} GROUP BY slots.key, scorer"
        )
        query = f"SELECT standing, scorer, count(value), total(value) FROM ({last}) GROUP BY standing, scorer"  # noqa: S608
        found: dict[tuple[str, str], dict[str, tuple[int, float]]] = {}
        for standing, scorer, count, total in self._query(query):
            known = self.standings[standing]
            if known.state.is_finished and count:
                sums = found.setdefault(self._pair(known.group), {})
                name = self.title(known.group.task, names[scorer])
                before = sums.get(name, (0, 0.0))
                sums[name] = before[0] + count, before[1] + total
        return found


def _with_standings(only: Collection[int] | None) -> str:
    return "" if only is None else f" AND standing IN ({','.join(map(str, only))})"


def _reason_to_wait(entry: PlanEntry, axes: Mapping[str, str], choices: Mapping[ChoiceKey, AxisChoice]) -> str:
    """Why a trial of a task and model waits for a choice; empty if it does not."""
    for axis, value in axes.items():
        others = entry.depends.get(axis, {}).get(value)
        if others is not None and (entry.task, entry.model, axis, value) not in choices:
            return waiting_reason(axis, others, list(entry.axes.get(axis, {})))
    return ""


def _state_by_slots(unfilled: list[str], failed: list[str]) -> tuple[State, str]:
    """The state of a trial that has its answer and is missing scores, or whose last end has failed in a scorer."""
    lost = [name for name in unfilled if name in failed]
    if lost and len(lost) == len(unfilled):
        return State.FAILED, failed_slot(base_name(lost[0]))
    return State.UNFINISHED, NOT_SCORED


def _may_be_running(standing: Standing) -> bool:
    """Whether trials in this state have not ended: of those, the session that wrote about them last is at work."""
    return standing.state is State.UNFINISHED and not standing.missing and standing.reason in _NOT_ENDED
