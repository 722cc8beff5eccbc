"""Looking without touching: the first layers' rows, and rows lent for scratch."""

from __future__ import annotations

import pytest
import torch
from small_models import ARCHITECTURES, build, config_of, some_ids, twins, wrap

from bcrbench.engine.attention import NAME
from bcrbench.engine.probe import first_layers, lent_rows

CLOSE = {"rtol": 1e-4, "atol": 1e-4}
IDS = some_ids(50)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layers", [1, 2])
def test_probed_layers_equal_the_models_own(name: str, layers: int) -> None:
    pair = twins(name)
    probed = first_layers(pair.runtime, IDS, layers)
    with torch.inference_mode():
        own = pair.reference(input_ids=torch.tensor([IDS]), use_cache=True).past_key_values.layers[:layers]
    torch.testing.assert_close(probed.keys, torch.stack([layer.keys for layer in own]), **CLOSE)
    torch.testing.assert_close(probed.values, torch.stack([layer.values for layer in own]), **CLOSE)
    assert probed.length == len(IDS)


def test_a_probe_ends_at_the_last_layer_it_wants() -> None:
    runtime = wrap(build(config_of("llama", num_hidden_layers=4), NAME))
    ran: list[int] = []
    for number, layer in enumerate(runtime.model.model.layers):
        layer.mlp.down_proj.register_forward_hook(lambda *args, number=number: ran.append(number))
    first_layers(runtime, IDS, 2)
    assert ran == [0]


def test_a_probe_leaves_the_model_as_it_was() -> None:
    runtime = twins("qwen2").runtime

    def prefill() -> torch.Tensor:
        return runtime.run(IDS, range(len(IDS)), runtime.new_cache(len(IDS)))

    before = prefill()
    first_layers(runtime, IDS, 2)
    assert torch.equal(prefill(), before)


@pytest.mark.parametrize("layers", [0, 3])
def test_layers_that_a_model_lacks_cannot_be_probed(layers: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to 2"):
        first_layers(twins("llama").runtime, IDS, layers)


@pytest.mark.parametrize("fails", [False, True])
def test_lent_rows_come_back_with_the_length(fails: bool) -> None:
    runtime = twins("llama").runtime
    cache = runtime.new_cache(60)
    runtime.run(IDS, range(len(IDS)), cache)
    cache.keys[:, :, :, 50:].normal_()
    keys, values = cache.keys.clone(), cache.values.clone()
    try:
        with lent_rows(cache, 45, 53):
            runtime.run(some_ids(8, seed=1), range(45, 53), cache)
            assert not torch.equal(cache.keys, keys)
            assert cache.length == 53
            if fails:
                raise RuntimeError
    except RuntimeError:
        assert fails
    assert torch.equal(cache.keys, keys)
    assert torch.equal(cache.values, values)
    assert cache.length == 50


def test_lent_rows_come_back_to_a_cache_that_had_to_grow() -> None:
    runtime = twins("llama").runtime
    cache = runtime.new_cache(50)
    runtime.run(IDS, range(len(IDS)), cache)
    keys = cache.keys.clone()
    with lent_rows(cache, 48, 52):
        runtime.run(some_ids(40), range(48, 88), cache)
    assert torch.equal(cache.keys[:, :, :, :50], keys)
    assert cache.length == 50
