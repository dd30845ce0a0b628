"""Pretrained vectors for the words of a model: of a Hugging Face encoder, or of a text file.

hf:FOLDER    the vectors of an encoder's vocabulary (BERT, RoBERTa, MiniLM …), from its model.safetensors and
             tokenizer.json; a word of several subwords gets their mean. Projected to the model's width by the
             principal components of the words in use where they are wider.
FILE         word2vec's or GloVe's text format (`regard.data.vectors`)
"""

from pathlib import Path

import torch
from torch import Tensor, nn

from regard.core.errors import WeightsError
from regard.core.tokens import UNK
from regard.core.weights import load_tensors
from regard.data.text import DataError, needed
from regard.data.tokenizer import Tokenizer
from regard.data.vectors import vectors

HF = "hf:"
NAMES = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight", "tok_embeddings.weight")


def pretrained(source: str, tokenizer: Tokenizer, words: nn.Embedding) -> int:
    """Put vectors into the embedding of a vocabulary; of how many words they are."""
    tokens, found = (
        encoder_vectors(Path(source.removeprefix(HF)), tokenizer, words.embedding_dim)
        if source.startswith(HF)
        else vectors(source, tokenizer, words.embedding_dim)
    )
    if not words.weight.is_meta:
        with torch.no_grad():
            words.weight[tokens] = found.to(words.weight.dtype)
    return len(tokens)


def encoder_vectors(folder: Path, tokenizer: Tokenizer, width: int) -> tuple[Tensor, Tensor]:
    """The tokens (k,) whose words the encoder can spell, and their vectors (k, width)."""
    tokenizers = needed("tokenizers")
    try:
        cut = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception:  # the library raises plain Exceptions
        raise DataError(f"{folder}: there is no tokenizer.json of a Hugging Face model.") from None
    try:
        tensors = load_tensors(folder / "model.safetensors")
    except WeightsError as error:
        raise DataError(f"{folder}: its weights cannot be read: {error}") from None
    table = next((tensor for name, tensor in tensors.items() if name.endswith(NAMES)), None)
    if table is None:
        raise DataError(f"{folder}: the weights have no word vectors, as word_embeddings.weight.")
    known = range(UNK + 1, len(tokenizer))
    pieces = [cut.encode(piece, add_special_tokens=False).ids for piece in tokenizer.pieces(known)]
    pairs = [(token, ids) for token, ids in zip(known, pieces, strict=True) if ids]
    if not pairs:
        raise DataError(f"{folder}: its tokenizer knows none of the words.")
    found = torch.stack([table[ids].float().mean(0) for _, ids in pairs])
    found = found - found.mean(0)
    if found.shape[1] > width:
        _, _, axes = torch.pca_lowrank(found, q=min(width, *found.shape), center=False)
        found = found @ axes
    if found.shape[1] < width:
        found = torch.nn.functional.pad(found, (0, width - found.shape[1]))
    return torch.tensor([token for token, _ in pairs]), found / found.std().clamp(min=1e-6) * 0.3
