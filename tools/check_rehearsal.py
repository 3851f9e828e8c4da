"""Checks what `make run` left: the newest run passed in all four gates and verifies.

Used by .ci/run, so that a rehearsal that only looks like a success is seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Return 0 if the newest run is a whole, sealed, passed rehearsal."""
    runs = sorted(path.parent for path in (ROOT / "runs").glob("*/findings.json"))
    if not runs:
        print("no run was left in runs/")
        return 1
    run = runs[-1]
    found = json.loads((run / "findings.json").read_bytes())
    verdicts = {gate["gate"]: gate["verdict"] for gate in found["gates"]}
    print(f"{run.name}: {found['verdict']} {verdicts}")
    report = run / "report" / "report.html"
    whole = (
        found["verdict"] == "pass"
        and verdicts == dict.fromkeys(("G1", "G2", "G3", "G4"), "pass")
        and report.is_file()
        and "REHEARSAL" in report.read_text("utf-8")
    )
    verified = subprocess.run(
        [sys.executable, "-m", "kvgate", "verify", str(run)], check=False
    ).returncode
    return 0 if whole and verified == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
