"""`python -m dualac` is `dualac`."""

from dualac.cli import main

if __name__ == "__main__":
    main()
