"""What goes over the wire: checked on the way in, described by OpenAPI on the way out."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from regard.inspection.inspected import How


def valid_unicode(text: Any) -> Any:
    """Text as UTF-8 can hold it: each lone half of a surrogate pair becomes �."""
    if not isinstance(text, str):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


Text = Annotated[str, BeforeValidator(valid_unicode)]
Number = Annotated[int, Field(ge=0, strict=True)]
Value = Number | Text | None
Options = Annotated[
    dict[Text, Value],
    Field(
        max_length=20, description="values of the run's controls by name; those not given have their default"
    ),
]
Words = Annotated[list[Number], Field(max_length=1000, description="words of the text, from 0")]


class Strict(BaseModel):
    """A message that holds nothing else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ErrorMessage(Strict):
    """Why there is no answer."""

    error: str


class Health(Strict):
    """How busy the server is."""

    state: Literal["ready", "loading", "busy"] = Field(
        description="ready: a short request is begun now; loading: when its worker has started; busy: not yet"
    )
    waiting: int = Field(description="requests in the queue")
    working: int = Field(description="requests that are being answered")


class ControlFacts(Strict):
    """Something that can be chosen of a run."""

    name: str
    label: str
    options: list[tuple[Value, str]] = Field(description="each value, and how it is shown")
    default: Value
    when: dict[str, list[Value]] = Field(
        description="values of other controls without which this one has no effect"
    )


class RunFacts(Strict):
    """A run that is served."""

    name: str
    task: str
    model: str
    parameters: int
    score: str = Field(description="of its attentions; empty if it has none")
    map: str = Field(description="of its attentions; empty if it has none")
    facts: list[str] = Field(description="what else is worth knowing")
    about: str = Field(description="what it is for: the first paragraph of its README")
    example: str = Field(description="a text to begin with; may be empty")
    examples: list[str] = Field(description="a few of these; may be empty")
    second: str = Field(description="what its second text is called; empty if it takes none")
    second_examples: list[str] = Field(description="the second texts of the examples; may be empty")
    units: str = Field(description="what a text is cut into: words, sentences, regions, …")
    attends: bool = Field(description="whether it has attentions")
    pictures: bool = Field(description="whether a text is a picture: data:image/png;base64,…")
    changes: list[How] = Field(description="what can be done to words")
    controls: list[ControlFacts]
    audit: str = Field(description="where the page of its audit is; empty if it has none")


class PanelState(Strict):
    """A run on the page, and what of it is shown."""

    run: Text = Field(description="a name from /api/runs")
    options: Options = {}


class TextState(Strict):
    """A text, and what is done to its words."""

    text: Text
    second: Text | None = Field(None, description="for a run that takes two texts")
    words: Words = []
    how: How = Field("none", description="what is done to these words")


class InspectionRequest(TextState, PanelState):
    """A text for one run, and what is done to its words."""


class PageState(TextState):
    """All that the page shows: what its address says."""

    panels: list[PanelState] = Field(min_length=1)


class Probability(Strict):
    """A possible answer and its probability."""

    label: str
    probability: float
    then: str | None = Field(None, description="the text that goes on with it, where answers are next tokens")


class AnswerMessage(Strict):
    """What the run answers, and the weights behind it."""

    run: str
    how: How
    options: Options = Field(description="what was chosen, defaults included")
    words: list[str] = Field(description="of the text")
    unknown: list[int] = Field(description="words that are not in its vocabulary")
    changed: list[int] = Field(description="words that were masked or deleted")
    columns: list[int] = Field(description="the word behind each column of the view")
    answer: str
    answer_words: list[str] = Field(description="the words of the answer")
    log_prob: float | None = Field(description="of the answer, by the model, if it has one")
    probabilities: list[Probability] = Field(description="of all possible answers, where they are few")
    change: str = Field(description="what was done to the text, in words")
    view: dict[str, Any] | None = Field(
        description="regard.views data, each matrix with its options and caption; null if there is none"
    )
    missing: str = Field(description="why there is no view, in words; may be empty")
    complete: bool = Field(description="whether all layers and heads are in it; else only the one asked for")
