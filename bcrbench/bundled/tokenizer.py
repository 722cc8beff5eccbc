"""The bundled model's tokenizer: one id a whitespace-separated word, with a chat template, loadable like any other.

Cutting a text at whitespace never changes its ids, so a prompt's pieces, tokenised one by one, give the ids of the
whole (tested): the "token tax" of merged prompts is zero here.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bcrbench.bundled.orders import GOODS, NAMES, NUMERALS, SHOPS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, BOS, EOS, UNK = "<pad>", "<bos>", "<eos>", "<unk>"
TURNS = ("<system>", "<user>", "<assistant>")
MAX_LENGTH = 512
WORDS = (
    *"0123456789",
    *NUMERALS,
    *GOODS,
    *SHOPS,
    *NAMES,
    *("order", "for", "a", "please", ".", ":"),
    *("you", "are", "the", "clerk", "of", "shop", "give", "total", "price", "says", "quote"),
    *("buyer", "each", "and", "lowest", ";", ",", "####"),
)
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('a turn must be of system, user or assistant') }}"
    "{% endif %}"
    "{{ ' <' + message.role + '> ' + message.content + ' ' }}"
    "{% if message.role == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ ' <assistant> ' }}{% endif %}"
)


def build_tokenizer() -> PreTrainedTokenizerFast:
    """The word-level tokenizer; a word it does not know becomes <unk>."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    special = (PAD, BOS, EOS, UNK, *TURNS)
    vocabulary = {word: index for index, word in enumerate((*special, *WORDS))}
    core = Tokenizer(WordLevel(vocabulary, unk_token=UNK))
    core.pre_tokenizer = WhitespaceSplit()
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        unk_token=UNK,
        model_max_length=MAX_LENGTH,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def save_tokenizer(folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and the chat template into a folder."""
    build_tokenizer().save_pretrained(folder)
