"""What the kernel knows of processes: CPU time, memory, and who else was busy.

Rules:
- CPU time is the scheduler's own count in nanoseconds, of all threads of a process and
  its children: per request it is far steadier than a rate on a shared machine.
"""

import os
import re
import socket
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PEAK_RESET = "5"  # proc(5): writing 5 to clear_refs resets VmHWM.


def list_processes(pid: int) -> list[int]:
    """Return the process and all that descend from it."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in _read(children).split()]
    return found


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU time that the process tree has used so far."""
    used = 0
    for process in list_processes(pid):
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            fields = _read(thread).split()
            used += int(fields[0]) if fields else 0
    return used / 1e9


def read_memory_mib(pid: int, field: str) -> float:
    """Return `VmRSS` (now) or `VmHWM` (peak) of the process tree."""
    total = 0
    for process in list_processes(pid):
        status = _read(Path(f"/proc/{process}/status"))
        match = re.search(rf"{field}:\s+(\d+) kB", status)
        total += int(match[1]) if match else 0
    return total / 1024


def reset_peak_memory(pid: int) -> None:
    """Let the peak start again from what is in use now."""
    for process in list_processes(pid):
        Path(f"/proc/{process}/clear_refs").write_text(PEAK_RESET)


def read_machine_busy_seconds() -> float:
    """Return the time that all cores together were not idle."""
    fields = [int(field) for field in _read(Path("/proc/stat")).split()[1:9]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields) - idle - waiting) / TICKS_PER_SECOND


def find_free_port() -> int:
    """Return a port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, *, seconds: float) -> bool:
    """Tell whether something listens on the port within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return True
    return False


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # The thread or process ended in between.
        return ""
