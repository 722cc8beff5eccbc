"""Prompt sets: what the schema refuses and by which words, and that no text is lost or altered."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import bcrbench
from bcrbench.agents.promptset import Heard, PromptSet, RolePrompt, load_prompts
from bcrbench.errors import UserError
from bcrbench.tasks.prompt_files import bundled_prompts

PACKAGE = Path(bcrbench.__file__).parent


def wording() -> dict:
    """A small valid set."""
    return {
        "name": "small",
        "version": 1,
        "question_prefix": "Q: ",
        "peers_intro": "\nHeard:\n",
        "peer": "{role} {id} says {output}.\n",
        "workers": [
            {"role": "Adder", "system": "Add.", "user": "{few_shot}\nQ: {question}", "few_shot": "Q: 1 + 1\nA: 2"},
            {"role": "Doubter", "system": "Doubt.", "user": "Q: {question}"},
        ],
        "decision": {"role": "Judge", "system": "Judge.", "user": "Q: {question}", "peers_intro": "\nAll:\n"},
    }


@pytest.fixture
def file(tmp_path):
    """Writes a set (or raw text) and gives its path."""

    def write(content) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), encoding="utf-8")
        return path

    return write


def test_a_valid_set_is_read_whole(file):
    prompts = load_prompts(file(wording()))
    assert prompts.worker_roles() == ["Adder", "Doubter"]
    assert prompts.role("Judge").system == "Judge."
    first = prompts.user_text("Adder", "2 + 2", [])
    assert first == "Q: 1 + 1\nA: 2\nQ: 2 + 2"
    second = prompts.user_text("Doubter", "2 + 2", [Heard("1", "Adder", "four")])
    assert second == "Q: 2 + 2\nHeard:\nAdder 1 says four.\n"
    assert prompts.user_text("Judge", "2 + 2", [Heard("1", "Adder", "four")]).startswith("Q: 2 + 2\nAll:\n")


def test_a_roles_own_wording_wins_even_when_empty(file):
    content = wording() | {"user_end": "\nEnd."}
    content["workers"][1] |= {"peers_intro": "", "user_end": ""}
    prompts = load_prompts(file(content))
    assert prompts.user_text("Doubter", "2", [Heard("1", "Adder", "4")]) == "Q: 2Adder 1 says 4.\n"
    assert prompts.user_text("Judge", "2", []) == "Q: 2\nEnd."


def edit(change) -> dict:
    content = wording()
    change(content)
    return content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["workers"][1].update(sistem="x"), ["unknown field", "sistem", "Doubter"]),
        (lambda c: c["workers"][0].pop("system"), ["missing", "system", "Adder"]),
        (lambda c: c["workers"][1].update(user=3), ["str", "user", "Doubter"]),
        (lambda c: c["decision"].pop("user"), ["missing", "user", "decision"]),
        (lambda c: c.update(verzion=1), ["unknown field", "verzion"]),
        (lambda c: c.pop("workers"), ["missing", "workers"]),
        (lambda c: c.update(version="one"), ["version", "int"]),
        (lambda c: c.update(workers=[]), ["workers", "empty"]),
        (lambda c: c.update(workers=["Adder"]), ["workers[0]", "object"]),
        (lambda c: c["workers"][0].update(user="Q"), ["Adder", "user", "{question}", "0 times"]),
        (lambda c: c["workers"][1].update(user="{question} {question}"), ["Doubter", "user", "{question}", "2 times"]),
        (lambda c: c["decision"].update(user="{question}{question}"), ["Judge", "user", "{question}", "2 times"]),
        (lambda c: c["workers"][1].update(role="Adder"), ["Adder", "2 times", "once"]),
        (lambda c: c["decision"].update(role="Adder"), ["Adder", "2 times", "once"]),
        (lambda c: c["workers"][1].update(peer="says"), ["Doubter", "peer", "{output}", "0 times"]),
        (lambda c: c["workers"][1].update(peer=" {output}\n"), ["Doubter", "peer", "text around"]),
        (lambda c: c["workers"][1].update(few_shot="Q: A:"), ["Doubter", "few_shot", "{few_shot}", "user"]),
    ],
)
def test_schema_errors_name_file_role_and_field(file, change, words):
    path = file(edit(change))
    with pytest.raises(UserError) as caught:
        load_prompts(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in [str(path), *words]:
        assert word in message


@pytest.mark.parametrize("text", ["workers: [", "a: b: c", "\tx: 1", "", "- 1", "just text"])
def test_other_files_are_refused_in_one_line(file, text):
    path = file(text)
    with pytest.raises(UserError) as caught:
        load_prompts(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files_are_refused(tmp_path):
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.yaml", tmp_path, binary):
        with pytest.raises(UserError, match="prompts "):
            load_prompts(path)


ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
BRACED = st.one_of(
    ANY_TEXT, st.sampled_from(["{question}", "{few_shot}", "{output}", "{id}", "{role}", "{x}", "{", "{{}}"])
)
TEXTS = st.lists(BRACED, max_size=4).map("".join)


@given(few_shot=TEXTS, question=TEXTS, output=TEXTS, role=TEXTS)
def test_braces_survive_in_every_text(few_shot, question, output, role):
    worker = RolePrompt(
        role="w", system="s", user="<{few_shot}|{question}>", few_shot=few_shot, peer="[{id}/{role}/{output}]"
    )
    prompts = PromptSet(name="n", version=1, question_prefix="", workers=[worker], decision=worker)
    text = prompts.user_text("w", question, [Heard("7", role, output)])
    assert text == f"<{few_shot}|{question}>[7/{role}/{output}]"


@given(TEXTS, TEXTS)
def test_a_template_with_markers_filled_later_is_the_text_filled_at_once(question, output):
    """In pieces or whole, an agent sees the same text: nothing else in the wording depends on the contents."""
    prompts = bundled_prompts("gsm8k")
    for role in [*prompts.worker_roles(), prompts.decision.role]:
        whole = prompts.user_text(role, question, [Heard("1", "Math Solver", output)])
        template = prompts.user_text(role, "\ue000", [Heard("1", "Math Solver", "\ue001")])
        before, rest = template.split("\ue000")
        between, after = rest.split("\ue001")
        assert before + question + between + output + after == whole


@pytest.mark.parametrize("path", sorted((PACKAGE / "tasks" / "prompts").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_set_is_valid_and_bears_its_files_name(path):
    assert bundled_prompts(path.stem).name == path.stem


def test_an_unknown_shipped_set_gets_the_nearest_name():
    with pytest.raises(UserError, match="'gsm8'.*did you mean 'gsm8k'"):
        bundled_prompts("gsm8")


def test_shipped_sets_are_read_from_a_zip_too(tmp_path):
    archive = tmp_path / "bcrbench.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.yaml")]:
            packed.write(path, path.relative_to(PACKAGE.parent))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from bcrbench.tasks import prompt_files\n"
        f"assert {archive.name!r} in prompt_files.__file__\n"
        "assert prompt_files.bundled_prompts('gsm8k').name == 'gsm8k'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "field", ["system", "user", "peer", "peers_intro", "peers_outro", "user_end", "assistant", "role"]
)
@pytest.mark.parametrize("part", ["workers", "decision", None])
@pytest.mark.parametrize("sign", ["\ue000", "\ue001", "\ue000question\ue001", "\ue000foo\ue001", "\0"])
def test_characters_that_mark_segments_are_refused_in_every_field(file, field, part, sign):
    content = wording()
    where = content if part is None else content["decision"] if part == "decision" else content["workers"][0]
    if part is None and field in ("system", "user", "assistant", "role"):
        where, field = content, "name"
    where[field] = f"{where.get(field, '{output} is said')}{sign}"
    with pytest.raises(UserError) as error:
        load_prompts(file(content))
    assert repr(field) in str(error.value) or "not YAML" in str(error.value)


@pytest.mark.parametrize("field", ["system", "assistant", "user_end", "peers_intro", "peers_outro"])
@pytest.mark.parametrize("name", ["question", "output", "few_shot"])
def test_a_placeholder_that_nothing_fills_is_refused(file, field, name):
    content = wording()
    content["workers"][1][field] = f"see {{{name}}}"
    with pytest.raises(UserError, match=rf"mine.yaml:\d+, role 'Doubter': field '{field}' holds .*{{{name}}}"):
        load_prompts(file(content))


def test_braces_in_a_few_shot_text_are_its_own(file):
    content = wording()
    content["workers"][0]["few_shot"] = "{question} and {output} and {few_shot}"
    prompts = load_prompts(file(content))
    assert "{question} and {output} and {few_shot}\nQ: 2" in prompts.user_text("Adder", "2", [])


def test_a_key_given_twice_is_refused(file):
    text = yaml.safe_dump(wording()) + "peer: 'again {output} x'\n"
    with pytest.raises(UserError, match="key 'peer' is given twice"):
        load_prompts(file(text))


def with_tool() -> dict:
    """A set whose Adder has a tool that everybody is shown."""
    content = wording()
    content["workers"][0]["tool"] = "program"
    return content | {"peer_feedback": "{role} {id} says {output}, which gave {feedback}.\n"}


def test_a_tools_feedback_is_shown_where_the_set_says_so_and_the_tool_is_active(file):
    prompts = load_prompts(file(with_tool()))
    heard = [Heard("1", "Adder", "a", "7"), Heard("2", "Doubter", "b", "8")]
    assert prompts.user_text("Judge", "x", heard) == "Q: x\nAll:\nAdder 1 says a, which gave 7.\nDoubter 2 says b.\n"
    without = prompts.with_tools([])
    assert without.user_text("Judge", "x", heard) == "Q: x\nAll:\nAdder 1 says a.\nDoubter 2 says b.\n"
    assert prompts.with_tools(["program"]) == prompts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["workers"][0].update(tool="programm"), ["Adder", "tool", "did you mean 'program'"]),
        (lambda c: c.update(peer_feedback="{output} gave"), ["peer_feedback", "{feedback}", "0 times"]),
        (lambda c: c.update(peer_feedback="{feedback} of {output} is"), ["peer_feedback", "{output}, then {feedback}"]),
        (lambda c: c.update(peer_feedback="{role}: {output} {feedback}\n"), ["peer_feedback", "text around"]),
        (lambda c: c.update(peer_feedback="{output} so {feedback}\n"), ["peer_feedback", "text around"]),
        (lambda c: c.update(default_mode={"feedback": "is {value}"}), ["feedback", "{value}", "{feedback}"]),
        (lambda c: c.update(default_mode={"feedback": "the result"}), ["feedback", "{feedback}", "0 times"]),
        (lambda c: c.update(default_mode={"decision_user": "Go."}), ["decision_user", "{question}", "0 times"]),
        (lambda c: c.update(default_mode={"decision_user": "{question}{question}"}), ["decision_user", "2 times"]),
        (lambda c: c.update(default_mode={"fenced": True}), ["unknown field", "fenced"]),
        (lambda c: c["workers"][0].update(user="{qestion} {question}"), ["Adder", "user", "{qestion}"]),
        (lambda c: c["workers"][1].update(peer="{name}: {output} !"), ["Doubter", "peer", "{name}"]),
    ],
)
def test_what_is_wrong_with_tools_and_placeholders_is_named(file, change, words):
    content = with_tool()
    change(content)
    path = file(content)
    with pytest.raises(UserError) as caught:
        load_prompts(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_the_line_of_a_placeholder_that_nobody_knows_is_named(file):
    path = file(wording() | {"user_end": "{ende}"})
    number = next(i for i, line in enumerate(path.read_text().splitlines(), 1) if "{ende}" in line)
    with pytest.raises(UserError, match=f"{path}:{number}: field 'user_end' holds the placeholder {{ende}}"):
        load_prompts(path)


def test_a_set_may_have_no_deciding_node(file):
    prompts = load_prompts(file(wording() | {"decision": None}))
    assert prompts.decision_role is None
    with pytest.raises(UserError, match="decision"):
        content = wording()
        content.pop("decision")
        load_prompts(file(content))
