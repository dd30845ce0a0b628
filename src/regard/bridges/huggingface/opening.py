"""hf:PATH: a folder, a .gguf file, a folder that `regard swap` wrote, or a name in transformers' cache.

Nothing is downloaded: transformers is told to use what is there.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import transformers
from safetensors.torch import load_file

from regard.bridges.huggingface.fitting import put
from regard.bridges.huggingface.foreign_language_model import LanguageModel
from regard.bridges.huggingface.foreign_tokenizer import ForeignTokenizer
from regard.bridges.huggingface.model_attentions import attentions_of, called_again, refused
from regard.bridges.huggingface.model_facts import positions
from regard.bridges.huggingface.sequence_to_sequence import SequenceToSequence
from regard.bridges.huggingface.text_classifier import TextClassifier
from regard.bridges.huggingface.text_encoder import TextEncoder
from regard.core.errors import RunError
from regard.core.recorders import attends
from regard.swap import swap
from regard.tasks.system import System

SWAPPED = "regard.json"  # beside a model, or alone: its base, map and temperatures
TUNED = "tuned.safetensors"  # beside it: weights of q and k that differ from the base's

PREPARATION = ("preprocessor_config.json", "processor_config.json")  # of pictures and sound


def opens(folder: Path) -> bool:
    """Whether a folder holds a model of transformers."""
    return (folder / "config.json").is_file() or (folder / SWAPPED).is_file()


def load(path: Path, device: str = "cpu") -> System:
    """The system at a path; its attentions go through us."""
    theirs, tokenizer = load_parts(path)
    return system_of(theirs.to(device), tokenizer, str(path))


def system_of(theirs: Any, tokenizer: Any, name: str = "") -> System:
    """A model and a tokenizer of transformers as a system; unless it is swapped already, with softmax."""
    theirs = getattr(theirs, "_orig_mod", theirs)  # of torch.compile
    kind, found = type(theirs).__name__, attentions_of(theirs)
    name = name or kind
    if not found:
        raise RunError(refused(kind))
    _check_reads_text(type(theirs))
    own = ForeignTokenizer(tokenizer, positions(theirs))
    if not all(attends(module) for module in found.values()):
        swap(theirs, "softmax")
    theirs.eval()
    if theirs.config.is_encoder_decoder:
        if not theirs.can_generate():
            raise RunError(f"{kind} is an encoder–decoder that writes nothing: it cannot be explained here.")
        return SequenceToSequence(theirs, own, name)
    if several := called_again(theirs):
        raise RunError(
            f"{kind} calls {several} for several layers: they cannot be told apart here. swap, record and "
            "check work."
        )
    if kind.endswith("ForSequenceClassification"):
        why = _decides_nothing(theirs)
        classifier = None if why else TextClassifier(theirs, own, name)
        if classifier is not None and not classifier.model.reads_elsewhere():
            return classifier
        why = why or f"this {kind} decides by several positions, and attention is read at one"
        return TextEncoder(theirs.base_model, own, name, why)
    if theirs.get_output_embeddings() is not None and kind.endswith(("ForCausalLM", "LMHeadModel")):
        return LanguageModel(theirs, own, name)
    if hasattr(theirs, "get_input_embeddings"):
        return TextEncoder(theirs.base_model, own, name)  # a head for words alone is left out
    raise RunError(f"{kind} is no classifier, language model, sequence-to-sequence model or text encoder.")


def _decides_nothing(classifier: Any) -> str:
    """Why the answer of a classifier is not one of several classes; "" if it is."""
    kind, config = type(classifier).__name__, classifier.config
    if config.num_labels < 2:
        return f"this {kind} gives a text one number, not one of several classes"
    if config.problem_type == "multi_label_classification":
        return f"this {kind} gives a text any number of labels, not one of several classes"
    return ""


def load_parts(path: Path) -> tuple[Any, Any]:
    """The model and the tokenizer at a path."""
    return load_model(path), load_tokenizer(path)


def load_tokenizer(path: Path) -> Any:
    """The tokenizer at a path."""
    where, place = _place(_base(path))
    with _one_sentence(path):
        config = transformers.AutoConfig.from_pretrained(where, **place)
        _check_reads_text(_auto_class(config, "gguf_file" in place))
        try:
            found = transformers.AutoTokenizer.from_pretrained(where, **place)
        except (OSError, ValueError):
            if "gguf_file" in place:
                raise
            found = None
    if found is None or len(found) <= len(set(found.all_special_ids)):  # transformers makes an empty one
        raise RunError(
            f"hf:{path} has no tokenizer that can be opened: tokenizer.save_pretrained puts one there."
        )
    return found


def copy_preparation(path: Path, out: Path) -> None:
    """Put what prepares a model's inputs beside it: its tokenizer; of pictures and sound, their settings."""
    where, place = _place(_base(path))
    for name in PREPARATION:
        if (Path(where) / name).is_file():
            shutil.copy(Path(where) / name, out)
    with suppress(OSError, ValueError):  # a model of pictures has none
        transformers.AutoTokenizer.from_pretrained(where, **place).save_pretrained(out)


def _check_reads_text(kind: Any) -> None:
    """Raise if a class of models, or the class that makes them, reads pictures or sound."""
    what = getattr(kind, "main_input_name", "input_ids")
    if what != "input_ids":
        raise RunError(
            f"{kind.__name__} reads {what}, not texts, and only texts can be asked about here; regard check "
            "and regard swap work with it, and so do swap, record and intervene in Python."
        )


def load_model(path: Path) -> Any:
    """The model at a path, in float32 and eval mode; one that `regard swap` wrote has its maps."""
    said = _said(path)
    if said and not (path / "config.json").is_file():
        model = load_model(_base_of(path, said))  # which may be one that `regard swap` wrote, too
    else:
        model = _opened(path)
    if said:
        put(model, said["map"], said["temperatures"], said.get("alphas"))
    if (path / TUNED).is_file():
        with _one_sentence(path):
            model.load_state_dict(load_file(path / TUNED), strict=False)
    return model


def _opened(path: Path) -> Any:
    """The model whose weights are at a path."""
    where, place = _place(path)
    with _one_sentence(path):
        config = transformers.AutoConfig.from_pretrained(where, **place)
        kind = _auto_class(config, "gguf_file" in place)
        model = kind.from_pretrained(where, dtype="float32", **place).eval()
    if "gguf_file" in place:  # its weights are plain numbers now, and can be saved
        model.hf_quantizer = None
        vars(model.config).pop("quantization_config", None)
    return model


def _said(path: Path) -> dict[str, Any]:
    """What a folder of `regard swap` says; {} of any other."""
    file = path / SWAPPED
    if not file.is_file():
        return {}
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        known = isinstance(said["map"], str) and isinstance(said["base"], str)
        numbers = [*said["temperatures"].values(), *said.get("alphas", {}).values()]
        if not known or not all(isinstance(one, list) for one in numbers):
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{file} is not what regard swap writes.") from None
    return dict(said)


def _base(path: Path) -> Path:
    """Where the weights are: elsewhere, for a folder of `regard swap` without them."""
    said = _said(path)
    if not said or (path / "config.json").is_file():
        return path
    return _base(_base_of(path, said))


def _base_of(path: Path, said: dict[str, Any]) -> Path:
    """The model that was swapped."""
    base = Path(said["base"])
    base = path / base if not base.is_absolute() and (path / base).exists() else base
    if base.resolve() == path.resolve():
        raise RunError(f"{path / SWAPPED} says that its weights are in {base}, which is this folder.")
    return base


def _place(path: Path) -> tuple[str, dict[str, Any]]:
    """What transformers wants to be told of a path."""
    if not path.exists() and (path.is_absolute() or path.parts[:1] == ("..",)):  # no name in the cache
        raise RunError(f"there is no folder {path}.")
    if path.suffix != ".gguf":
        return str(path), {"local_files_only": True}
    if not path.is_file():
        raise RunError(f"there is no file {path}.")
    return str(path.parent), {"local_files_only": True, "gguf_file": path.name}


@contextmanager
def _one_sentence(path: Path) -> Iterator[None]:
    """Whatever transformers says of what it cannot open, as one line."""
    try:
        with bars_on_terminals():
            yield
    except RunError:
        raise
    except (OSError, ValueError, ImportError, KeyError) as error:
        if isinstance(error, OSError) and not path.exists():
            raise RunError(
                f"there is no folder {path}, and no model of that name in the cache of transformers."
            ) from error
        what = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise RunError(f"hf:{path} cannot be opened: {what}") from error


@contextmanager
def bars_on_terminals() -> Iterator[None]:
    """A block in which transformers draws no bar, unless somebody sees it."""
    bars = transformers.utils.logging
    if sys.stderr.isatty() or not bars.is_progress_bar_enabled():
        yield
        return
    bars.disable_progress_bar()
    try:
        yield
    finally:
        bars.enable_progress_bar()


def _auto_class(config: Any, gguf: bool) -> Any:
    named = (getattr(config, "architectures", None) or [""])[0]
    if gguf:
        return transformers.AutoModelForCausalLM
    if isinstance(own := getattr(transformers, named, None), type):
        return own  # with its head, whatever that is for
    if named.endswith("ForSequenceClassification"):
        return transformers.AutoModelForSequenceClassification
    if config.is_encoder_decoder:
        return transformers.AutoModelForSeq2SeqLM
    if named.endswith(("ForCausalLM", "LMHeadModel")):
        return transformers.AutoModelForCausalLM
    return transformers.AutoModel
