"""`python -m holdfast`: the same as the program `holdfast`."""

from holdfast.cli import main

main()
