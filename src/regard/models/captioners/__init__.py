"""Captioners: models that write a sentence about a picture; one architecture per file."""

from regard.models.captioners.show_attend_tell import ShowAttendTell as ShowAttendTell
from regard.models.entries import CAPTIONERS as CAPTIONERS
