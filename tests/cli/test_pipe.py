"""A reader that has seen enough, such as `head`, is no error."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_closed_pipe_ends_a_command_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = (
        "from hybridview.cli.output import guarded, say\n"
        "try:\n    guarded(lambda: say(['line'] * 1000) or 0)\n"
        "except BaseException as end:\n    raise SystemExit(end.exit_code)\n"
    )
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (found.returncode, found.stderr) == (141, "")
