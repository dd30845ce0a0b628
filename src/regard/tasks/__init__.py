"""Tasks: what is learned, and how it is scored."""

from regard.tasks.classes import ClassQuality as ClassQuality
from regard.tasks.classes import class_quality as class_quality
from regard.tasks.classification import Classification as Classification
from regard.tasks.scoring import Quality as Quality
from regard.tasks.scoring import quality as quality
from regard.tasks.translation import Translation as Translation
