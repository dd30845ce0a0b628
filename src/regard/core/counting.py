"""Numbers of things in sentences: "1 text", "2,000 texts"."""


def counted(number: int, thing: str) -> str:
    """So many things, in the plural unless there is one."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
