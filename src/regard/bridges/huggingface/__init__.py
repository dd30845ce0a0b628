"""Models of transformers: swap the maps of their attentions, record, intervene, explain and audit them."""

try:
    import transformers
except ImportError as error:
    raise ImportError(
        "models of Hugging Face need transformers 5 or newer: pip install 'regard[hf]'", name="transformers"
    ) from error
if int(transformers.__version__.split(".")[0]) < 5:
    raise ImportError(
        f"models of Hugging Face need transformers 5 or newer, this is {transformers.__version__}: "
        "pip install 'regard[hf]'",
        name="transformers",
    )

from regard.bridges.huggingface.model_attentions import attentions_of, refusal
from regard.bridges.huggingface.opening import load, opens
from regard.bridges.huggingface.opening import system_of as system_of
from regard.bridges.huggingface.swapping import restore_attentions, swap_attentions
from regard.core.bridges import BRIDGES, Bridge

BRIDGES.enter(
    "hf", Bridge(opens, load, attentions_of, swap_attentions, restore_attentions, system_of, refusal)
)
