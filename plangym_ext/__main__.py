"""`python -m plangym_ext`: the command line `plangym-ext`."""

import sys

from plangym_ext.run.cli import main

if __name__ == "__main__":
    sys.exit(main())
