"""Folders with a tiny model and a tokenizer of words, as `save_pretrained` writes them."""

import pytest
import torch

from bridges.tiny_models import STACKS, TEXT, tiny, transformers

WORDS = (
    "[PAD] [BOS] [EOS] [UNK] a the key keys cabinet to is are on table good bad film plot dull witty",
    "very and not , . was were in of it one two three four five six seven eight nine ten",
)
WORDS = " ".join(WORDS).split()


def tokenizer(special):
    """Words of WORDS; with special tokens before and after a text, [BOS] text [EOS], or none."""
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    if special:
        inner.post_processor = tokenizers.processors.TemplateProcessing(
            single=special, special_tokens=[("[BOS]", 1), ("[EOS]", 2)]
        )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]", unk_token="[UNK]"
    )


def classifier():
    """A BERT with two classes."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**TEXT, id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1})
    return transformers.BertForSequenceClassification(config).eval()


def bart():
    """An encoder–decoder whose texts begin with [BOS], and which must end within the tokens that it has."""
    torch.manual_seed(0)
    config = transformers.BartConfig(**STACKS, max_position_embeddings=128, forced_eos_token_id=2)
    return transformers.BartForConditionalGeneration(config).eval()


def folder(kind, where):
    """A folder with a classifier, a language model, a sequence-to-sequence model or an encoder."""
    model, special = {
        "classifier": (classifier, "[BOS] $A [EOS]"),
        "encoder": (lambda: tiny("bert"), "[BOS] $A [EOS]"),
        "language": (lambda: tiny("llama"), "[BOS] $A"),
        "stacked": (lambda: tiny("marian"), "$A [EOS]"),
        "bart": (bart, "[BOS] $A [EOS]"),
    }[kind]
    path = where / kind
    if not path.exists():
        model().save_pretrained(path)
        tokenizer(special).save_pretrained(path)
    return path
