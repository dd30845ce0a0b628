"""Models of pictures; one architecture per file, readable beside its paper.

A model is built from its configuration: `IMAGE_MODELS["image_attention"].make(channels=1, …)`.
"""

from regard.models.entries import IMAGE_MODELS as IMAGE_MODELS
from regard.models.images.average_pooling import AveragePooling as AveragePooling
from regard.models.images.image_attention import ImageAttention as ImageAttention
from regard.models.images.image_model import ImageModel as ImageModel
from regard.models.images.squeeze_excitation import SqueezeExcitation as SqueezeExcitation
from regard.models.images.vision_transformer import VisionTransformer as VisionTransformer
