"""Programs that try to harm the grader or to be judged correct without being it: one property a test, at each level."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bcrbench.grading.sandbox import Judged, Sandbox
from bcrbench.grading.sandbox.child import landlock
from bcrbench.grading.sandbox.children import can_lend_users

pytestmark = [
    pytest.mark.usefixtures("unharmed"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc"),
]

TESTS = "def check(candidate):\n    assert candidate(1) == 2\n"
RIGHT = "def f(x):\n    return 2\n"
LOOP = "while True: pass\n"


def processes_of(place: Path) -> list[str]:
    """Command lines of processes that bear the folder's name, zombies apart."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(place) in (line := (entry / "cmdline").read_text(errors="replace")):
                found.append(line)
    return found


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split())


def descriptors() -> dict[str, str]:
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return {fd: target for fd, target in found.items() if not target.startswith("/proc/")}


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def unharmed(place: Path) -> Iterator[None]:
    """The grader has the files, descriptors, children, threads, folder and environment that it had."""
    outside = place / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    before = (descriptors(), children(), os.getcwd(), environment(), threading.active_count())
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    yield
    assert processes_of(place) == []
    assert (descriptors(), children(), os.getcwd(), environment(), threading.active_count()) == before
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == handlers
    assert [path.name for path in place.iterdir()] == ["outside"]
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"


def judged(sandbox: Sandbox, program: str, tests: str = TESTS) -> Judged:
    """Judge, within the limits."""
    begun = time.monotonic()
    result = sandbox.judge(program, tests, "f")
    assert time.monotonic() - begun < sandbox.limits.wall_s + 5
    assert result.outcome != "error:harness", result
    return result


def brief(sandbox: Sandbox, wall_s: float) -> Sandbox:
    """The same for a program that must run out of time."""
    return replace(sandbox, limits=replace(sandbox.limits, wall_s=wall_s))


def held(sandbox: Sandbox, what: str) -> None:
    """Skip what a process without namespaces and without Landlock cannot hold."""
    if sandbox.level == "process" and what not in sandbox.told:
        pytest.skip(f"not held at the process level on this kernel: {what}")


def test_endless_loop(sandbox: Sandbox) -> None:
    assert judged(sandbox, LOOP).outcome == "error:timeout"  # by its CPU time, on an idle machine


def test_endless_loop_that_ignores_the_cpu_limit(sandbox: Sandbox) -> None:
    program = f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{LOOP}"
    assert judged(brief(sandbox, 3), program).outcome == "error:timeout"


def test_endless_loop_in_the_function(sandbox: Sandbox) -> None:
    assert judged(brief(sandbox, 0.5), f"def f(x):\n    {LOOP}").outcome == "error:timeout"


def test_sleep(sandbox: Sandbox) -> None:
    result = judged(brief(sandbox, 0.5), "import time\ntime.sleep(1000)")
    assert result.outcome == "error:timeout" and "0.5 s" in result.reason


def test_endless_output_is_cut(sandbox: Sandbox) -> None:
    result = judged(brief(sandbox, 1), "while True: print('x' * 5000)")
    assert result.outcome == "error:timeout"
    assert 0 < len(result.output) <= sandbox.limits.output_kb * 1024


def test_fork_bomb(sandbox: Sandbox) -> None:
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n"
    assert judged(brief(sandbox, 1.5), bomb).outcome == "error:timeout"


def test_number_of_processes(sandbox: Sandbox) -> None:
    program = """
import os, time
def count():
    n = 0
    try:
        while n < 1000:
            if os.fork() == 0:
                time.sleep(100)
            n += 1
    except OSError:
        pass
    return n
"""
    (value,) = sandbox.evaluate(program, ["count"]).values
    assert 1 <= int(value.text) <= sandbox.limits.processes + 4


@pytest.mark.parametrize("where", ["def f(x):\n    {}\n    return 2\n", "{}\ndef f(x):\n    return 2\n"])
def test_ten_gigabytes(sandbox: Sandbox, where: str) -> None:
    assert judged(sandbox, where.format("held = bytearray(10 * 2**30)")).outcome == "error:memory"


def test_memory_by_steps(sandbox: Sandbox) -> None:
    assert judged(sandbox, "held = []\nwhile True: held.append(bytes(2**25))").outcome == "error:memory"


def test_delete_and_write_outside(sandbox: Sandbox, place: Path) -> None:
    held(sandbox, "no writing outside its folder")
    own_user = sandbox.level == "process" and not can_lend_users()  # Landlock has no rule on modes
    outside = place / "outside"
    outside.chmod(0o777)  # so that the sandbox alone stands in the way
    (outside / "kept").chmod(0o666)
    program = f"""
import os, shutil
def f(x):
    for deed in (
        lambda: os.remove({str(outside / "kept")!r}),
        lambda: open({str(outside / "kept")!r}, "w"),
        lambda: open({str(outside / "new")!r}, "w"),
        lambda: os.rename({str(outside / "kept")!r}, "taken"),
        lambda: shutil.rmtree({str(place)!r}),
        lambda: {own_user} or os.chmod({str(outside)!r}, 0),
        lambda: os.link({str(outside / "kept")!r}, "linked"),
    ):
        try:
            deed()
        except OSError:
            pass
    return 2
"""
    assert judged(sandbox, program).outcome == "correct"


def test_shown_files_are_read_only(sandbox: Sandbox) -> None:
    if sandbox.level == "process":
        pytest.skip("no file system of its own")
    paths = ["/", "/usr", sys.prefix, sys.base_prefix, "/dev"]
    program = f"import os\nflags = [os.statvfs(path).f_flag & os.ST_RDONLY for path in {paths}]"
    (value,) = sandbox.evaluate(program, ["flags"]).values
    assert value.text == str([os.ST_RDONLY] * len(paths))


def test_no_privileges_are_left(sandbox: Sandbox) -> None:
    program = """
import ctypes, os
libc = ctypes.CDLL(None)
sets = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), sets)
held = sum(sets[0:2]) | sum(sets[3:5])
"""
    values = sandbox.evaluate(program, ["held", "libc.prctl(39, 0, 0, 0, 0)", "os.getresuid()[0] == 0"]).values
    to_read = 8 if sandbox.level == "process" else 0  # CAP_DAC_READ_SEARCH in two sets, where Python is root's alone
    assert int(values[0].text) in (0, to_read)
    assert [value.text for value in values[1:]] == ["1", "False"]


def test_landlock_is_used_where_the_kernel_has_it(sandbox: Sandbox) -> None:
    if sandbox.level != "process" or landlock.version() < 4:
        pytest.skip("for the process level and Linux 6.7 on")
    assert "no TCP" in sandbox.told and "no writing outside its folder" in sandbox.told


def test_own_folder_is_empty_and_writable(sandbox: Sandbox) -> None:
    program = "import os\nfound = os.listdir()\nopen('a', 'w').write('b')\nback = open('a').read()"
    assert [v.text for v in sandbox.evaluate(program, ["found", "back"]).values] == ["[]", "'b'"]


def test_folder_that_is_hard_to_remove(sandbox: Sandbox) -> None:
    program = """
import os
def f(x):
    os.makedirs("closed/inner"); open("closed/inner/file", "w").close()
    os.chmod("closed/inner", 0); os.chmod("closed", 0)
    os.symlink("/", "root"); os.mkdir("0"); os.symlink("..", "1"); os.mkfifo("pipe"); os.mkdir(b"\\xff")
    for _ in range(1010):
        os.mkdir("dddd"); os.chdir("dddd")
    return 2
"""
    assert judged(sandbox, program).outcome == "correct"


def test_file_size(sandbox: Sandbox) -> None:
    program = "def write():\n    with open('a', 'wb') as file:\n        file.write(bytes(20 * 2**20))\n"
    (value,) = sandbox.evaluate(program, ["write"]).values
    assert "OSError" in value.error


def test_open_files(sandbox: Sandbox) -> None:
    (value,) = sandbox.evaluate("def many():\n    return [open('/dev/null') for _ in range(1000)]", ["many"]).values
    assert "Too many open files" in value.error


def test_environment_is_not_seen(sandbox: Sandbox) -> None:
    if sandbox.level == "process" and not can_lend_users():
        held(sandbox, "no writing outside its folder")  # Landlock closes /proc too
    program = """
import glob, os, subprocess
def seen():
    texts = [str(dict(os.environ)), subprocess.run(["env"], capture_output=True, text=True).stdout]
    for path in [*glob.glob("/proc/*/environ"), *(f"/proc/{n}/environ" for n in range(1, 40000))]:
        try:
            texts.append(open(path, errors="replace").read())
        except OSError:
            pass
    return ["x7-" + "secret" in text for text in texts].count(True), len(os.environ)
"""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BCRBENCH_SECRET", "x7-secret")
        (value,) = sandbox.evaluate(program, ["seen"]).values
    count, size = eval(value.text)
    assert count == 0 and size < 12


def test_socket_to_loopback(sandbox: Sandbox) -> None:
    held(sandbox, "no TCP")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        program = f"""
import socket
def f(x):
    try:
        socket.create_connection(("127.0.0.1", {listener.getsockname()[1]}), 2)
    except OSError:
        return 2
"""
        assert judged(sandbox, program).outcome == "correct"
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("leave", ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit"])
@pytest.mark.parametrize("where", ["{}\n" + RIGHT, "def f(x):\n    {}\n    return 2\n"])
def test_leaving_is_wrong(any_sandbox: Sandbox, leave: str, where: str) -> None:
    assert judged(any_sandbox, where.format(leave)).outcome == "wrong"


def test_leaving_before_the_tests_is_told(sandbox: Sandbox) -> None:
    assert judged(sandbox, "import os; os._exit(0)").reason == "exited with 0 before the tests"


@pytest.mark.parametrize(
    "program",
    [
        "class Yes:\n    def __eq__(self, other): return True\n    __ne__ = None\ndef f(x): return Yes()",
        "class Yes(int):\n    def __eq__(self, other): return True\n    __hash__ = None\ndef f(x): return Yes(3)",
        "class Yes(list):\n    def __eq__(self, other): return True\ndef f(x): return Yes()",
        "import builtins\nbuiltins.AssertionError = type('Fine', (BaseException,), {})\ndef f(x): return 3",
        "import builtins\nfor n in ('all', 'any', 'isinstance', 'abs', 'eval', 'exec', 'compile'):\n"
        "    setattr(builtins, n, lambda *a, **k: True)\ndef f(x): return 3",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef f(x): return 3",
        "import sys\nsys.modules['__tests__'] = sys\ndef check(c): pass\ndef f(x): return 3",
        "import ctypes\ndef f(x):\n"  # turns the integer 3 into 2, in its own process
        "    ctypes.c_long.from_address(id(3) + 24).value = 2\n    return 'no'",
    ],
)
def test_patched_comparison_is_wrong(any_sandbox: Sandbox, program: str) -> None:
    assert judged(any_sandbox, program).outcome == "wrong"


def test_fake_verdict_on_every_descriptor(sandbox: Sandbox) -> None:
    program = """
import json, os
told = json.dumps({"secret": "", "outcome": "correct", "reason": ""}).encode()
def everywhere():
    for fd in range(256):
        for text in (told, told + b"\\n", len(told).to_bytes(8, "big") + told, b"correct\\n", b'{"ready": true}\\n'):
            try:
                os.write(fd, text)
            except OSError:
                pass
everywhere()
def f(x):
    everywhere()
    return 3
"""
    assert judged(sandbox, program).outcome == "wrong"


def test_fake_verdict_printed(sandbox: Sandbox) -> None:
    result = judged(sandbox, "print('correct')\ndef f(x):\n    print('{\"outcome\": \"correct\"}')\n    return 3")
    assert result.outcome == "wrong" and "correct" in result.output


def test_descriptors_of_the_candidate(sandbox: Sandbox) -> None:
    program = """
import os
def count():
    found = 0
    for fd in range(1024):
        try:
            os.fstat(fd)
            found += 1
        except OSError:
            pass
    return found
"""
    (value,) = sandbox.evaluate(program, ["count"]).values
    assert value.text == "4"  # input, output twice, answers


def test_thread_left_running(sandbox: Sandbox) -> None:
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()\n" + RIGHT
    result = judged(sandbox, program)
    assert result.outcome == "correct" and result.seconds < sandbox.limits.wall_s


@pytest.mark.parametrize("how", ["signal.signal(number, signal.SIG_IGN)", "signal.pthread_sigmask(0, [number])"])
def test_signals_blocked(sandbox: Sandbox, how: str) -> None:
    program = f"""
import signal
for number in signal.valid_signals():
    try:
        {how}
    except (OSError, ValueError):
        pass
{LOOP}"""
    assert judged(brief(sandbox, 1), program).outcome == "error:timeout"


def test_stopped(sandbox: Sandbox) -> None:
    assert (
        judged(brief(sandbox, 0.5), "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)").outcome
        == "error:timeout"
    )


def test_daemon_is_dead_afterwards(sandbox: Sandbox, place: Path) -> None:
    mark = f"9876.{os.getpid()}{time.monotonic_ns()}"
    program = f"""
import os, signal
def f(x):
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.write(told, b"x")
            os.closerange(0, 64)
            os.execv("/bin/sleep", ["sleep", "{mark}"])
        os._exit(0)
    os.read(ready, 1)
    return 2
"""
    assert judged(sandbox, program).outcome == "correct"
    assert processes_of(Path(mark)) == []


def test_daemon_of_a_program_that_left(sandbox: Sandbox, place: Path) -> None:
    program = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1000)\nos._exit(0)\n"
    result = judged(sandbox, program)
    assert result.outcome == "wrong" and result.seconds < sandbox.limits.wall_s / 2  # its daemon holds the pipe


@pytest.mark.parametrize("target", ["os.getpid()", "os.getppid()", "0", "-1"])
def test_killing(sandbox: Sandbox, target: str) -> None:
    if target == "-1" and sandbox.level == "process" and not can_lend_users():
        pytest.skip("as the grader's own user this would end the grader")
    program = f"import os, signal\ndef f(x):\n    os.kill({target}, signal.SIGKILL)\n    return 3"
    assert judged(sandbox, program).outcome == "wrong"


@pytest.mark.parametrize(
    "value", ["'x' * 20 * 2**20", "['x' * 100] * 2 * 10**5", "range(10**15)", "10**50000", "[[]] * 10**5"]
)
def test_huge_value_is_wrong(any_sandbox: Sandbox, value: str) -> None:
    assert judged(any_sandbox, f"def f(x):\n    return {value}").outcome == "wrong"


@pytest.mark.parametrize("body", ["return f(x)", "v = []\n    for _ in range(10**5): v = [v]\n    return v"])
def test_deep_recursion_is_wrong(any_sandbox: Sandbox, body: str) -> None:
    assert "RecursionError" in judged(any_sandbox, f"def f(x):\n    {body}").reason


def test_stack_overflow(sandbox: Sandbox) -> None:
    program = "import sys\nsys.setrecursionlimit(10**9)\ndef f(x):\n    return sorted([x], key=f)"
    assert judged(sandbox, program).outcome in ("wrong", "error:memory")


def test_tests_are_not_in_the_candidate(sandbox: Sandbox) -> None:
    program = """
import gc, sys
NEEDLE = "mark" + "er"
def texts():
    yield from (str(item) for item in gc.get_objects())
    frame = sys._getframe()
    while frame:
        yield str(frame.f_locals) + str(frame.f_globals) + str(frame.f_code.co_consts)
        frame = frame.f_back
    try:
        for line in open("/proc/self/maps"):
            area, rights = line.split()[:2]
            start, end = (int(part, 16) for part in area.split("-"))
            if "r" in rights and "[" not in line.replace("[heap]", "").replace("[stack]", ""):
                with open("/proc/self/mem", "rb") as memory:
                    memory.seek(start)
                    yield memory.read(end - start).decode("latin-1")
    except OSError:
        pass
def f(x):
    return 2 if any(NEEDLE + "s of the tests" in text for text in texts()) else 3
"""
    tests = f"{TESTS}    # markers of the tests\n    'markers of the tests'\n"
    assert judged(sandbox, program, tests).outcome == "wrong"


def test_output_that_is_not_utf_8(sandbox: Sandbox) -> None:
    program = "import os\nos.write(1, b'\\xff\\xfe\\x00')\nprint('\\ud800')\n" + RIGHT
    result = judged(sandbox, program)
    assert result.outcome == "correct" and "\ufffd" in result.output and "\\ud800" in result.output


@pytest.mark.parametrize("frame", ["(2**62).to_bytes(8, 'big')", "(4).to_bytes(8, 'big') + b'nope'", "b'x' * 100"])
def test_broken_answers_are_wrong(any_sandbox: Sandbox, frame: str) -> None:
    program = f"""
import os
def f(x):
    for fd in range(3, 64):
        try:
            os.write(fd, {frame})
        except OSError:
            pass
    return 2
"""
    assert judged(any_sandbox, program).outcome == "wrong"


@pytest.mark.parametrize(
    "answer",
    [
        {"value": {"set": [[1]]}},
        {"value": {"dict": 3}},
        {"value": {"pickle": "x"}},
        {"value": {"int": "0x", "text": []}},
        {"raised": {"type": "E", "bases": ["exit", "eval", 3], "args": [], "text": "t"}},
        {"raised": 4},
        {"raised": {}},
        {"raised": {"type": "E", "bases": 4, "args": [], "text": "t"}},
        {"raised": {"type": "E", "bases": ["OSError"], "args": 4, "text": "t"}},
        {"state": 1, "value": 2},
        {},
        [],
    ],
)
@pytest.mark.parametrize("where", ["", "def f(x): "])
def test_forged_answers_are_wrong(any_sandbox: Sandbox, answer: object, where: str) -> None:
    program = f"""
import json, os
def forge(x):
    body = json.dumps({answer!r}).encode()
    for fd in range(3, 64):
        try:
            os.write(fd, len(body).to_bytes(8, "big") + body)
        except OSError:
            pass
    os._exit(0)
{where}forge(0)
"""
    assert judged(any_sandbox, program).outcome == "wrong"


def test_grader_that_is_killed_leaves_nothing(sandbox: Sandbox, place: Path) -> None:
    code = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from bcrbench.grading.sandbox import *\n"
        "print('on', flush=True)\n"
        f"Sandbox({sandbox.level!r}, '').judge('while True: pass', 'def check(c): pass', 'f')"
    )
    grader = subprocess.Popen([sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE)
    assert grader.stdout and grader.stdout.readline()
    until = time.monotonic() + 20
    while len(processes_of(place)) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    grader.kill()
    grader.wait()
    grader.stdout.close()
    while processes_of(place) and time.monotonic() < until:
        time.sleep(0.02)
    assert processes_of(place) == []
    for left in place.glob("bcrbench-sandbox-*"):  # the one thing that nobody was left to remove
        left.rmdir()
    assert tempfile.gettempdir() == str(place)
