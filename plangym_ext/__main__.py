"""Entry point of `python -m plangym_ext`: the command line `plangym-ext`."""

import signal
import sys


def main() -> int:
    """Run one command; return the exit status."""
    try:
        # In here: what it imports takes a moment, in which Ctrl-C is no fault of the program.
        from plangym_ext.run.cli import main as run

        return run()
    except KeyboardInterrupt:
        print(f"\n{' '.join(['plangym-ext', *sys.argv[1:2]])}: interrupted", file=sys.stderr)
        return 130  # by number, as the module with its name may not be loaded yet
    finally:
        # The work is done. What libraries do at the end of the process would else show Ctrl-C as
        # an error of theirs, or crash.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
