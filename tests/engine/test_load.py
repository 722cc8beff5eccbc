"""Naming and loading a model: what cannot be served or had is refused in one line that names it."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import build, config_of, some_ids
from transformers import AutoConfig, AutoModelForCausalLM

from bcrbench.engine.attention import KERNELS
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.engine.choice import Choice, pick_kernel
from bcrbench.engine.decode import greedy, most_likely
from bcrbench.engine.model import (
    Runtime,
    find_source,
    load,
    pick_device,
    pick_dtype,
    refuse_unserved,
    weights_hash,
)
from bcrbench.engine.shapes import SHAPES
from bcrbench.errors import UserError

CPU = torch.device("cpu")
Change = Callable[[Path], Any]


def refusal(call: Callable[[], Any], *expected: str) -> str:
    """The one line of a refusal; it holds every expected part."""
    with pytest.raises(UserError) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    for part in expected:
        assert part in text, text
    return text


# Attention and rope that rows by position cannot serve.

_ROPE = {"rope_theta": 10000.0, "factor": 2.0}
UNSERVED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "mistral with its window": ("mistral", {"sliding_window": 128}, ["mistral", "sliding-window"]),
    "mistral as published": ("mistral", {}, ["mistral", "sliding-window"]),
    "qwen2 with a window": ("qwen2", {"use_sliding_window": True, "max_window_layers": 1}, ["qwen2", "sliding-window"]),
    "qwen3 with a window": ("qwen3", {"use_sliding_window": True, "max_window_layers": 1}, ["qwen3", "sliding-window"]),
    "hybrid layers": (
        "qwen2",
        {"num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"]},
        ["qwen2", "hybrid"],
    ),
    "chunked layers": (
        "llama",
        {"num_hidden_layers": 2, "layer_types": ["full_attention", "chunked_attention"]},
        ["llama", "hybrid"],
    ),
    "dynamic rope": ("llama", {"rope_parameters": {"rope_type": "dynamic", **_ROPE}}, ["llama", "'dynamic'"]),
    "a type of another family": ("gpt2", {}, ["'gpt2'", "llama, mistral, qwen2, qwen3"]),
    "gemma": ("gemma2", {}, ["'gemma2'"]),
    "a model without attention": ("mamba", {}, ["'mamba'"]),
}


@pytest.mark.parametrize(("kind", "values", "parts"), UNSERVED.values(), ids=UNSERVED)
def test_attention_that_cannot_be_served_is_refused_by_name(
    kind: str, values: dict[str, Any], parts: list[str], tmp_path: Path
) -> None:
    config = AutoConfig.for_model(kind, **values)
    refusal(lambda: refuse_unserved(config, "some/model"), "model 'some/model'", *parts)
    # The same from a folder, before its weights are read: these are no weights at all.
    config.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    refusal(lambda: load(str(tmp_path), device="cpu"), f"model {str(tmp_path)!r}", *parts)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("mistral", {"sliding_window": None}),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": False}),
        ("qwen3", {"layer_types": ["full_attention"] * 2, "num_hidden_layers": 2}),
        ("llama", {"rope_parameters": {"rope_type": "linear", **_ROPE}}),
        ("llama", {"rope_parameters": SHAPES["llama-3.1-8b"]["rope_parameters"]}),
    ],
)
def test_full_attention_is_served(kind: str, values: dict[str, Any]) -> None:
    refuse_unserved(AutoConfig.for_model(kind, **values), "m")


@pytest.mark.parametrize("name", SHAPES)
def test_every_named_shape_can_be_served(name: str) -> None:
    shape = dict(SHAPES[name])
    config = AutoConfig.for_model(shape.pop("model_type"), **shape)
    refuse_unserved(config, name)
    assert config.hidden_size % config.num_attention_heads == 0
    assert config.num_attention_heads % config.num_key_value_heads == 0


# Names.


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("random:tinny", ["'tinny'", "did you mean 'tiny'", "smollm2-135m"]),
        ("random:llama-3.1-8B", ["did you mean 'llama-3.1-8b'"]),
        ("random:", ["model shape ''", "tiny"]),
        ("bundeld", ["'bundeld'", "did you mean 'bundled'"]),
        ("randm:tiny", ["did you mean 'random:tiny'"]),
        ("nothing like it", ["'nothing like it'", "expected 'bundled', 'random:<shape>'"]),
        ("", ["model ''"]),
        ("/nowhere/model", ["'/nowhere/model'", "a folder"]),
        ("./nowhere", ["'./nowhere'"]),
        ("a/b/c", ["'a/b/c'"]),
        ("org/name@", ["'org/name@'"]),
        ("~nobody-of-that-name/x", ["'~nobody-of-that-name/x'"]),
        ("x" * 5000, ["unknown model"]),
        ("nul\0byte", ["unknown model"]),
    ],
)
def test_a_name_that_is_no_model_is_refused(spec: str, parts: list[str]) -> None:
    refusal(lambda: find_source(spec), *parts)


def test_a_hub_id_may_carry_a_revision() -> None:
    assert find_source("org/name.v2").revision is None
    source = find_source("org/name@refs/pr/3")
    assert (source.location, source.revision, source.local) == ("org/name", "refs/pr/3", False)


def test_a_hub_model_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str, **where: Any) -> Any:
        assert (where["trust_remote_code"], where["local_files_only"]) == (False, False)
        raise OSError(f"cannot reach the hub\nfor {name}")

    monkeypatch.setattr(AutoConfig, "from_pretrained", offline)
    refusal(lambda: load("org/name@main", device="cpu"), "model 'org/name@main'", "cannot reach the hub for org/name")


# Folders and files.


@pytest.fixture(scope="module")
def original() -> Any:
    return build(config_of("llama"), "eager")


@pytest.fixture
def folder(original: Any, tmp_path: Path) -> Path:
    """A folder as save_pretrained leaves it."""
    original.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_folder_loads_with_the_same_weights(original: Any, folder: Path) -> None:
    runtime = load(str(folder), device="cpu")
    assert weights_hash(runtime.model) == weights_hash(original)
    identity = runtime.identity()
    assert (identity["spec"], identity["type"], identity["dtype"]) == (str(folder), "llama", "float32")
    assert identity["weights_hash"] == weights_hash(original)
    ids = some_ids(30)
    logits = runtime.run(ids, range(30), runtime.new_cache(30))
    with torch.inference_mode():
        expected = original(input_ids=torch.tensor([ids])).logits[0, -1]
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_a_folder_may_be_named_from_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert find_source(f"~/{folder.name}").location == str(folder)


def test_every_weight_tensor_is_in_the_hash(original: Any) -> None:
    model = build(config_of("llama"), "eager")
    whole = weights_hash(original)
    assert weights_hash(model) == whole
    seen = {whole}
    for name, tensor in model.state_dict().items():
        kept = tensor.clone()
        tensor.add_(0.5)
        assert weights_hash(model) not in seen, name
        seen.add(weights_hash(model))
        tensor.copy_(kept)
    assert weights_hash(model) == whole


def test_the_hash_samples_a_tensor_to_its_end(original: Any) -> None:
    for size in (1, 1024, 1025, 1500, 2047, 5000):
        model = torch.nn.Linear(size, 1, bias=False)
        before = weights_hash(model)
        tail = max(1, -(-size // 1024))
        with torch.no_grad():
            model.weight[0, -tail:] += 1
        assert weights_hash(model) != before, size


def test_types_and_names_are_in_the_hash(original: Any) -> None:
    half = build(config_of("llama"), "eager")
    half.half().float()
    hashes = {weights_hash(original), weights_hash(half), weights_hash(half.half()), weights_hash(original.model)}
    assert len(hashes) == 4


def edit_config(**values: Any) -> Change:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


def edit_weights(edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Change:
    def change(folder: Path) -> None:
        path = folder / "model.safetensors"
        save_file(edit(load_file(path)), path, metadata={"format": "pt"})

    return change


def without(name: str) -> Change:
    return lambda folder: (folder / name).unlink()


def torn(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:3000])


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


SPOILED: dict[str, tuple[Change, list[str]]] = {
    "pickled weights only": (pickled, ["lacks", "*.safetensors"]),
    "no configuration": (without("config.json"), ["lacks config.json"]),
    "configuration is not JSON": (lambda folder: (folder / "config.json").write_text("{"), ["cannot be loaded"]),
    "configuration names no type": (edit_config(model_type=None), ["cannot be loaded"]),
    "type that nobody knows": (edit_config(model_type="zebra"), ["zebra"]),
    "type that needs its own code": (
        edit_config(model_type="zebra", auto_map={"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}),
        ["cannot be loaded"],
    ),
    "a number that is a word": (edit_config(hidden_size="wide"), ["hidden_size"]),
    "heads that do not divide": (edit_config(num_attention_heads=3), ["cannot be loaded"]),
    "torn weights": (torn, ["cannot be loaded"]),
    "weights of another shape": (
        edit_weights(lambda found: {k: v[:10].clone() if "q_proj" in k else v for k, v in found.items()}),
        ["cannot be loaded"],
    ),
    "weights that are not all there": (
        edit_weights(lambda found: {k: v for k, v in found.items() if "layers.1.mlp" not in k}),
        ["weights lack 'model.layers.1.mlp.down_proj.weight' and 2 more"],
    ),
    "no tokenizer": (without("tokenizer.json"), ["cannot be loaded"]),
    "tokenizer is no tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), ["cannot be loaded"]),
}


@pytest.mark.parametrize(("change", "parts"), SPOILED.values(), ids=SPOILED)
def test_a_folder_that_is_no_whole_model_is_refused(folder: Path, change: Change, parts: list[str]) -> None:
    change(folder)
    refusal(lambda: load(str(folder), device="cpu", dtype="float32"), f"model {str(folder)!r}", *parts)


def test_no_code_of_a_folder_is_run(folder: Path) -> None:
    proof = folder / "ran"
    (folder / "code.py").write_text(f"open({str(proof)!r}, 'w').close()\nclass Config: ...\nclass Model: ...\n")
    edit_config(model_type="zebra", auto_map={"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"})(
        folder
    )
    refusal(lambda: load(str(folder), device="cpu"))
    assert not proof.exists()


def test_an_empty_folder_and_a_plain_file_are_refused(tmp_path: Path) -> None:
    refusal(lambda: load(str(tmp_path)), f"model {str(tmp_path)!r}", "config.json or *.safetensors")
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"x")
    refusal(lambda: load(str(file)), f"model {str(file)!r}", "expected a .gguf file or a folder")


@pytest.mark.parametrize("content", [b"", b"GGUF" + bytes(100), b"not that at all" * 20])
def test_a_file_that_is_no_gguf_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    refusal(lambda: load(str(file)), f"model {str(file)!r}", "cannot be loaded")


# Random shapes, devices, types and kernels.


def test_random_tiny_is_the_same_model_every_time() -> None:
    first = load("random:tiny", device="cpu")
    torch.rand(3)
    second = load("random:tiny", device="cpu")
    assert first.identity() == second.identity()
    assert first.tokenizer_identity() == second.tokenizer_identity()
    ids = some_ids(20)
    assert first.source.local
    one, other = (runtime.run(ids, range(20), runtime.new_cache(20)) for runtime in (first, second))
    assert torch.equal(one, other)


def test_warm_up_is_counted_and_changes_nothing() -> None:
    runtime = load("random:tiny", device="cpu")
    before = weights_hash(runtime.model)
    runtime.warm_up()
    assert runtime.warm_ups > 0
    assert weights_hash(runtime.model) == before


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_a_type_that_is_asked_for_is_the_type_of_everything(name: str) -> None:
    runtime = load("random:tiny", device="cpu", dtype=name)
    wanted = getattr(torch, name)
    cache = runtime.new_cache(8)
    assert runtime.dtype == cache.keys.dtype == cache.values.dtype == wanted
    assert {parameter.dtype for parameter in runtime.model.parameters()} == {wanted}
    assert runtime.inv_freq.dtype == torch.float32
    assert torch.equal(runtime.inv_freq, load("random:tiny", device="cpu").inv_freq)
    assert runtime.run([1, 2], [0, 1], cache).dtype == torch.float32


def test_auto_type_follows_the_paper() -> None:
    cuda = torch.device("cuda")
    assert pick_dtype("auto", "llama", cuda) == torch.float16
    for kind, device in (("llama", CPU), ("qwen2", cuda), ("mistral", cuda), ("qwen3", CPU)):
        assert pick_dtype("auto", kind, device) == torch.float32
    assert pick_dtype("bfloat16", "llama", cuda) == torch.bfloat16


@pytest.mark.parametrize("name", ["float61", "half", "", "FLOAT16"])
def test_unknown_types_are_refused(name: str) -> None:
    refusal(lambda: pick_dtype(name, "llama", CPU), f"dtype {name!r}", "bfloat16", "auto")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps0", "", "cuda:-1", "cpu:0"])
def test_unknown_devices_are_refused(name: str) -> None:
    refusal(lambda: pick_device(name), f"--device {name!r}", "auto, cpu, cuda or cuda:N")


def test_a_device_that_is_not_here_is_refused() -> None:
    refusal(lambda: pick_device("cuda:99"), "'cuda:99'", "CUDA devices here")


@pytest.mark.parametrize("name", ["flexx", "eager", ""])
def test_unknown_kernels_are_refused(name: str) -> None:
    refusal(lambda: load("random:tiny", device="cpu", kernel=name), f"kernel {name!r}", ", ".join(KERNELS.names()))


@pytest.mark.parametrize("name", ["flex", "flash"])
def test_a_kernel_for_cuda_is_refused_elsewhere(name: str) -> None:
    refusal(lambda: pick_kernel(name, CPU), f"--kernel {name!r}", "CUDA", "cpu")


@pytest.mark.parametrize(("dtype", "threads", "name", "why"), [
    (torch.float32, 1, "blocks", None),
    (torch.float32, 2, "tiles", "one thread, here are 2"),
    (torch.bfloat16, 1, "tiles", "needs float32 on a CPU, this is bfloat16 on cpu"),
])  # fmt: skip
def test_the_kernel_of_a_cpu_is_by_type_and_threads(
    dtype: torch.dtype, threads: int, name: str, why: str | None
) -> None:
    choice = pick_kernel("auto", CPU, dtype, threads)
    assert choice.name == name
    assert (choice.why is None) if why is None else (why in str(choice.why))
    assert choice.told()["kernel"] == name


def test_every_kernel_tells_how_it_attends_by_shape() -> None:
    for name in KERNELS.names():
        told = Choice(name).told()["kernel_by_shape"]
        assert set(told) == {"whole prompt", "one row", "other rows"}


@pytest.mark.parametrize("missing", [False, True])
def test_on_cuda_flex_attends_where_triton_compiles_it(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None if missing else ModuleType("triton"))
    choice = pick_kernel("auto", torch.device("cuda"), torch.float16)
    assert choice.name == ("tiles" if missing else "flex")
    assert missing == (choice.why is not None and "triton is not installed" in choice.why)


def test_blocks_are_refused_for_another_type() -> None:
    refusal(
        lambda: load("random:tiny", device="cpu", dtype="bfloat16", kernel="blocks"), "--kernel 'blocks'", "float32"
    )


def test_nothing_is_loaded_when_an_option_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AutoModelForCausalLM, "from_config", lambda *_, **__: pytest.fail("a model was made"))
    for options in ({"device": "gpu"}, {"dtype": "int3"}, {"kernel": "magic"}):
        refusal(lambda options=options: load("random:tiny", **options))


def test_chatml_round_trips_in_the_byte_tokenizer() -> None:
    tokenizer = byte_tokenizer()
    text = "A ~\té\U0001f600 line\nand <|im_start|> as a mark"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids) == text
    assert max(ids) < SHAPES["tiny"]["vocab_size"]
    shown = tokenizer.apply_chat_template(
        [{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=True
    )
    assert shown == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.real_weights
def test_real_weights_decode_as_generate_does(real_model: str, caplog: pytest.LogCaptureFixture) -> None:
    """Any served model, a GGUF file among them, against transformers' own loading and decoding."""
    caplog.set_level(logging.ERROR)
    runtime: Runtime = load(real_model, device="cpu", dtype="float32")
    source = runtime.source
    where = {"gguf_file": source.gguf} if source.gguf else {}
    reference = AutoModelForCausalLM.from_pretrained(source.location, dtype=torch.float32, **where).eval()
    assert weights_hash(reference) == weights_hash(runtime.model)
    ids = runtime.tokenizer.encode("The sea is wide and full of wonders. " * 12, add_special_tokens=False)
    cache = runtime.new_cache(len(ids) + 24)
    first = most_likely(runtime.run(ids, range(len(ids)), cache))
    ours = greedy(runtime, cache, [first], len(ids), 24).ids
    prompt = torch.tensor([ids])
    out = reference.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=24,
        do_sample=False,
        repetition_penalty=1.0,
        eos_token_id=sorted(runtime.stop_ids()),
    )
    assert out[0, len(ids) :].tolist() == ours
