"""Toolchains on disk. Nothing here needs a network, but the slow test at the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from assay.errors import ToolchainError
from assay.toolchain import environments, installer
from assay.toolchain.environments import add, host, installed, parse_spec, remove, requirements, resolve
from assay.toolchain.installer import Install, NoFit
from assay.toolchain.interpreters import Interpreter, ask, find_interpreters

CURRENT = Interpreter((sys.version_info[0], sys.version_info[1], sys.version_info[2]), sys.executable)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "toolchains"


def fake_install(order: Install) -> None:
    """An environment whose python is the host's: it has a jax, so that the check passes."""
    order.say("installing")
    (order.folder / "bin").mkdir()
    script = order.folder / "bin" / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)


def use(monkeypatch: pytest.MonkeyPatch, install: object, pythons: Sequence[Interpreter] = (CURRENT,)) -> None:
    monkeypatch.setattr(environments, "find_interpreters", lambda: list(pythons))
    monkeypatch.setattr(environments, "pick_installer", lambda pythons: install)
    monkeypatch.setattr(environments, "published_versions", lambda name, pythons: ["0.6.1", "0.6.2", "0.7.0"])
    monkeypatch.setattr(environments, "published_pythons", lambda name, version, pythons: ["3.8", "3.9"])


# ---- specs


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("jax==0.6.2", {"jax": "0.6.2"}),
        ("jax==0.12.0.1", {"jax": "0.12.0.1"}),
        (" jax == 0.6.2 , libtpu == 0.0.42.1 ", {"jax": "0.6.2", "libtpu": "0.0.42.1"}),
        ("libtpu==0.0.42,jax==0.10.2", {"jax": "0.10.2", "libtpu": "0.0.42"}),
    ],
)
def test_specs(spec: str, wanted: dict[str, str]) -> None:
    assert parse_spec(spec) == wanted


@pytest.mark.parametrize(
    "spec",
    ["", "jax", "jax=0.6.2", "jax>=0.6", "jax==0.6.*", "torch==2.0", "libtpu==0.0.42", "jax==1,jax==2", "jax==../../x"],
)
def test_what_is_not_a_spec_is_one_clear_line(spec: str) -> None:
    with pytest.raises(ToolchainError, match="jax==VERSION") as failed:
        parse_spec(spec)
    assert "\n" not in str(failed.value)


def test_old_releases_get_the_numpy_of_their_time() -> None:
    assert {"jax[cpu]==0.4.13", "jaxlib<=0.4.13", "numpy<2", "scipy<1.13"} <= set(requirements({"jax": "0.4.13"}))
    assert "numpy<2" in requirements({"jax": "0.4.25"})
    assert "numpy<2" not in requirements({"jax": "0.4.26"})
    assert not any(r.startswith("numpy") for r in requirements({"jax": "0.12.0.1"}))
    assert requirements({"jax": "0.10.2", "libtpu": "0.0.42.1"})[-1] == "libtpu==0.0.42.1"


def test_the_host_is_this_python_and_its_jax_is_not_imported() -> None:
    toolchain = resolve(None)
    assert (toolchain, toolchain.spec, toolchain.python) == (host(), "host", sys.executable)
    assert toolchain.version("jaxlib") is not None
    assert resolve("host") == toolchain


# ---- add, list, remove


def test_add_makes_what_resolve_finds_and_remove_deletes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_install)
    assert installed() == []
    said: list[str] = []
    made = add("jax==0.6.2", said.append)
    assert (made.spec, made.python) == ("jax==0.6.2", str(cache / "jax-0.6.2" / "bin" / "python"))
    assert made.version("jaxlib") == host().version("jaxlib")
    assert any("installing" in line for line in said)
    use(monkeypatch, None)  # from now on nothing is installed any more
    assert add("jax==0.6.2") == resolve("jax==0.6.2") == made
    assert installed() == [made]
    remove("jax==0.6.2")
    assert installed() == []
    assert list(cache.iterdir()) == []
    with pytest.raises(ToolchainError, match="not installed"):
        remove("jax==0.6.2")


def test_toolchains_are_listed_by_version(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_install)
    monkeypatch.setattr(environments, "_check", lambda python: {"jax": "1"})
    for spec in ("jax==0.10.2", "jax==0.4.30", "jax==0.6.2,libtpu==0.0.9", "jax==0.6.2"):
        add(spec)
    assert [t.spec for t in installed()] == ["jax==0.4.30", "jax==0.6.2", "jax==0.6.2,libtpu==0.0.9", "jax==0.10.2"]


def test_a_toolchain_whose_interpreter_is_gone_is_not_installed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, fake_install)
    monkeypatch.setattr(environments, "_check", lambda python: {"jax": "1"})
    made = add("jax==0.6.2")
    Path(made.python).unlink()
    assert installed() == []
    assert add("jax==0.6.2") == made  # made anew


def no_fit(order: Install) -> None:
    raise NoFit("no matching distribution")


def test_the_newest_python_that_fits_is_taken(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def install(order: Install) -> None:
        tried.append(order.interpreter.minor)
        if order.interpreter.minor != "3.9":
            raise NoFit("")
        fake_install(order)

    use(monkeypatch, install, [Interpreter((3, m, 0), "python") for m in (13, 11, 9, 8)])
    monkeypatch.setattr(environments, "_check", lambda python: {"jax": "1"})
    add("jax==0.6.2")
    assert tried == ["3.13", "3.11", "3.9"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("jax==0.6.2", r"jax==0.6.2 cannot be installed here: it needs Python 3.8 or 3.9; found here: 3.13"),
        ("jax==0.6.9", r"there is no jax 0.6.9; nearest: 0.6.2, 0.7.0"),
        ("jax==0.9.9", r"there is no jax 0.9.9; nearest: 0.7.0"),
    ],
)
def test_what_cannot_be_had_is_one_line_and_leaves_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch, spec: str, said: str
) -> None:
    use(monkeypatch, no_fit, [Interpreter((3, 13, 0), "python")])
    with pytest.raises(ToolchainError, match=said):
        add(spec)
    assert list(cache.iterdir()) == []


def test_an_environment_that_does_not_work_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def install(order: Install) -> None:
        (order.folder / "bin").mkdir()
        script = order.folder / "bin" / "python"
        script.write_text("#!/bin/sh\necho Traceback >&2; echo 'ImportError: numpy.core' >&2; exit 1\n")
        script.chmod(0o755)

    use(monkeypatch, install)
    with pytest.raises(ToolchainError, match=r"does not work on Python .*ImportError: numpy.core"):
        add("jax==0.6.2")
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ToolchainError, match="ASSAY_CACHE"):
        add("jax==0.6.2")


ADDER = """
import sys, time
from pathlib import Path
from assay.toolchain import environments
from assay.toolchain.interpreters import Interpreter
marks = Path(sys.argv[1])
def install(order):
    (marks / f"started-{sys.argv[2]}").touch()
    (order.folder / "half").write_text("made")
    time.sleep(float(sys.argv[3]))
    (order.folder / "bin").mkdir()
    script = order.folder / "bin" / "python"
    script.write_text(f'#!/bin/sh\\nexec {sys.executable} "$@"\\n')
    script.chmod(0o755)
environments.find_interpreters = lambda: [Interpreter((3, 13, 0), sys.executable)]
environments.pick_installer = lambda pythons: install
environments._check = lambda python: {"jax": "0.6.2"}
print(environments.add("jax==0.6.2", lambda line: print(line, flush=True)).spec)
"""


def adder(folder: Path, name: str, seconds: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(ADDER), str(folder), name, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_adds_at_once_install_once(cache: Path, tmp_path: Path) -> None:
    first = adder(tmp_path, "first", 1.5)
    wait_for(tmp_path / "started-first")
    second = adder(tmp_path, "second", 0)
    said, _ = second.communicate(timeout=60)
    assert "waiting for another process" in said
    assert said.splitlines()[-1] == "jax==0.6.2"
    assert first.communicate(timeout=60)[0].splitlines()[-1] == "jax==0.6.2"
    assert not (tmp_path / "started-second").exists()
    assert [t.spec for t in installed()] == ["jax==0.6.2"]


def test_an_add_that_is_killed_leaves_nothing_that_looks_installed(cache: Path, tmp_path: Path) -> None:
    first = adder(tmp_path, "first", 60)
    wait_for(tmp_path / "started-first")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert installed() == []
    assert [p.name for p in cache.iterdir() if p.name.startswith(".building-")]
    assert adder(tmp_path, "second", 0).communicate(timeout=60)[0].splitlines()[-1] == "jax==0.6.2"
    assert sorted(p.name for p in cache.iterdir()) == [".lock-jax-0.6.2", "jax-0.6.2"]
    assert not (cache / "jax-0.6.2" / "half").exists() or (cache / "jax-0.6.2" / "bin").exists()


def test_only_what_is_left_of_its_own_name_is_cleaned_up(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another toolchain may be in the making whose name begins alike; its lock is not held by this one."""
    use(monkeypatch, fake_install)
    monkeypatch.setattr(environments, "_check", lambda python: {"jax": "1"})
    cache.mkdir(parents=True)
    specs = [f"jax==0.10.{patch}{libtpu}" for patch in (2, 21) for libtpu in ("", ",libtpu==0.0.4", ",libtpu==0.0.42")]
    for spec in specs:
        made = {other: Path(tempfile.mkdtemp(prefix=f".building-{name_of(other)}-", dir=cache)) for other in specs}
        removed = cache / f".building-{name_of(spec)}-removed"
        removed.mkdir()
        add(spec)
        assert [other for other in specs if not made[other].exists()] == [spec]
        assert not removed.exists()
        for left in made.values():
            left.rmdir() if left.exists() else None


def name_of(spec: str) -> str:
    return environments._name(environments.parse_spec(spec))


# ---- what an installer says


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> Install:
    """An order whose installer prints `said` and fails."""
    script = folder / "installer"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\nexit 1\n")
    script.chmod(0o755)
    return Install(Interpreter((3, 13, 0), str(script)), folder, ["jax==0.6.2"], 0, lambda line: None)


@pytest.mark.parametrize(
    ("said", "raises", "message"),
    [
        ("ERROR: No matching distribution found for jaxlib==0.4.13", NoFit, "No matching distribution"),
        ("ERROR: ResolutionImpossible: for help visit", NoFit, "ResolutionImpossible"),
        ("Because jaxlib==0.4.13 has no wheels with a matching Python ABI tag", NoFit, "no wheels"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution",
            ToolchainError,
            "no network",
        ),
        ("error: client error (Connect): dns error", ToolchainError, "no network"),
        ("Collecting jax\nERROR: No space left on device\n\n", ToolchainError, "No space left on device"),
    ],
)
def test_what_an_installer_says_becomes_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, raises: type[Exception], message: str
) -> None:
    order = pretend(tmp_path, monkeypatch, said)
    with pytest.raises(raises, match=message) as failed:
        installer._call([order.interpreter.python], order)
    assert "\n" not in str(failed.value)


def test_without_uv_and_pip_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(installer, "_pip_python", lambda pythons: None)
    with pytest.raises(ToolchainError, match="install uv or"):
        installer.pick_installer([])


# ---- interpreters


def test_the_hosts_own_python_is_found() -> None:
    found = find_interpreters()
    versions = [i.version[:2] for i in found]
    assert sys.version_info[:2] in versions
    assert versions == sorted(versions, reverse=True)
    assert len(set(versions)) == len(versions)


def test_a_shim_that_stands_for_nothing_is_not_an_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for minor, body in ((99, "exit 127"), (13, "echo '[[3, 13, 0], \"x\", false]'"), (12, "echo hello")):
        shim = tmp_path / f"python3.{minor}"
        shim.write_text(f"#!/bin/sh\n{body}\n")
        shim.chmod(0o755)
        assert ask(str(shim)) is None
    assert ask(str(tmp_path / "nothing")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert all(str(tmp_path) not in i.python for i in find_interpreters())


# ---- for real


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_real_toolchain_is_added_and_works(cache: Path) -> None:
    from assay.toolchain import Worker

    try:
        toolchain = add("jax==0.6.2")
    except ToolchainError as e:
        if "no network" in str(e) or "cannot be installed here" in str(e):
            pytest.skip(str(e))
        raise
    assert toolchain.version("jaxlib") == "0.6.2"
    known = json.loads((cache / "jax-0.6.2" / "toolchain.json").read_text())
    assert known["spec"] == "jax==0.6.2"
    with Worker(toolchain) as worker:
        assert worker.describe().versions["jax"] == "0.6.2"
    remove("jax==0.6.2")
    assert list(cache.iterdir()) == []
