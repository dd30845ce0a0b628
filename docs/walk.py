"""Write the numbers of docs/walk_through.md again: two sentences through attention, every number shown.

What stands between `<!-- NAME -->` and `<!-- /NAME -->` on the page is written here, from a seed. Each number
is computed step by step with matrices and checked against what regard computes. A test fails when the page
is stale. Run it with `python docs/walk.py`.
"""

import re
from functools import cache
from pathlib import Path

import torch
from walk_decoding import je_suis_etudiant
from walk_heads import thinking_machines

PAGE = Path(__file__).with_name("walk_through.md")


def rewritten(text: str) -> str:
    """The page with its numbers as they should be."""
    for name, part in parts().items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = pattern.sub(lambda found, part=part: f"{found[1]}\n```text\n{part}\n```\n\n{found[2]}", text)
    return text


@cache
def parts() -> dict[str, str]:
    """Every part of the page by name."""
    with torch.random.fork_rng():
        return {**thinking_machines(), **je_suis_etudiant()}


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE.name)
