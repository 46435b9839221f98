# mypy: ignore-errors
"""Options of one compilation, which come as text: XLA wants the type of the field, and only it knows which."""

from __future__ import annotations

import contextlib

from .programs import compile_options
from .wire import Refused

# Every snapshot as text in full, so that it can be run: by default XLA leaves out the values of large constants.
DUMP = {"xla_dump_hlo_as_text": "true", "xla_dump_hlo_pass_re": ".*", "xla_dump_large_constants": "true"}


def dumping(folder, options: dict) -> dict:
    """`options`, and those that dump every snapshot into `folder` unless it is None. What is asked for comes first, and
    an empty value takes an option out.
    """
    wanted = dict(options) if folder is None else {"xla_dump_to": folder, **DUMP, **options}
    return {name: value for name, value in wanted.items() if value or name not in DUMP}


def option_values(text: str) -> list:
    """What an option's text may mean, most likely first: XLA wants the type of the field, and only it knows which."""
    values = []
    if text.lower() in ("true", "false"):
        values.append(text.lower() == "true")
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            values.append(convert(text))
    if text in ("0", "1"):
        values.append(text == "1")
    return [*values, text]


def set_directly(options, name: str, text: str) -> bool:
    """Set a field that jaxlib shows as an attribute; False if it shows none.

    This comes before env_option_overrides because jaxlib 0.4.13 turns an int into a bool there.
    """
    fields = options.executable_build_options.debug_options
    if not hasattr(fields, name):
        return False
    for value in [*option_values(text), text.split(",")]:
        with contextlib.suppress(TypeError):
            setattr(fields, name, value)
            return True
    raise Refused("BadOption", f"{text!r} is not a value of {name}")


def compile_with(compile_once, options: dict, directly: bool = True):
    """`compile_once(settings)`, trying each option's text as the types it may have; XLA names the option that it does
    not take. directly: whether the debug options that jaxlib knows are those of the compiler.
    """
    candidates = {name: option_values(text) for name, text in options.items()}
    while True:
        settings = compile_options()
        for name, text in options.items():
            if directly and set_directly(settings, name, text):
                candidates.pop(name, None)
        settings.env_option_overrides = [(name, values[0]) for name, values in candidates.items()]
        try:
            return compile_once(settings)
        except Exception as e:
            message = str(e)
            if "No such compile option" in message:
                guilty = [name for name in candidates if f"'{name}'" in message]
                raise Refused("UnknownOption", f"this XLA has no option {', '.join(guilty) or message}") from e
            if "Protocol Buffer reflection usage error" in message:
                names = ", ".join(candidates)
                raise Refused(
                    "BadOption", f"this XLA takes {names} only as a flag of the process (--{names}=...)"
                ) from e
            guilty = [name for name in candidates if f"option {name}," in message or f"mismatch: '{name}'" in message]
            if not guilty or not ("While setting option" in message or "flag type mismatch" in message):
                raise
            candidates[guilty[0]].pop(0)
            if not candidates[guilty[0]]:
                raise Refused("BadOption", message.splitlines()[0]) from e
