#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start of the window on an Xvfb display of its own: time until it is visible and painted, and memory a little later.
usage: startup.py TPSCOPE-GUI     Prints medians of five starts; goals: 0.5 s, 250 MB."""
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time


def rss(pid, key):
    with open("/proc/%d/status" % pid) as status:
        return int(re.search(key + r":\s+(\d+)", status.read()).group(1)) / 1000.0


def painted(environment):
    """Whether the screen shows more than one colour: an unpainted window is plain."""
    dump = subprocess.run(["xwd", "-root", "-silent"], env=environment, capture_output=True).stdout
    body = dump[-1280 * 720 * 4:]
    return len(set(body[i:i + 4] for i in range(0, len(body), 4 * 997))) > 3


def start(program, environment, arguments):
    begin = time.monotonic()
    process = subprocess.Popen([program, *arguments], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not painted(environment):
        if process.poll() is not None or time.monotonic() - begin > 30:
            raise SystemExit("startup: the window did not show")
    seconds = time.monotonic() - begin
    time.sleep(2)
    memory = rss(process.pid, "VmHWM")
    process.terminate()
    process.wait()
    time.sleep(0.3)
    return seconds, memory


def main():
    read, write = os.pipe()
    server = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x720x24", "-nolisten", "tcp"],
                              pass_fds=[write], stderr=subprocess.DEVNULL)
    os.close(write)
    try:
        with os.fdopen(read) as pipe, tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, DISPLAY=":" + pipe.readline().strip(), QT_QPA_PLATFORM="xcb",
                               XDG_CONFIG_HOME=folder)
            for name, arguments in (("start page", []), ("recorded comparison", ["--recorded"])):
                runs = [start(sys.argv[1], environment, arguments) for _ in range(5)]
                print("%-20s first paint %.2f s (goal 0.5), peak memory %.0f MB (goal 250)" %
                      (name, statistics.median(r[0] for r in runs), statistics.median(r[1] for r in runs)), flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
