"""What a resume says about code that it accepts: what could not be compared, and what differs without an effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.run.core.display_text import list_text
from holdfast.run.core.provenance import environment, packages
from holdfast.run.core.records import UNSTEADY, SessionRecord, TaskCode
from holdfast.run.drift.code_changes import code_changes, is_lost, opaque_line, opaque_values, without_holders
from holdfast.run.drift.gate import Snapshot


class CodeNotes:
    """The lines about the code of a run, given its last session and what is offered now."""

    def __init__(self, session: SessionRecord, saved: Mapping[str, TaskCode], now: Snapshot) -> None:
        self._session, self._saved, self._now = session, saved, now

    def lines(self) -> list[str]:
        return [*self._lost(), *self._opaque(), *self._unsteady(), *self._unaffected(), *self._surroundings()]

    def _lost(self) -> Iterator[str]:
        """Tasks of which no more than the files could be compared."""
        for task, code in self._saved.items():
            if is_lost(code) and task in self._now.code:
                yield (
                    f"tasks.{task}: the record of its code is damaged (session {code.tree_session}), so only its files"
                    " were compared; what they read when they are loaded was not"
                )

    def _opaque(self) -> Iterator[str]:
        if line := opaque_line(opaque_values([code.tree for code in self._now.code.values()])):
            yield line

    def _unsteady(self) -> Iterator[str]:
        """Values that are others at every import: those found now, and those on record."""
        names = {
            name
            for task, code in self._saved.items()
            if code.tree is not None and task in self._now.code
            for nodes in code.tree.roots.values()
            for name, node in nodes.items()
            if node.kind == UNSTEADY
        }
        names |= {name for roots in self._now.unsteady.values() for found in roots.values() for name in found}
        if names:
            listed = without_holders(names)
            differ = "it differs" if len(listed) == 1 else "they differ"
            yield f"not compared, because {differ} at every import: {list_text(listed)}"

    def _unaffected(self) -> Iterator[str]:
        """Own files with other bytes, of which the task uses nothing that is different."""
        changed = {file for task, files in self._now.files.items() if not self._has_changed(task) for file in files}
        for file in sorted(changed):
            yield f"{file} has changed; what this task uses of it has not"

    def _has_changed(self, task: str) -> bool:
        saved, now = self._saved.get(task), self._now.code.get(task)
        if saved is None or now is None or is_lost(saved):
            return True
        if (saved.solver, saved.scorers, saved.settings) != (now.solver, now.scorers, now.settings):
            return True
        return bool(code_changes(saved.tree, now.tree, self._now.unsteady.get(task)))

    def _surroundings(self) -> Iterator[str]:
        """Packages and the commit, which are printed and not compared; a package that code uses is compared."""
        if not self._saved:
            return
        old, new = self._session.packages, packages()
        both = [name for name in sorted({*old, *new}) if old and old.get(name) != new.get(name)]
        if both:
            listed = [f"{name} {old.get(name, 'not installed')} → {new.get(name, 'not installed')}" for name in both]
            yield f"installed packages differ from the last session: {list_text(listed)}"
        before = self._session.environment
        after = environment(str(self._session.config.get("directory", ".")))
        for name in ("python", "commit"):
            if before.get(name) and after.get(name) and before[name] != after[name]:
                yield f"the {name} differs from the last session: {before[name][:12]} → {after[name][:12]}"
