#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole job once in a real window: open a plan, break it, go to the finding, fix it, save,
choose a style in the tree, undo, run, compare, export.

A person's hands only: keys and clicks by xdotool, in a window that openbox manages on an Xvfb display of its own. What
must have happened is read from the files the program wrote and from the window's title.
usage: walk.py TPSCOPE-GUI [FOLDER FOR PICTURES]
"""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PLAN = """model_type: qwen3
tp_size: 2
tp_plan:
  lm_head: colwise_gather_output
  model.layers.*.self_attn.q_proj: colwise
  model.layers.*.mlp.down_proj: rowwise"""
NEEDED = ("Xvfb", "openbox", "xdotool")


class Walk:
    def __init__(self, pictures):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tpscope-walk-"))
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        (self.folder / "runtime").mkdir(mode=0o700)
        self.plan = self.folder / "plan.yaml"
        self.plan.write_text(PLAN)
        self.pictures = pictures
        self.processes = []

    def begin(self, program):
        read, write = os.pipe()
        self.start(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp"],
                   pass_fds=[write])
        os.close(write)
        with os.fdopen(read) as pipe:
            self.environment = dict(os.environ, DISPLAY=":" + pipe.readline().strip(), QT_QPA_PLATFORM="xcb",
                                    XDG_CONFIG_HOME=str(self.folder / "config"), TMPDIR=str(self.temporary),
                                    XDG_RUNTIME_DIR=str(self.folder / "runtime"))
        self.start(["openbox"])
        # A window that is shown while the window manager starts may never be shown.
        self.until("the window manager", lambda: self.asked("get_num_desktops"))
        self.start([program, "qwen3-tiny", "--plan", str(self.plan)])
        self.until("the window", lambda: self.asked("search", "--onlyvisible", "--name", "TPScope"))
        self.window = self.asked("search", "--onlyvisible", "--name", "TPScope").split()[-1]
        self.xdotool("windowactivate", "--sync", self.window)

    def start(self, command, **options):
        environment = getattr(self, "environment", os.environ)
        self.processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL, start_new_session=True, **options))

    def xdotool(self, *arguments):
        done = subprocess.run(["xdotool", *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError("xdotool %s: %s" % (" ".join(arguments), done.stderr))
        return done.stdout

    def asked(self, *arguments):
        """What xdotool found; "" nothing yet."""
        done = subprocess.run(["xdotool", *arguments], env=self.environment, capture_output=True, text=True, timeout=60)
        return done.stdout.strip() if done.returncode == 0 else ""

    def key(self, *keys):
        for key in keys:
            self.xdotool("key", "--clearmodifiers", key)

    def title(self):
        return self.xdotool("getwindowname", self.window).strip()

    def until(self, what, condition, seconds=60):
        """The one way to wait: for what a person would see happen."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                self.picture("failed")
                raise AssertionError("waited %d s in vain for: %s" % (seconds, what))
            time.sleep(0.1)

    def picture(self, name):
        if self.pictures and shutil.which("import"):
            subprocess.run(["import", "-window", "root", str(self.pictures / (name + ".png"))], env=self.environment)

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


def save_and_expect(walk, ending):
    save(walk, "ends with " + ending, lambda text: text.rstrip().endswith(ending))


def save_and_expect_text(walk, part):
    save(walk, "has " + part, lambda text: part in text)


def choose_style(walk, module, style):
    """In the model tree: search the module, open the combo box of its row, type the style's name."""
    walk.key("ctrl+f")
    walk.xdotool("type", "--delay", "30", module)
    walk.key("Tab", "Tab", "End", "End", "F2")
    time.sleep(1)  # the list opens; nothing outside the picture tells
    walk.picture("4-style")
    walk.xdotool("type", "--delay", "30", style)
    walk.key("Return")


def save(walk, what, is_so):
    walk.key("ctrl+s")
    walk.until("the saved plan " + what, lambda: is_so(walk.plan.read_text()))
    walk.until("no star in the title once saved", lambda: "*" not in walk.title())


def export(walk, below, suffix):
    """The export dialog: the entry so many below the first, under the name it proposes."""
    file = walk.plan.with_suffix(suffix)
    file.unlink(missing_ok=True)
    walk.key("ctrl+e")
    walk.until("the export dialog", lambda: "Export" in active(walk))
    walk.key(*["Down"] * below)
    walk.key("Return")
    walk.until("the file dialog", lambda: dialogs(walk) > 1)
    walk.key("Return")
    walk.until("the exported " + file.name, lambda: file.exists() and file.stat().st_size > 0)
    walk.key("Escape")
    walk.until("the main window again", lambda: "TPScope" in active(walk))
    return file.read_text()


def active(walk):
    return walk.xdotool("getactivewindow", "getwindowname").strip()


def dialogs(walk):
    return len(walk.xdotool("search", "--onlyvisible", "--name", "^Export$").split())


def run(walk):
    walk.until("the plan in the title", lambda: walk.title().startswith("plan.yaml"))
    walk.picture("1-opened")

    walk.xdotool("mousemove", "--window", walk.window, "700", "300", "click", "1")
    walk.key("ctrl+End", "BackSpace")  # rowwise -> rowwis
    walk.until("a star in the title of a changed plan", lambda: "*" in walk.title())
    save_and_expect(walk, "down_proj: rowwis")

    walk.key("ctrl+Home", "F8")  # to the finding
    time.sleep(1)  # the relint is debounced: nothing outside the picture tells that it ended
    walk.picture("2-broken")
    walk.key("F8", "alt+Return")
    save_and_expect(walk, "down_proj: rowwise")
    walk.picture("3-fixed")

    choose_style(walk, "q_proj", "rowwise")
    save_and_expect_text(walk, "self_attn.q_proj: rowwise\n")
    walk.key("ctrl+1", "ctrl+z")  # one edit, undone in the text
    save_and_expect_text(walk, "self_attn.q_proj: colwise\n")

    walk.key("ctrl+F5")  # compare hooks on real ranks

    walk.until("a run", lambda: running(walk))
    walk.until("the end of the run", lambda: not running(walk), 120)
    time.sleep(1)
    walk.picture("5-compared")
    comparison = export(walk, 5, ".md")
    assert "graph breaks 11" in comparison and "measured" in comparison, comparison
    report = export(walk, 4, ".html")
    assert "down_proj" in report, report[:400]
    walk.picture("6-exported")
    end_in_a_run(walk)


def end_in_a_run(walk):
    """Told to end while ranks compute, as at a logout: nothing of it stays, neither a process nor a file."""
    walk.key("F5")
    walk.until("a run", lambda: running(walk))
    window = walk.processes[-1]
    window.send_signal(signal.SIGTERM)
    walk.until("the end of the window", lambda: window.poll() is not None)
    walk.until("the end of its ranks", lambda: subprocess.run(["pgrep", "-s", str(window.pid)],
                                                              capture_output=True).returncode == 1)
    assert not list(walk.temporary.iterdir()), "left behind: %s" % list(walk.temporary.iterdir())


def running(walk):
    """The program starts each run as a process of its own."""
    return subprocess.run(["pgrep", "-P", str(walk.processes[-1].pid)], capture_output=True).returncode == 0


def main():
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print("walk: %s missing; ./bootstrap installs them" % ", ".join(missing))
        return 1
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if pictures:
        pictures.mkdir(parents=True, exist_ok=True)
    walk = Walk(pictures)
    try:
        walk.begin(sys.argv[1])
        run(walk)
    finally:
        walk.close()
    print("walk: opened, broke, fixed, chose, undid, ran, compared and exported")
    return 0


if __name__ == "__main__":
    sys.exit(main())
