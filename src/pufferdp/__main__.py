"""``python -m pufferdp``: the command line, where no script was installed."""

from pufferdp.apps.cli import main

if __name__ == "__main__":
    main()
