"""Write the generated parts of README.md and of pages again: tables of scores, maps, benchmarks and claims.

What stands between `<!-- NAME -->` and `<!-- /NAME -->` is written here, from SCORES, MAPS, CLAIMS with their
published figures, and the results that `make bench` leaves in docs/benchmarks/. A test fails when it is
stale. Run it with `make tables`.
"""

import json
import re
from pathlib import Path
from typing import Any

from regard.bench.machine_facts import PEERS
from regard.bench.speed_report import details, markdown, summary
from regard.claims.claims_page import rationalizers, sections
from regard.claims.remember import findings
from regard.maps import MAPS
from regard.scores import SCORES

ROOT = Path(__file__).parents[1]
FILES = [
    ROOT / "README.md",
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("benchmarks", "scores_and_maps", "claims", "what_to_remember", "rationalize")
    ),
]
COST = {  # what README.md shows of the benchmarks
    ("sparsemax and entmax15, rows of 64, normal and peaked", "torch.softmax"),
    ("sparsemax and entmax15, rows of 512 and 4,096, normal and peaked", "torch.softmax"),
    (
        "sparsemax and entmax15, rows of 64 to 4,096, normal and peaked",
        "entmax package, better of default and top-k",
    ),
    (
        "scaled dot + entmax15 attention, forward + backward, n = 2,048 and 8,192, normal",
        "scaled_dot_product_attention",
    ),
    ("MultiHead with softmax, batch 1 and 8, n = 512 and 2,048", "nn.MultiheadAttention"),
}
RESULTS = [
    "maps", "attention", "attention_one_thread", "run", "structured", "training", "decoding", "certified",
    "writing", "writing_two_threads", "language", "serving", "drawing", "flow", "swapped_model",
]  # fmt: skip
NOTHING = "Not measured yet: `make bench` writes it."


def rewritten(text: str) -> str:
    """The text with its generated parts as they should be."""
    for name, part in parts().items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = pattern.sub(lambda found, part=part: f"{found[1]}\n{part}\n\n{found[2]}", text)
    return text


def parts() -> dict[str, str]:
    """Every generated part by name."""
    found = {name: results(name) for name in RESULTS}
    rows = [row for name in RESULTS for row in found[name]]
    return {
        "scores": scores(),
        "maps": maps(),
        "claims": summary(rows) if rows else NOTHING,
        "cost": summary(row for row in rows if (row["claim"], row["against"]) in COST) if rows else NOTHING,
        "machine": machine(rows),
        "lectures": sections(),
        "remember": findings(),
        "rationalizers": rationalizers(),
        **{f"{name}-results": details(found[name]) if found[name] else NOTHING for name in RESULTS},
    }


def results(name: str) -> list[dict[str, Any]]:
    """The results of the last `make bench`, if there was one."""
    file = ROOT / "docs" / "benchmarks" / f"{name}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def machine(rows: list[dict[str, Any]]) -> str:
    """With what the results were measured."""
    if not rows:
        return NOTHING
    row, runs = rows[0], {}
    for one in rows:
        runs.setdefault((one["date"], one["threads"]), {})[f"`{one['command']}`"] = one["load"]
    when = "; ".join(
        f"{', '.join(commands)}: {date}, {threads} thread{'s' if threads > 1 else ''}, "
        f"load {max(commands.values())}"
        for (date, threads), commands in runs.items()
    )
    versions = {peer: row[peer] for peer in PEERS for row in rows if row.get(peer)}
    return (
        f"{when}. {row['processor']}, {row['cores']} cores, float32; "
        f"Python {row['python']}, torch {row['torch']}, numba {row['numba']}, "
        f"{', '.join(f'{peer} {version}' for peer, version in versions.items())}, regard {row['regard']}."
    )


def scores() -> str:
    """SCORES as a table."""
    lines = [
        [f"`{e.name}`", e.says, yes(e.learned), yes(e.any_widths), yes(e.factored)] for e in SCORES.values()
    ]
    return markdown(["score", "what it does", "learned", "d_q ≠ d_k", "fast backends"], lines)


def maps() -> str:
    """MAPS as a table."""
    lines = [
        [f"`{e.name}`", e.says, yes(e.simplex), yes(e.sparse), yes(e.ordered), yes(e.neighbours)]
        for e in MAPS.values()
    ]
    return markdown(
        ["map", "what it does", "sums to 1", "exact zeros", "keeps order", "looks at neighbours"], lines
    )


def yes(fact: bool) -> str:
    return "yes" if fact else ""


if __name__ == "__main__":
    for file in FILES:
        file.write_text(rewritten(file.read_text(encoding="utf-8")), encoding="utf-8")
        print(file.relative_to(ROOT))
