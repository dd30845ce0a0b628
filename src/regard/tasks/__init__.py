"""Tasks: what is learned, and how it is scored."""

from regard.tasks.scoring import Quality as Quality
from regard.tasks.scoring import quality as quality
from regard.tasks.translation import Translation as Translation
