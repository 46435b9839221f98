"""Whether a candidate still shows what the program showed.

First the cheap question: the verdict and its class, of one compilation and one run. Where those are the same, whether
the candidate is a program of which HLO says what it means (the litmus test). Then the dear one: which pass made it
wrong, and what it changed there. The culprit must stay the same pass, and among the
opcodes that it changed there must be some that it changed in every candidate so far, so that no other bug takes the
place of the one that was found.
"""

from __future__ import annotations

import queue
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from assay.checking import api
from assay.checking.bounds import Settings, Step
from assay.checking.judge import judge, refusal
from assay.checking.litmus import litmus
from assay.checking.simulated import Simulated
from assay.errors import AssayError
from assay.hlo.module import Module
from assay.hlo.printer import print_for_compiler
from assay.hlo.types import check_module
from assay.isolate.api import Options, first_wrong
from assay.isolate.executable import BELOW
from assay.isolate.guilty import guilty_piece, known_by
from assay.oracle.verdict import FINDINGS, MismatchClass, Verdict
from assay.programs.program import Array, Program
from assay.report.passes import PassesCase
from assay.report.result import CaseResult
from assay.toolchain import Worker, WorkerDied
from assay.toolchain.session import Kind

_OPCODE = re.compile(r"^%?\S+ = (?:\([^)]*(?:\([^)]*\)[^)]*)*\)|\S+) ([a-z][a-z0-9-]*)\(")
_NAMING = frozenset(("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "copy", "fusion", "call"))
"""Opcodes that say nothing of what a pass did."""
_PASSING = re.compile(r"[IW]\d{4} ")
_CHECK = re.compile(r"Check failed: .*|[\w/.]+\.(?:cc|h|cpp):\d+\].*")


@dataclass(frozen=True, slots=True)
class Shown:
    """What was seen. pass_: the first that is wrong, empty where none was found. opcodes: of what it changed there.
    signature: of a crash, the line that says why, without its numbers. outputs: which are wrong. clear: whether it
    stands though what HLO asks of a program without checking it may be broken (see `assay.checking.litmus`).
    """

    verdict: Verdict
    klass: str = ""
    pass_: str = ""
    opcodes: frozenset[str] = frozenset()
    signature: str = ""
    outputs: tuple[int, ...] = ()
    clear: bool = True

    def with_(self, other: Shown) -> Shown | None:
        """What is known after `other` was seen of a candidate: None where that is another bug."""
        mine = (self.verdict, self.klass, self.pass_, self.signature)
        if mine != (other.verdict, other.klass, other.pass_, other.signature):
            return None
        common = self.opcodes & other.opcodes
        if (self.opcodes and not common) or (self.clear and not other.clear):
            return None
        return replace(other, opcodes=common)

    @property
    def words(self) -> str:
        where = f" ({self.pass_}{': ' if self.opcodes else ''}{', '.join(sorted(self.opcodes))})" if self.pass_ else ""
        return f"{self.klass or self.verdict}{where}"


def as_dict(shown: Shown) -> dict[str, Any]:
    return {**asdict(shown), "opcodes": sorted(shown.opcodes), "outputs": list(shown.outputs)}


def from_dict(data: Mapping[str, Any]) -> Shown:
    more = {"opcodes": frozenset(data["opcodes"]), "outputs": tuple(data["outputs"])}
    return Shown(**{**data, "verdict": Verdict(data["verdict"]), **more})


@dataclass(slots=True)
class Still:
    """Called with a module and its arguments: what it shows, None where that is not the verdict and class looked for,
    or where nothing can be said. May be called from as many threads at once as there are workers; never raises for
    what is wrong with a candidate.

    wanted: what was seen of the first that was looked at. allowed: verdicts and classes that were seen of it: more than
    one where the result depends on chance, and then one is as good as another. tries: of one candidate, where what is
    looked for is not seen each time. culprit: whether the pass counts.
    """

    request: api.Request
    settings: Settings
    workers: queue.LifoQueue[Worker]
    versions: Mapping[str, str | None]
    culprit: bool = True
    tries: int = 1
    wanted: Shown | None = None
    allowed: frozenset[tuple[Verdict, str]] = frozenset()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @staticmethod
    @contextmanager
    def open(request: api.Request, jobs: int = 2, culprit: bool = True, step: Step = lambda _: None) -> Iterator[Still]:
        """With `jobs` workers of the request's toolchain. Raises AssayError where they do not start."""
        workers: queue.LifoQueue[Worker] = queue.LifoQueue()
        started: list[Worker] = []
        with ExitStack() as stack:
            versions: dict[str, str | None] = {}
            for _ in range(jobs):
                worker, versions = stack.enter_context(api.open_worker(request, step))
                started.append(worker)
                workers.put(worker)
            settings = api.settings_for(request, versions)
            try:
                yield Still(request, settings, workers, versions, culprit)
            finally:
                if workers.qsize() < jobs:  # some are at work still, and nobody waits for what they find
                    for worker in started:
                        worker.kill()

    def __call__(self, module: Module, arguments: Sequence[Array]) -> Shown | None:
        """What it shows. The first that is looked at is the program itself: what is seen of it is looked for then."""
        if self.wanted is None:
            return self._begun(module, arguments)
        for _ in range(self.tries):
            if (found := self._seen(module, arguments)) is not None:
                return found
        return None

    def glance(self, module: Module, arguments: Sequence[Array]) -> Shown | None:
        """What one look shows; it is not what is looked for from then on."""
        return self._seen(module, arguments)

    def _begun(self, module: Module, arguments: Sequence[Array]) -> Shown | None:
        """Looks several times; where it does not look the same each time, more often, for how often what is seen most
        is seen decides how often each candidate is tried.
        """
        seen = [self._seen(module, arguments) for _ in range(FIRST_LOOKS)]
        if any(one != seen[0] for one in seen):
            seen += [self._seen(module, arguments) for _ in range(MORE_LOOKS)]
        counts = Counter(one for one in seen if one is not None)
        if not counts:
            return None
        found, count = max(counts.items(), key=lambda item: (bool(item[0].pass_), item[1]))
        count = sum(number for one, number in counts.items() if one.pass_ == found.pass_)
        with self._lock:
            self.wanted = found
            self.allowed = frozenset((one.verdict, one.klass) for one in counts if one.pass_ == found.pass_)
            if any(verdict == Verdict.NONDETERMINISTIC for verdict, _ in self.allowed):
                self.allowed |= {(Verdict.MISMATCH, str(MismatchClass.MISCOMPILE))}  # two runs may happen to be alike
            self.tries = 1 if count == len(seen) else tries_for(count, len(seen))
        return found

    def _seen(self, module: Module, arguments: Sequence[Array]) -> Shown | None:
        worker = self.workers.get()
        try:
            return self._look(worker, module, arguments)
        finally:
            self.workers.put(worker)

    def _look(self, worker: Worker, module: Module, arguments: Sequence[Array]) -> Shown | None:
        try:
            check_module(module)
            program = program_of(module, arguments, self.request)
            if refusal(program, self.settings) is not None:
                return None
            with closing(api.target_for(program, self.request, worker, self.settings)) as target:
                case = judge(program, arguments, "reduced", target, self.settings)
                if case is None or case.verdict not in FINDINGS:
                    return None
                wild = case.verdict is Verdict.NONDETERMINISTIC
                kernel = target.guilty_kernel(wild) if isinstance(target, Simulated) else None
            shown = Shown(
                case.verdict,
                str(case.klass or ""),
                signature=_signature(case.stderr_tail) if case.verdict == Verdict.CRASH else "",
                outputs=_wrong(case),
            )
            if (wanted := self.wanted) is not None:
                if (shown.verdict, shown.klass) not in self.allowed:
                    return None
                shown = replace(shown, verdict=wanted.verdict, klass=wanted.klass)
            kept = litmus(module, arguments, self.settings.policy, timeout_s=self.settings.reference_timeout_s)
            shown = replace(shown, clear=kept.clears(case) is not False)
            if not shown.clear and wanted is not None and wanted.clear:
                return None  # the program is at fault, and not the compiler
            if not self.culprit:
                return shown
            found = with_culprit(shown, first_wrong(program, self.request, Options(), self.settings, worker))
            if kernel is not None and not found.pass_:  # every pass is right: what was made of the last module is not
                return replace(found, pass_=BELOW, opcodes=known_by(kernel))
            return self._placed(found, program, arguments, worker)
        except AssayError:
            return None  # refused, unsupported, over a limit: nothing was seen of the bug

    def _placed(self, shown: Shown, program: Program, arguments: Sequence[Array], worker: Worker) -> Shown:
        """With the piece that is wrong, where all passes are right and the code is not; as it is where none of the
        program's own is wrong alone.
        """
        runs = api.generation_of(self.request.target) is None
        known = self.wanted is None or bool(self.wanted.opcodes)
        if shown.pass_ != BELOW or not runs or not known or program.kind == "hlo-optimized":
            return shown
        try:
            piece = guilty_piece(program, arguments, worker, self.request, self.settings)
        except WorkerDied:
            return shown
        if piece is None:
            return shown
        by = f" ({piece.library})" if piece.library else ""
        return replace(shown, pass_=f"{BELOW}{by}", opcodes=piece.opcodes)


FIRST_LOOKS, MORE_LOOKS = 3, 7
"""At the program itself."""


def tries_for(seen: int, runs: int) -> int:
    """How often to look so that what was seen `seen` times of `runs` is missed in one of fifty: by Laplace's estimate
    of how often it is seen.
    """
    rate = (seen + 1) / (runs + 2)
    tries, missed = 1, 1.0 - rate
    while missed > 0.02 and tries < 32:
        tries, missed = tries + 1, missed * (1.0 - rate)
    return tries


def program_of(module: Module, arguments: Sequence[Array], request: api.Request) -> Program:
    """A candidate as what the compiler is given."""
    kind: Kind = "hlo-text"
    if module.scheduled and api.generation_of(request.target) is None:
        kind = "hlo-optimized"
    text = print_for_compiler(module).encode()
    return Program(module.name or "reduced", text, kind, module, tuple(arguments))


def _wrong(case: CaseResult) -> tuple[int, ...]:
    return tuple(output.index for output in case.outputs if output.outside or output.drift is not None)


def with_culprit(shown: Shown, case: PassesCase) -> Shown:
    """With the pass that was found, if one was."""
    culprit = case.culprit
    if culprit is None or case.verdict not in FINDINGS:
        return shown
    texts = (*culprit.before, *culprit.after) if culprit.name != BELOW else ()
    opcodes = {found[1] for text in texts if (found := _OPCODE.match(text))} - _NAMING
    name = re.sub(r"[-.]\d+$", "", culprit.name)  # XLA counts some passes up from one compilation to the next
    return replace(shown, pass_=name, opcodes=frozenset(opcodes))


def _signature(lines: Sequence[str]) -> str:
    """The line of a crash that says why, without addresses and other numbers: not what was only a warning before."""
    wrong = [line for line in lines if not _PASSING.match(line)]
    found = next((match[0] for line in wrong if (match := _CHECK.search(line))), "")
    return re.sub(r"0x[0-9a-f]+|\d+", "#", found)[:200]
