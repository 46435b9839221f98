"""Templates as TOML files: those that come with assay, and a user's own."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from assay.errors import InputError, guessed
from assay.generate.draw import Draw, generator
from assay.generate.forms import NAMES
from assay.generate.grammar import for_target
from assay.generate.source import function
from assay.generate.template import NAMED, Step, Template, planned, typed
from assay.generate.types import BITS

_TOP = {"about", "dims", "types", "steps", "results", "grammar"}
_STEP = {"name", "type", "text", "given", "operations", "leaf"}
_GRAMMAR = {"dtypes", "sizes", "ops", "weights", "depth", "most", "shared", "constants", "operations"}


def names() -> list[str]:
    """Of the templates that come with assay."""
    files = resources.files("assay.generate").joinpath("templates").iterdir()
    return sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml"))


def text_of(name: str) -> str:
    """The file of a template that comes with assay. Raises InputError where there is none of this name."""
    if name not in (known := names()):
        guess = guessed(name, known, f"; there is: {', '.join(known)}")
        raise InputError(f"no template {name!r}{guess}")
    return resources.files("assay.generate").joinpath("templates", f"{name}.toml").read_text("utf-8")


def find(name: str) -> Template:
    """By its name, or a file's path (which ends in .toml). Raises InputError."""
    if not name.endswith(".toml"):
        return parse(text_of(name), name, name)
    path = Path(name)
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 text") from error
    return parse(text, path.stem, name)


def parse(text: str, name: str, source: str) -> Template:
    """source: what messages call it. Raises InputError in one line for anything that is not as it must be."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source}: not TOML: {error}") from error
    try:
        found = _template(table, name)
        _tried(found)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    return found


def _template(table: dict[str, Any], name: str) -> Template:
    _only(table, _TOP, "")
    settings, operations = _settings(_table(table, "grammar"))
    steps = tuple(_step(row, i) for i, row in enumerate(_list(table, "steps", "")))
    results = tuple(_strings(table, "results", ""))
    if steps and not results:
        raise InputError("results: names of steps are missing")
    if not steps and not settings:
        raise InputError("neither [[steps]] nor [grammar]: nothing to make programs of")
    dims = {key: tuple(_sizes(value, f"dims.{key}")) for key, value in _table(table, "dims").items()}
    types = {key: tuple(_dtypes(value, f"types.{key}")) for key, value in _table(table, "types").items()}
    if both := set(dims) & set(types):
        raise InputError(f"{min(both)} is both a dimension and a type")
    _known_names(steps, results)
    return Template(name, str(table.get("about", "")), dims, types, steps, results, settings, operations)


def _known_names(steps: tuple[Step, ...], results: tuple[str, ...]) -> None:
    """Raises InputError for a name used before there is such a step, or given twice."""
    known: set[str] = set()
    for step in steps:
        for used in (*step.given, *NAMED.findall(step.text)):
            if used not in known:
                raise InputError(f"step {step.name!r}: there is no earlier step {used!r}")
        if step.name in known:
            raise InputError(f"step {step.name!r}: the name is taken")
        known.add(step.name)
    for result in results:
        if result not in known:
            raise InputError(f"results: there is no step {result!r}")


def _tried(template: Template) -> None:
    """Raises InputError where a type, a size or an expression of it is none, whatever is drawn."""
    least = {name: min(sizes) for name, sizes in template.dims.items()}
    most = {name: max(sizes) for name, sizes in template.dims.items()}
    for step in template.steps:
        for sizes in (least, most):
            try:
                typed(step.type, {**sizes, **{name: dtypes[0] for name, dtypes in template.types.items()}})
            except InputError as error:
                raise InputError(f"step {step.name!r}: {error}") from error
    if not template.steps:
        return
    plan = planned(template, Draw(generator("check", template.name)), template.grammar(for_target("cpu")))
    try:
        compile(function(plan, "program"), template.name, "exec")
    except (SyntaxError, IndexError, KeyError, ValueError) as error:
        raise InputError(f"its steps are no Python: {error}") from error


def _step(row: Any, place: int) -> Step:
    where = f"steps[{place}]"
    if not isinstance(row, dict):
        raise InputError(f"{where}: a table is wanted")
    _only(row, _STEP, where)
    for key in ("name", "type"):
        if not isinstance(row.get(key), str):
            raise InputError(f"{where}: {key} is missing or no string")
    where = f"step {row['name']!r}"
    if not row["name"].isidentifier():
        raise InputError(f"{where}: the name is no identifier")
    if not isinstance(row.get("text", ""), str):
        raise InputError(f"{where}: text is no string")
    operations = row.get("operations", [0, 2])
    if (
        not isinstance(operations, list)
        or [type(n) for n in operations] != [int, int]
        or not 0 <= operations[0] <= operations[1] <= 100
    ):
        raise InputError(f"{where}: operations is to be [least, most], at most 100")
    if not isinstance(row.get("leaf", False), bool):
        raise InputError(f"{where}: leaf is to be true or false")
    if "text" in row and (unfit := {"given", "operations", "leaf"} & set(row)):
        raise InputError(f"{where}: {min(unfit)} is of a hole, and a step with text is none")
    given = tuple(_strings(row, "given", where))
    return Step(
        row["name"], row["type"], row.get("text", ""), given, (operations[0], operations[1]), row.get("leaf", False)
    )


def _settings(table: dict[str, Any]) -> tuple[dict[str, object], int | None]:
    """Of the grammar, by its fields' names; and how many operations a program has."""
    _only(table, _GRAMMAR, "grammar")
    found: dict[str, object] = {}
    if "dtypes" in table:
        found["dtypes"] = _weights(table["dtypes"], "grammar.dtypes", frozenset(BITS))
    if "sizes" in table:
        found["sizes"] = ((tuple(_sizes(table["sizes"], "grammar.sizes")), 1.0),)
    if "ops" in table:
        found["only"] = frozenset(_weights(table["ops"], "grammar.ops", NAMES))
    if "weights" in table:
        found["forms"] = _weights(table["weights"], "grammar.weights", NAMES)
    for key, least, most in (("depth", 0, 4), ("most", 1, 1 << 20), ("operations", 1, 200)):
        if key in table:
            if type(table[key]) is not int or not least <= table[key] <= most:
                raise InputError(f"grammar.{key} is to be an integer from {least} to {most}")
            found[key] = table[key]
    for key in ("shared", "constants"):
        if key in table:
            if type(table[key]) not in (int, float) or not 0 <= table[key] <= 1:
                raise InputError(f"grammar.{key} is to be a number from 0 to 1")
            found[key] = float(table[key])
    operations = found.pop("operations", None)
    return found, operations if isinstance(operations, int) else None


def _weights(value: Any, where: str, known: frozenset[str]) -> dict[str, float]:
    """A table of weights, or a list of names that weigh alike."""
    table = dict.fromkeys(value, 1.0) if isinstance(value, list) and all(isinstance(v, str) for v in value) else value
    if not isinstance(table, dict) or not table:
        raise InputError(f"{where} is to be a table of weights or a list of names")
    for name, weight in table.items():
        if name not in known:
            raise InputError(f"{where}: {name!r} is not known{guessed(name, known)}")
        if type(weight) not in (int, float) or not 0 <= weight < 1e6:
            raise InputError(f"{where}: the weight of {name!r} is to be a number of at least 0")
    if not any(table.values()):
        raise InputError(f"{where}: nothing has a weight above 0")
    return {name: float(weight) for name, weight in table.items()}


def _sizes(value: Any, where: str) -> list[int]:
    if not isinstance(value, list) or not value or any(type(v) is not int or not 0 <= v <= 1 << 20 for v in value):
        raise InputError(f"{where} is to be a list of sizes")
    return value


def _dtypes(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} is to be a list of element types")
    for dtype in value:
        if dtype not in BITS:
            raise InputError(f"{where}: {dtype!r} is no element type; there is: {', '.join(sorted(BITS))}")
    return value


def _strings(table: dict[str, Any], key: str, where: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or any(not isinstance(v, str) for v in value):
        raise InputError(f"{where}{': ' if where else ''}{key} is to be a list of names")
    return value


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise InputError(f"{key} is to be a table")
    return value


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise InputError(f"{where}{key} is to be a list of tables")
    return value


def _only(table: dict[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            guess = guessed(key, known, f"; there is: {', '.join(sorted(known))}")
            raise InputError(f"{where}{': ' if where else ''}{key} means nothing here{guess}")
