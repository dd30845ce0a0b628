"""How good answers are, task by task, and whether each hop looks at the supporting sentences.

AUC of a hop    how often a supporting sentence has more weight than another one; ½ at random
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core.counting import counted
from regard.core.errors import RunError
from regard.data.stories import StoryQuestion, answer_word
from regard.tasks.system import Scores

if TYPE_CHECKING:
    from regard.tasks.answerer import Answerer

BLOCK = 512  # questions that are answered at once


def answer_scores(system: "Answerer", examples: Sequence[StoryQuestion]) -> Scores:
    """Accuracy over all questions, its mean over tasks, and accuracy and AUC of each task."""
    if not examples:
        raise RunError("there are no questions to score.")
    right = torch.zeros(len(examples), dtype=torch.bool)
    areas = torch.full((len(examples), len(system.layers)), torch.nan, dtype=torch.float64)
    for start in range(0, len(examples), BLOCK):
        some = examples[start : start + BLOCK]
        answers = system.answer([(one.story, one.question) for one in some])
        weights = system.hop_weights(answers).double().cpu()  # (b, hops, n)
        for i, (one, answer) in enumerate(zip(some, answers, strict=True)):
            right[start + i] = answer_word(answer.said) == answer_word(one.answer)
            areas[start + i] = fact_areas(weights[i, :, : len(one.story)], one.facts)
    unknown = sum(answer_word(one.answer) not in system.parts.number for one in examples)
    tasks: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(one.task for one in examples):
        own = torch.tensor([one.task == name for one in examples])
        auc = [float(hop) for hop in areas[own].nanmean(0)] if bool(areas[own].isfinite().any()) else None
        accuracy = float(right[own].double().mean())
        tasks[name] = {"questions": int(own.sum()), "accuracy": accuracy, "error": 1 - accuracy, "auc": auc}
    mean = sum(task["accuracy"] for task in tasks.values()) / len(tasks)
    figures = {
        "accuracy": float(right.double().mean()),
        "mean_accuracy": mean,
        "mean_error": 1 - mean,
        "questions": len(examples),
        "unknown_answers": unknown,
        "tasks": tasks,
    }
    notes = []
    if unknown:
        notes.append(f"{unknown:,} answers were never seen in training, and count as wrong")
    hops = [f"AUC hop {k + 1}" for k in range(len(system.layers))]
    rows = (
        (
            name or "-",
            f"{task['questions']:,}",
            f"{task['accuracy']:.4f}",
            *(f"{auc:.3f}" for auc in task["auc"] or ()),
        )
        for name, task in tasks.items()
    )
    line = f"accuracy {figures['accuracy']:.4f} on {counted(len(examples), 'question')}"
    if len(tasks) > 1:
        line += f", mean error over {len(tasks)} tasks {100 * (1 - mean):.2f} %"
    with_facts = any(task["auc"] for task in tasks.values())
    if with_facts:
        notes.append("AUC: how often a supporting sentence has more weight than another; 0.5 at random")
    headings = ("task", "questions", "accuracy", *(hops if with_facts else ()))
    table = tuple(row + ("",) * (len(headings) - len(row)) for row in rows)
    return Scores(figures, line, headings, table, tuple(notes))


def fact_areas(weights: Tensor, facts: Sequence[int]) -> Tensor:
    """The AUC of each hop, weights (hops, n), against supporting sentences; NaN if all or none are."""
    marks = torch.zeros(weights.shape[-1], dtype=torch.bool)
    marks[list(facts)] = True
    differences = weights[:, marks].unsqueeze(-1) - weights[:, ~marks].unsqueeze(-2)
    return ((differences > 0).double() + 0.5 * (differences == 0).double()).flatten(1).mean(-1)
