"""Two-layer random models of every architecture that the engine serves, each with an untouched twin.

The twin has the same weights and the attention that transformers itself would take, so that the engine is compared
with code that knows nothing of it. Weights are drawn wide (`initializer_range`) so that attention is far from flat
and a wrong mask shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from bcrbench.engine.attention import NAME
from bcrbench.engine.byte_tokenizer import byte_tokenizer
from bcrbench.engine.choice import pick_kernel
from bcrbench.engine.model import Runtime, Source

_COMMON = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
# An original length of 64 puts positions of a few hundred well inside the stretched range.
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama3": {"model_type": "llama", "rope_parameters": _LLAMA3},
    "qwen2": {"model_type": "qwen2"},
    # Qwen3 sets the head size apart from the width; 24 is not width / heads.
    "qwen3": {"model_type": "qwen3", "head_dim": 24},
    "mistral": {"model_type": "mistral", "sliding_window": None},
}
ARCHITECTURES = tuple(_CONFIGS)


@dataclass(frozen=True)
class Twins:
    """The engine's runtime, and the same weights under the model's own attention."""

    runtime: Runtime
    reference: Any


def config_of(name: str, **changes: Any) -> Any:
    """The configuration of an architecture."""
    values = {**_COMMON, **_CONFIGS[name], **changes}
    return AutoConfig.for_model(values.pop("model_type"), **values)


def build(config: Any, attention: str, dtype: torch.dtype = torch.float32, seed: int = 7) -> Any:
    """A model of a configuration, the same weights for the same seed; biases and norms are random, too."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.2)
        elif "norm" in name:
            torch.nn.init.normal_(parameter, mean=1.0, std=0.2)
    return model.eval()


def wrap(model: Any, kernel: str = "auto") -> Runtime:
    """A runtime of a model, with the kernel that one thread of a CPU gets."""
    device = torch.device("cpu")
    choice = pick_kernel(kernel, device, model.dtype)
    return Runtime(model, byte_tokenizer(), device, model.dtype, choice, Source("test", "test"))


@cache
def twins(name: str, dtype: torch.dtype = torch.float32) -> Twins:
    """One pair per architecture and type for the whole session; nobody may change the weights."""
    seed = ARCHITECTURES.index(name)
    return Twins(
        runtime=wrap(build(config_of(name), NAME, dtype, seed)),
        reference=build(config_of(name), "eager", dtype, seed),
    )


def some_ids(count: int, seed: int = 0) -> list[int]:
    """Random byte tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count,), generator=generator).tolist()
