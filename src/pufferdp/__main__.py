"""``python -m pufferdp``: the command line, where no script was installed."""

from pufferdp.apps.cli import program

if __name__ == "__main__":
    program()
