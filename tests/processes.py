"""Scripts that tests run in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

#: Seconds after which a test fails instead of waiting for ever.
PATIENCE = 60


def run_python(
    script: str, *arguments: object, patience: float = PATIENCE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script in a fresh interpreter with no settings of ours but these."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SEQARRAY_")}
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )


def output_of(script: str, *arguments: object, patience: float = PATIENCE, **environment: str) -> str:
    """What a script prints that ends well and complains about nothing."""
    done = run_python(script, *arguments, patience=patience, **environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
