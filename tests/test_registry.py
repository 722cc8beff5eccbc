"""The registry: lazy entries, names from outside packages, and what an unknown name gets."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcrbench import registry as module
from bcrbench.errors import UserError, unknown
from bcrbench.registry import Registry
from bcrbench.tasks import TASKS
from bcrbench.tasks.base import Grader

NAMES = st.text(alphabet="abcdefgh_0123456789", min_size=1, max_size=12)


@given(st.dictionaries(NAMES, st.integers(), min_size=1))
def test_what_is_put_in_comes_out(entries):
    found = Registry("thing", entries)
    assert found.names() == sorted(entries)
    assert {name: found.get(name) for name in entries} == entries


@given(st.dictionaries(NAMES, st.integers(), min_size=1), NAMES)
def test_an_unknown_name_lists_the_known_ones_in_one_line(entries, name):
    if name in entries:
        return
    with pytest.raises(UserError) as caught:
        Registry("thing", entries).get(name)
    message = str(caught.value)
    assert message.startswith(f"unknown thing {name!r}")
    assert message.endswith("known: " + ", ".join(sorted(entries)))
    assert "\n" not in message


@pytest.mark.parametrize(("typed", "hint"), [("gsm8", "'gsm8k'"), ("quote", "'quotes'"), ("zzz", None)])
def test_the_nearest_name_is_offered_when_one_is_near(typed, hint):
    message = str(unknown("task", typed, ["quotes", "gsm8k"]))
    assert (f"did you mean {hint}" in message) if hint else ("did you mean" not in message)


def test_a_lazy_entry_is_imported_when_it_is_asked_for_and_not_before():
    code = (
        "import sys\n"
        "from bcrbench.registry import Registry\n"
        "found = Registry('thing', {'lazy': 'colorsys:rgb_to_hsv', 'broken': 'no_such_module:x'})\n"
        "assert 'colorsys' not in sys.modules and found.names() == ['broken', 'lazy']\n"
        "assert found.get('lazy')(0, 0, 0) == (0.0, 0.0, 0) and found.get('lazy') is found.get('lazy')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def outside(monkeypatch):
    """An installed package that offers one entry and one that is taken already."""
    points = [EntryPoint("theirs", "colorsys:hls_to_rgb", "some.group"), EntryPoint("ours", "no_such:x", "some.group")]
    monkeypatch.setattr(module, "entry_points", lambda group: points if group == "some.group" else [])


def test_outside_packages_add_names_but_take_none_away(outside):
    import colorsys

    found = Registry("thing", {"ours": 1}, group="some.group")
    assert found.names() == ["ours", "theirs"]
    assert found.get("theirs") is colorsys.hls_to_rgb
    assert found.get("ours") == 1
    with pytest.raises(UserError, match="did you mean 'theirs'"):
        found.get("their")


def test_a_registry_without_a_group_ignores_outside_packages(outside):
    assert Registry("thing", {"ours": 1}).names() == ["ours"]


@pytest.mark.parametrize("name", ["quotes", "gsm8k"])
def test_every_registered_task_keeps_the_contract(name):
    task = TASKS.get(name)()
    assert task.name == name
    assert task.default_grader in task.graders
    assert task.max_new_tokens > 0
    assert task.prompts().workers
    for key, grader in task.graders.items():
        typed: Grader = grader
        assert (typed.name, typed.version > 0) == (key, True)
        assert typed.predict("") is None
        assert typed.correct("18", "18") and not typed.correct("18", "19") and not typed.correct(None, "18")


def test_listing_tasks_loads_none_of_them():
    code = (
        "import sys\n"
        "from bcrbench.tasks import TASKS\n"
        "assert {'quotes', 'gsm8k'} <= set(TASKS.names())\n"
        "heavy = {'torch', 'transformers', 'datasets', 'bcrbench.tasks.gsm8k', 'bcrbench.tasks.quotes'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
