"""`python -m regard`: the command, where torchrun wants a module."""

from regard.cli import main

main()
