"""Loading a model and running rows of a prompt through it.

A model is named by hub id (`org/name[@revision]`), local directory, GGUF file, `bundled`, or `random:<shape>`.
Weights come from safetensors or GGUF only, and no code from a repository is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_left
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Iterator, Sequence

import torch
from torch import Tensor

from bcrbench.engine.attention import KERNELS, NAME, Kernel, Rows, backend_name, pinned_backend
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.choice import Choice, pick_kernel
from bcrbench.engine.layers import Layers, lay_out
from bcrbench.engine.shapes import SHAPES
from bcrbench.engine.steps import Stepping, pick_stepping
from bcrbench.errors import RunFailed, UserError, unknown

SERVED_TYPES = ("llama", "mistral", "qwen2", "qwen3")
STATIC_ROPE = ("default", "linear", "llama3", "yarn")
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
_NOT_THE_MODEL = ("name_or_path", "transformers_version", "dtype", "torch_dtype")  # kept apart, or no matter
_HUB = re.compile(r"[\w.-]+/[\w.-]+(@[\w./-]+)?")


@dataclass(frozen=True)
class Source:
    """Where weights and tokenizer come from: a path or hub id, with the GGUF file or the revision."""

    spec: str
    location: str
    gguf: str | None = None
    revision: str | None = None
    shape: str | None = None

    @property
    def local(self) -> bool:
        """True unless a hub id was named."""
        return self.shape is not None or os.path.exists(self.location)


@dataclass
class Runtime:
    """A loaded model: runs rows against a slot cache. Batch is always 1."""

    model: Any
    tokenizer: Any
    device: torch.device
    dtype: torch.dtype
    choice: Choice
    source: Source

    def __post_init__(self) -> None:
        config = self.model.config
        self.warm_ups = 0
        self.layers: int = config.num_hidden_layers
        self.kv_heads: int = config.num_key_value_heads
        self.head_dim: int = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.positions: int | None = getattr(config, "max_position_embeddings", None)
        self.inv_freq: Tensor = self.model.model.rotary_emb.inv_freq.float()
        self.kernel: Kernel = KERNELS.get(self.choice.name)
        self.decoder = Layers(self.model)
        self.stepping = Stepping()

    @property
    def kernel_name(self) -> str:
        """The kernel that attends, as logged."""
        return self.choice.name

    def warm_up(self) -> None:
        """Run a few passes that no log counts, so that the first call is not timed cold; `warm_ups` counts them."""
        cache = self.new_cache(64)
        self.stepping = pick_stepping(self)
        for rows in (range(32), range(32), range(32, 33), [3, 9, 33], range(34, 35)):
            self.run([0] * len(rows), rows, cache)
            self.warm_ups += 1

    def room(self, rows: int, limit: int) -> int:
        """How many of `limit` new tokens fit behind a prompt of so many rows; the last one needs no row.

        Raises RunFailed when the prompt itself does not fit: rotary positions beyond the trained ones give numbers, and
        no error.
        """
        if self.positions is None:
            return limit
        if rows > self.positions:
            raise RunFailed(
                f"prompt of {rows} tokens, expected at most {self.positions}, the positions of model "
                f"{self.source.spec!r} (max_position_embeddings)"
            )
        return min(limit, self.positions - rows + 1)

    def new_cache(self, capacity: int) -> SlotCache:
        """An empty slot cache of this model's shape."""
        return SlotCache(self.layers, self.kv_heads, self.head_dim, capacity, self.dtype, self.device)

    def new_queries(self, count: int) -> Tensor:
        """Room for the queries of `count` rows [layers, heads, count, head_dim]."""
        shape = (self.layers, self.model.config.num_attention_heads, count, self.head_dim)
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    @torch.inference_mode()
    def run(
        self,
        ids: Sequence[int],
        rows: Sequence[int],
        cache: SlotCache,
        kernel: Kernel | None = None,
        queries: list[Tensor] | None = None,
    ) -> Tensor:
        """Run the tokens `ids` at the ascending positions `rows` against the cache; their rows become fresh.

        Returns the logits [vocab] of the last row, float32. The cache's length grows to cover the rows. Prefill is
        all rows, decode is one, repair is the selected ones (paper App. B, "the recompute path"). A list given as
        `queries` receives every layer's queries [heads, n, head_dim]. Raises ValueError for rows that are not
        ascending, or that leave a hole after the filled rows.
        """
        with self._pass(ids, rows, cache, kernel, queries) as plan:
            return self.decoder.logits(torch.tensor(list(ids), device=self.device), plan, cache).float()

    @torch.inference_mode()
    def fill(self, ids: Sequence[int], rows: Sequence[int], cache: SlotCache) -> None:
        """`run` for the keys and values of a cache's layers alone, which may be fewer than the model's."""
        with self._pass(ids, rows, cache, None, None) as plan:
            self.decoder.fill(torch.tensor(list(ids), device=self.device), plan, cache)

    @torch.inference_mode()
    def step(self, token: Tensor, position: int, cache: SlotCache, queries: list[Tensor] | None = None) -> Tensor:
        """`run` for one row whose token [1] is on the device, and stays there."""
        with self._pass([0], [position], cache, None, queries) as plan:
            return self.decoder.logits(token, plan, cache).float()

    @contextmanager
    def _pass(
        self,
        ids: Sequence[int],
        rows: Sequence[int],
        cache: SlotCache,
        kernel: Kernel | None,
        queries: list[Tensor] | None,
    ) -> Iterator[Rows]:
        plan = Rows(list(rows), self.device, kernel or self.kernel, queries)
        if len(ids) != len(plan):
            raise ValueError(f"{len(ids)} ids for {len(plan)} rows")
        _refuse_hole(plan.listed, cache.length)
        cache.reserve(plan.end)
        with pinned_backend():
            yield plan
        cache.length = max(cache.length, plan.end)

    def stop_ids(self) -> frozenset[int]:
        """Ids that end a generation: the generation config's, else the model config's."""
        found = getattr(self.model.generation_config, "eos_token_id", None)
        if found is None:
            found = self.model.config.eos_token_id
        if found is None:
            found = self.tokenizer.eos_token_id
        listed = found if isinstance(found, (list, tuple)) else [found]
        return frozenset(int(i) for i in listed if i is not None)

    def identity(self) -> dict[str, Any]:
        """What a log says about the model."""
        return {
            "spec": self.source.spec,
            "id": getattr(self.model.config, "name_or_path", "") or self.source.location,
            "type": self.model.config.model_type,
            "revision": getattr(self.model.config, "_commit_hash", None) or self.source.revision,
            "weights_hash": weights_hash(self.model),
            "config_hash": self._config_hash(),
            "dtype": str(self.dtype).removeprefix("torch."),
            **self.choice.told(),
            "decode": self.stepping.name,
            "decode_why": self.stepping.why,
            "sdpa_backend": backend_name(),
            "repetition_penalty": 1.0,
        }

    def _config_hash(self) -> str:
        """Hash of the configuration and the stop tokens: weights alone do not say how positions turn or answers end."""
        values = self.model.config.to_dict()
        kept = {key: value for key, value in values.items() if not key.startswith("_") and key not in _NOT_THE_MODEL}
        return _short(json.dumps([kept, sorted(self.stop_ids())], sort_keys=True, default=str))

    def tokenizer_identity(self) -> dict[str, Any]:
        """Hashes of the vocabulary and of the chat template."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        text = backend.to_str() if backend is not None else repr(sorted(self.tokenizer.get_vocab().items()))
        return {"hash": _short(text), "chat_template_hash": _short(self.tokenizer.chat_template or "")}


def _refuse_hole(rows: Sequence[int], filled: int) -> None:
    """Slots that nobody filled hold zeros, which attention would take for keys."""
    added = len(rows) - bisect_left(rows, filled)
    if added and added != rows[-1] + 1 - filled:
        raise ValueError(f"rows up to {rows[-1]} leave a hole in a cache of {filled} rows")


def weights_hash(model: Any) -> str:
    """16 hex digits over every tensor's name, shape, type and a strided sample of at most 1,024 of its numbers.

    A sample tells checkpoints apart at no cost at 8B; it does not certify each byte.
    """
    total = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().reshape(-1)
        sample = flat[:: max(1, -(-flat.numel() // 1024))].float().cpu().contiguous()
        total.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        total.update(sample.numpy().tobytes())
    return total.hexdigest()[:16]


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_source(spec: str) -> Source:
    """Resolve a model's name without loading anything. Raises UserError for what cannot be a model."""
    if spec == "bundled":
        with ExitStack() as stack:
            folder = stack.enter_context(as_file(files("bcrbench.bundled").joinpath("model")))
            return Source(spec, str(folder))
    if spec.startswith("random:"):
        shape = spec.removeprefix("random:")
        if shape not in SHAPES:
            raise unknown("model shape", shape, SHAPES)
        return Source(spec, spec, shape=shape)
    # os.path answers no, where Path raises for what cannot be a file's name (too long, a home that is not there).
    path = Path(os.path.expanduser(spec))
    if os.path.isfile(path):
        if path.suffix != ".gguf":
            raise UserError(f"model {spec!r}: a file, expected a .gguf file or a folder with safetensors")
        return Source(spec, str(path.parent), gguf=path.name)
    if os.path.isdir(path):
        if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
            raise UserError(f"model {spec!r}: folder lacks config.json or *.safetensors")
        return Source(spec, str(path))
    if _HUB.fullmatch(spec) and not spec.startswith((".", "/")):
        name, _, revision = spec.partition("@")
        return Source(spec, name, revision=revision or None)
    near = get_close_matches(spec, ["bundled", *(f"random:{shape}" for shape in SHAPES)], n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UserError(
        f"unknown model {spec!r}{hint}; "
        "expected 'bundled', 'random:<shape>', a folder, a .gguf file or a hub id org/name"
    )


def load(
    spec: str, device: str = "auto", dtype: str = "auto", kernel: str = "auto", threads: int | None = None
) -> Runtime:
    """Load model and tokenizer for inference. Raises UserError when the model cannot be had or cannot be served."""
    source = find_source(spec)
    place = pick_device(device)
    config = load_config(source)
    refuse_unserved(config, spec)
    kind = pick_dtype(dtype, config.model_type, place)
    pick_kernel(kernel, place, kind)  # refused before weights are fetched
    model = _model(source, config, kind, place)
    if (place.type, kind) == ("cpu", torch.float32):
        lay_out(model)
    set_threads(threads, model)
    choice = pick_kernel(kernel, place, kind, torch.get_num_threads())
    return Runtime(model, load_tokenizer(source), place, kind, choice, source)


SMALL = 30_000_000  # parameters under which one thread is the fastest: a pass is shorter than waking a second one


@contextmanager
def memory_told(doing: str) -> Iterator[None]:
    """Turn running out of memory, on a GPU or not, into RunFailed."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise RunFailed(f"out of memory {doing}") from error
    except RuntimeError as error:
        if "allocate memory" not in str(error):  # a CPU's allocator has no type of its own
            raise
        raise RunFailed(f"out of memory {doing}") from error


def set_threads(wanted: int | None, model: Any) -> None:
    """Set torch's CPU threads: as asked, else as OMP_NUM_THREADS says, else one for a small model."""
    if wanted is not None:
        torch.set_num_threads(wanted)
    elif "OMP_NUM_THREADS" not in os.environ and sum(p.numel() for p in model.parameters()) < SMALL:
        torch.set_num_threads(1)


def pick_device(name: str) -> torch.device:
    """`auto` is CUDA where there is one. Raises UserError for a device that is not here."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if re.fullmatch(r"cuda(:\d+)?", name):
        index = int(name.partition(":")[2] or 0)
        if index < torch.cuda.device_count():
            return torch.device(name)
        raise UserError(f"--device {name!r}: {torch.cuda.device_count()} CUDA devices here")
    raise UserError(f"--device {name!r}: expected auto, cpu, cuda or cuda:N")


def pick_dtype(name: str, model_type: str, device: torch.device) -> torch.dtype:
    """`auto` follows the paper: float16 for a Llama on CUDA, else float32 (App. G.1)."""
    if name == "auto":
        return torch.float16 if model_type == "llama" and device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise unknown("dtype", name, [*DTYPES, "auto"])
    return DTYPES[name]


def refuse_unserved(config: Any, spec: str) -> None:
    """Raise UserError, by name, for attention that rows by position cannot serve exactly."""
    kind = config.model_type
    if kind not in SERVED_TYPES:
        raise UserError(f"model {spec!r}: type {kind!r} is not served; expected one of {', '.join(SERVED_TYPES)}")
    layer_types = set(getattr(config, "layer_types", None) or ["full_attention"])
    sliding = getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", kind == "mistral")
    if sliding or layer_types != {"full_attention"}:
        raise UserError(
            f"model {spec!r}: {kind} with sliding-window or hybrid layers is not served; expected full attention"
        )
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    rope_type = rope.get("rope_type", "default")
    if rope_type not in STATIC_ROPE:
        raise UserError(
            f"model {spec!r}: {kind} with rope type {rope_type!r} is not served, its frequencies may change with "
            f"length; expected one of {', '.join(STATIC_ROPE)}"
        )


def load_config(source: Source) -> Any:
    """A model's configuration, without its weights. Raises UserError when it cannot be loaded."""
    from transformers import AutoConfig

    if source.shape is not None:
        shape = dict(SHAPES[source.shape])
        return AutoConfig.for_model(shape.pop("model_type"), **shape)
    return _fetch(source, lambda: AutoConfig.from_pretrained(source.location, **_where(source)))


def _model(source: Source, config: Any, dtype: torch.dtype, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM

    if source.shape is not None:
        torch.manual_seed(0)
        with torch.device(device):
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=NAME)
        return model.eval()
    weights = {} if source.gguf else {"use_safetensors": True}
    model, report = _fetch(
        source,
        lambda: AutoModelForCausalLM.from_pretrained(
            source.location,
            dtype=dtype,
            attn_implementation=NAME,
            output_loading_info=True,
            **weights,
            **_where(source),
        ),
    )
    missing = sorted(report["missing_keys"])
    if missing:
        # transformers draws what is missing at random and only warns.
        raise UserError(f"model {source.spec!r}: weights lack {missing[0]!r} and {len(missing) - 1} more tensors")
    return model.to(device).eval()


def load_tokenizer(source: Source) -> Any:
    """The tokenizer of a source; a random model gets one token per byte (engine/byte_tokenizer.py)."""
    from transformers import AutoTokenizer

    if source.shape is not None:
        from bcrbench.engine.byte_tokenizer import byte_tokenizer

        return byte_tokenizer()
    return _fetch(source, lambda: AutoTokenizer.from_pretrained(source.location, **_where(source)))


def _where(source: Source) -> dict[str, Any]:
    where: dict[str, Any] = {"trust_remote_code": False, "local_files_only": source.local}
    if source.gguf:
        where["gguf_file"] = source.gguf
    if source.revision:
        where["revision"] = source.revision
    return where


def _fetch(source: Source, load_it: Any) -> Any:
    try:
        return load_it()
    except Exception as error:  # readers of weights, configurations and vocabularies raise types of their own
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        tried = "cannot be loaded" if source.local else "no such folder here, and the hub's cannot be loaded"
        raise UserError(f"model {source.spec!r}: {tried} ({reason})") from error
