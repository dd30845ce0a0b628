"""ListOps: nested operations on lists of digits, whose value is the class.

    [MAX 4 3 [MIN 2 3 ] 1 0 ]   →   4

MIN, MAX, MED (the median, rounded down), SM (the sum modulo 10), and in some files FIRST and LAST. Generated
expressions have a depth of 5 to 8, lists of 2 to 5 and at most 200 tokens. Files are those of Nangia & Bowman
(label, tab, expression) or of Long Range Arena (a header "Source Target"); the parentheses of either are left
out.

Nangia & Bowman (2018), "ListOps: A Diagnostic Dataset for Latent Tree Learning", arXiv:1804.06028; Tay et al.
(2020), "Long Range Arena", arXiv:2011.04006, §2.2.1.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from regard.data.long_range.long_task import FIRST, LongExample, LongTask
from regard.data.text_lines import DataError, located_lines

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM", "[FIRST", "[LAST")
CLOSE = "]"
WORDS = (*map(str, range(10)), *OPERATORS, CLOSE)
TOKENS = {word: FIRST + i for i, word in enumerate(WORDS)}
LONGEST, ARGUMENTS, NESTED = 200, 5, 0.25
DEPTHS = (5, 6, 7, 8)


def value_of(words: Sequence[str]) -> int:
    """The value of an expression; ValueError if it is none."""
    stack: list[tuple[str, list[int]]] = []
    for number, word in enumerate(words):
        if word in OPERATORS:
            stack.append((word, []))
            continue
        if word == CLOSE:
            if not stack or not stack[-1][1]:
                raise ValueError("a list is closed that has no operator or no argument")
            found = applied(*stack.pop())
        elif word.isdigit() and len(word) == 1:
            found = int(word)
        else:
            raise ValueError(f"{word!r} is no digit, operator or ]")
        if stack:
            stack[-1][1].append(found)
        elif number + 1 == len(words):
            return found
        else:
            raise ValueError("there is more than one expression")
    raise ValueError("a list is not closed")


def applied(operator: str, arguments: Sequence[int]) -> int:
    """The value of one list."""
    if operator == "[MIN":
        return min(arguments)
    if operator == "[MAX":
        return max(arguments)
    if operator == "[MED":
        middle, ordered = len(arguments) // 2, sorted(arguments)
        return ordered[middle] if len(arguments) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    if operator == "[SM":
        return sum(arguments) % 10
    return arguments[0] if operator == "[FIRST" else arguments[-1]


def depth_of(words: Sequence[str]) -> int:
    """How deep lists are nested."""
    depth = most = 0
    for word in words:
        depth += (word in OPERATORS) - (word == CLOSE)
        most = max(most, depth)
    return most


def expression(random: Random, depth: int, operators: Sequence[str]) -> list[str]:
    """Words of a list nested exactly so deep."""
    if depth == 0:
        return [str(random.randrange(10))]
    count = random.randint(2, ARGUMENTS)
    deepest = random.randrange(count)
    words = [random.choice(operators)]
    for i in range(count):
        inner = depth - 1 if i == deepest else random.randrange(depth) if random.random() < NESTED else 0
        words += expression(random, inner, operators)
    return [*words, CLOSE]


def generate(
    random: Random, depths: Sequence[int] = DEPTHS, operators: Sequence[str] = OPERATORS[:4]
) -> LongExample:
    """One expression of at most LONGEST tokens."""
    depth = random.choice(depths)
    while len(words := expression(random, depth, operators)) > LONGEST:
        pass
    return example(words)


def example(words: Sequence[str]) -> LongExample:
    """An expression as tokens, with its value."""
    value = value_of(words)  # first: it says which word is none
    return LongExample([TOKENS[word] for word in words], value)


def part(random: Random, whole: LongExample, level: float) -> LongExample:
    """A list inside an expression: its depth is drawn from 1 to a level (0 to 1) of that of the whole."""
    begun: list[tuple[int, int]] = []  # where lists that are open begin, and how deep they are nested so far
    lists: dict[int, list[slice]] = {}
    for at, token in enumerate(whole.tokens):
        if FIRST + 10 <= token < TOKENS[CLOSE]:
            begun.append((at, 1))
        elif token == TOKENS[CLOSE]:
            start, depth = begun.pop()
            lists.setdefault(depth, []).append(slice(start, at + 1))
            if begun:
                before, deepest = begun.pop()
                begun.append((before, max(deepest, depth + 1)))
    if not lists:
        return whole
    wanted = random.randint(1, max(1, round(level * max(lists))))
    chosen = whole.tokens[random.choice(lists[wanted])]
    return example([WORDS[token - FIRST] for token in chosen])


def read(file: Path) -> list[LongExample]:
    """The expressions of a file; a label that is not the value is an error that names the line."""
    found: list[LongExample] = []
    for number, (where, line) in enumerate(located_lines(file)):
        cells = line.split("\t")
        if len(cells) != 2:
            raise DataError(f"{where}: a label and an expression are wanted, with a tab between them.")
        if number == 0 and {cell.strip().lower() for cell in cells} == {"source", "target"}:
            continue
        label, text = cells if len(cells[0].strip()) <= 2 else reversed(cells)
        words = [word for word in text.split() if word not in ("(", ")")]
        try:
            one = example(words)
        except ValueError as error:
            raise DataError(f"{where}: {error}.") from None
        if label.strip() != str(one.label):
            raise DataError(f"{where}: the label is {label.strip()}, the value {one.label}.")
        found.append(one)
    return found


def like(examples: Sequence[LongExample]) -> Callable[[Random], LongExample]:
    """A generator of expressions with the operators, depths and lengths of a file's."""
    texts = [[WORDS[token - FIRST] for token in one.tokens] for one in examples]
    operators = sorted({word for words in texts for word in words if word in OPERATORS})
    counts = Counter((max(depth_of(words), 1), len(words) // 8) for words in texts)
    shapes, shares = list(counts), list(counts.values())

    def make(random: Random) -> LongExample:
        (depth, length), words = random.choices(shapes, shares)[0], []
        for _ in range(30):
            words = expression(random, depth, operators)
            if len(words) // 8 == length:
                break
        return example(words)

    return make if operators else generate


listops = LongTask(
    "listops",
    "The value of nested operations on lists of digits, depth 5 to 8.",
    FIRST + len(WORDS),
    10,
    generate,
    read,
    chance=0.13,
    like=like,
    part=part,
)
