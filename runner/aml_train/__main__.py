"""The command ``aml-train``: the one boundary at which errors become messages and exit codes."""

from __future__ import annotations

import gc
import sys

from aml_train.errors import AmlTrainError, InvalidError


def _told(error: AmlTrainError) -> str:
    """Return what is printed of an expected error. Faults stand at the beginning of their lines, as editors want them."""
    faults = error.faults if isinstance(error, InvalidError) else ()
    if faults:
        number = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        text = f"{error.message}\naml-train: {number}; nothing was done.\n"
    else:
        text = f"aml-train: {error.message}\n"
    return text + (f"{error.hint}\n" if error.hint else "")


def main() -> None:
    """Run the command line and exit with the code of the table of endings."""
    from aml_train.background import leave

    code: object = 0
    try:
        _main()
    except SystemExit as ended:
        code = ended.code
    finally:
        # The interpreter's last collection walks through all of the SDK's objects: a second for nothing.
        gc.freeze()
    leave(code if isinstance(code, int) else 0 if code is None else 1)


def _main() -> None:
    from aml_train.cli import cli

    try:
        cli(prog_name="aml-train", standalone_mode=False)
    except AmlTrainError as error:
        sys.stderr.write(_told(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("aml-train: interrupted\n")
        sys.exit(7)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        import click

        if isinstance(error, click.exceptions.Exit):
            sys.exit(error.exit_code)
        if isinstance(error, click.ClickException):
            error.show()
            sys.exit(2)
        if isinstance(error, click.Abort):
            sys.exit(7)
        sys.stderr.write(
            "aml-train: this is a fault of aml-train, not of your configuration. Please report it with what follows:\n"
        )
        raise


if __name__ == "__main__":
    main()
