"""What goes over the wire: checked on the way in, described by OpenAPI on the way out."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.serve.asked import How


def mended(text: Any) -> Any:
    """Text as UTF-8 can hold it: halves of a surrogate pair that came alone are �."""
    if not isinstance(text, str):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


Text = Annotated[str, BeforeValidator(mended)]
Number = Annotated[int, Field(ge=0, strict=True)]


class Strict(BaseModel):
    """A message that holds nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Strict):
    """Why there is no answer."""

    error: str


class RunFacts(Strict):
    """A run that is served."""

    name: str
    kind: Literal["translator", "classifier"]
    model: str
    parameters: int
    score: str
    map: str
    layers: list[str] = Field(
        description="attentions by path: source–target, one for each layer; a classifier's over the words"
    )
    heads: int = Field(description="of each layer; a classifier's queries or heads over the words")
    beam: int
    example: str = Field(description="a sentence to begin with; may be empty")
    audit: str = Field("", description="where the page of its audit is; empty if it has none")
    labels: list[str] = Field([], description="of a classifier: its classes")
    pairs: bool = Field(False, description="of a classifier: whether it takes a second text")
    methods: list[str] = Field([], description="of a classifier: what its words can be coloured by")


class Question(Strict):
    """What one run is asked."""

    run: Text = Field(description="a name from /api/runs")
    text: Text
    words: list[Number] = Field([], max_length=1000, description="words of the text, from 0")
    how: How = Field("as_it_is", description="what is done to these words")
    layer: Number | None = Field(None, description="of a translator, from 0; the last one if it is not given")
    head: Number | None = Field(None, description="from 0; the mean of the heads if it is not given")
    method: Text | None = Field(None, description="of a classifier; attention if it is not given")
    second: Text | None = Field(None, description="for a classifier that takes two texts")


class Chance(Strict):
    """A class and its probability."""

    label: str
    probability: float


class Answer(Strict):
    """What the run says and where it looked."""

    run: str
    how: How
    words: list[str] = Field(description="of the text")
    gone: list[int] = Field(description="words that were not looked at, or taken away")
    places: list[int] = Field(description="the word behind each column of the maps")
    answer: str = Field(description="a translation, or a class")
    answer_words: list[str] = Field(description="the rows of the maps")
    log_prob: float = Field(description="of the answer, by the model")
    probabilities: list[Chance] = Field([], description="of the classes, if it is a classifier")
    method: str | None = Field(None, description="what its words are coloured by, if it is a classifier")
    change: str = Field(description="what was done to the sentence, in words")
    map: dict[str, Any] | None = Field(description="regard.views data; null without attention or words")
    missing: str = Field("", description="why there is no map of a classifier, in words")
    whole: bool = Field(description="whether all layers and heads are in it; else only the one asked for")


class Panel(Strict):
    """A run on the page, and what of it is shown."""

    run: Text
    layer: Number | None = None
    head: Number | None = None
    method: Text | None = None


class Scene(Strict):
    """The whole state of the page: what its address says."""

    text: Text
    second: Text | None = None
    words: list[Number] = Field([], max_length=1000)
    how: How = "as_it_is"
    panels: list[Panel] = Field(min_length=1)
