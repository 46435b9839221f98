"""A campaign's screening with a right compiler, which is remembered, and then with wrong ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from owners import Owners, owners

from assay.campaign.batch import Lowered, Member
from assay.campaign.row import Row
from assay.campaign.screen import Batch, Given, Screen, Suspect
from assay.checking.target import Outputs
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.hlo.parse import parse_module
from assay.oracle.verdict import Verdict
from assay.programs.program import Array, Program
from assay.toolchain import RequestRefused, WorkerDied

SILENT = (Verdict.MISMATCH, Verdict.NONDETERMINISTIC)


@dataclass(frozen=True, slots=True)
class Part:
    """Programs that ran together: a batch, or what was left of it. module: what the last pass saw. of: whose each
    instruction of it is.
    """

    lowered: Lowered
    sets: Sequence[Sequence[Array]]
    results: list[int]
    module: Module
    of: Owners


@dataclass(slots=True)
class Watched(Screen):
    """planted: the folder that the wrong compiler looks at. right: the results of each program on each class of inputs;
    none of a program that the right compiler does nothing with.
    """

    planted: Path = Path()
    parts: list[Part] = field(default_factory=list)
    right: dict[tuple[int, str], Outputs] = field(default_factory=dict)
    given: dict[int, Sequence[Given]] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    honest: bool = True
    changed: bool = False
    found: Suspect | None = None

    @staticmethod
    def beside(screen: Screen, planted: Path) -> Watched:
        made = Watched(screen.request, screen.worker, screen.settings, screen.folder, screen._open)
        made.planted = planted
        return made

    def tell(self, what: Mapping[str, object]) -> None:
        (self.planted / "told").write_text(json.dumps(what))

    def rightly(self, members: Sequence[Member], wide: bool) -> Batch:
        self.honest, self.parts, self.right, self.given = True, [], {}, {}
        self.members = {member.number: member for member in members}
        self.tell({})
        batch = self.judged(members, wide)
        self.honest = False
        return batch

    def wrongly(self, part: Part, faults: Mapping[int, str]) -> dict[int, list[Outputs]] | None:
        """The results of these programs, each compiled with a fault; None where they are not to be had."""
        self.tell({"results": part.results, "faults": {str(number): name for number, name in faults.items()}})
        try:
            ran = self._run(part.lowered, part.sets)
        except (RequestRefused, WorkerDied, AssayError):
            return None
        finally:
            self.tell({})
        found: dict[int, list[Outputs]] = {}
        at = 0
        for program in part.lowered.programs:
            member = self.members[number_of(program)]
            own = slice(at, at := at + len(member.plan.results))
            if member.number in faults:
                found[member.number] = [(first[own], second[own]) for first, second in ran]
        return found

    def verdict(self, part: Part, number: int, fault: str, outputs: Sequence[Outputs]) -> Row:
        """By a compiler that has the fault; `changed` says whether the results are others, `found` what is wrong."""
        self.changed, self.found = False, None
        program = next(program for program in part.lowered.programs if number_of(program) == number)
        self.tell({"all": fault})
        row, _ = self._each(self.members[number], program, self.given[number], outputs)
        self.tell({})
        if self.found is not None and self.wrong_anyway(self.found):
            self.found = None
        return row

    def wrong_anyway(self, suspect: Suspect) -> bool:
        """Whether the right compiler is wrong of it as well: a finding, and not the fault's."""
        inputs, member = suspect.case.inputs, suspect.member
        given, outputs = (inputs, list(suspect.arguments)), self.right[member.number, inputs]
        return super(Watched, self)._screened(member, suspect.program, given, outputs) is None

    def _run(self, lowered: Lowered, sets: Sequence[Sequence[Array]]) -> list[Outputs]:
        if not self.honest:
            return super(Watched, self)._run(lowered, sets)
        seen = self.planted / "seen"
        seen.mkdir()
        try:
            found = super(Watched, self)._run(lowered, sets)
            (text,) = (path.read_text() for path in seen.iterdir())
        finally:
            shutil.rmtree(seen)
        numbers = [number_of(program) for program in lowered.programs]
        results = [number for number in numbers for _ in self.members[number].plan.results]
        module = parse_module(text)
        self.parts.append(Part(lowered, sets, results, module, owners(module, results)))
        return found

    def _each(
        self, member: Member, program: Program, given: Sequence[Given], outputs: Sequence[Outputs]
    ) -> tuple[Row, list[Suspect]]:
        self.given[member.number] = given
        return super(Watched, self)._each(member, program, given, outputs)

    def _screened(self, member: Member, program: Program, given: Given, outputs: Outputs) -> Row | None:
        key = member.number, given[0]
        if self.honest:
            self.right[key] = outputs
            return Row(member.number, Verdict.AGREE)
        if _bits(outputs) == _bits(self.right[key]):
            return Row(member.number, Verdict.AGREE)
        self.changed = True
        return super(Watched, self)._screened(member, program, given, outputs)

    def _alone(
        self, member: Member, program: Program, given: Sequence[Given], suspected: bool = False
    ) -> tuple[list[Row], list[Suspect]]:
        if self.honest:  # it is not compiled, or not run
            return [Row(member.number, Verdict.UNVERIFIED, "not by the right compiler either")], []
        rows, suspects = super(Watched, self)._alone(member, program, given, suspected)
        if suspects and suspects[0].case.verdict in SILENT:
            self.found = suspects[0]
        return rows, suspects


def _bits(outputs: Outputs) -> list[bytes]:
    return [array.tobytes() for run in outputs for array in run]


def number_of(program: Program) -> int:
    """`p12` -> 12."""
    return int(program.name[1:])
