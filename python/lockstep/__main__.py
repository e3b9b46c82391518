"""`python -m lockstep`: the `lockstep` command."""
import sys

from lockstep.command import main

sys.exit(main(sys.argv[1:]))
