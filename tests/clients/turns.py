"""Runs the turns of an agent, one after the other, as a user would in one shell.

It is the command that `deuz-sidecar exec` is given, so that one sidecar sees all turns.
Each line of standard input is a shell command as JSON, each line of standard output its
exit code and output; the end of input ends it.
"""

import json
import subprocess
import sys

# An agent starts in seconds, and in a minute where the machine has much else to do.
SECONDS = 240

for line in sys.stdin:
    run = subprocess.run(
        json.loads(line),
        shell=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=SECONDS,
    )
    print(json.dumps([run.returncode, run.stdout, run.stderr]), flush=True)
