"""`python -m bayespca` is the command."""

from bayespca.cli import main

if __name__ == "__main__":
    main()
